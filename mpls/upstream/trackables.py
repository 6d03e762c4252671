"""How TensorFlow saves and restores: trackable objects and their checkpoints, and `tf.compat.v1.train.Saver`."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import tensorflow as tf

from mpls.patches import ABSENT, Layer, Replacements, Target
from mpls.upstream import table
from mpls.upstream.table import look_up


def _internal(name: str) -> Any:
    return look_up(look_up(tf, "__internal__"), name)


# The base class of all trackable objects.
Trackable: Any = table.TRACKABLE.of(_internal("tracking")) or tf.Module.__mro__[-2]
# The class of objects that track their attributes.
AutoTrackable: Any = tf.Module.__base__


def track_list(owner: Any, name: str, values: list[Any]) -> None:
    """Set a tracked list attribute, bypassing the `__setattr__` of the owner's class."""
    wrap = table.WRAP.of(_internal("tracking"))
    owner.__dict__[name] = values if wrap is None else wrap(values)
    if wrap is not None:
        track(owner, owner.__dict__[name], name, overwrite=True)


def track(owner: Any, part: Any, name: str, *, overwrite: bool = False) -> None:
    """Track an object as a child of another, under a name."""
    add = table.TRACK.of(owner)
    if add is not None:
        add(part, name, overwrite=overwrite)


def parts_of(owner: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return the trackable children of an object by name; arguments are TensorFlow's."""
    children = table.CHILDREN.of(owner)
    return {} if children is None else children(*args, **kwargs)


def part_of(owner: Any, name: str) -> Any:
    """Return the trackable child of an object under a name; None if there is none."""
    look_for = table.LOOKUP.of(owner)
    return None if look_for is None else look_for(name)


def awaited_parts_of(owner: Any) -> Any:
    """Return the deferred dependencies of an object: the checkpoint positions of future children, by name."""
    return table.DEFERRED.of(owner, {})


def restore_awaited(owner: Any, name: str, part: Any) -> None:
    """Restore a new child of an object from a checkpoint that was restored before the child existed."""
    restore = table.HANDLE_DEFERRED.of(owner)
    if restore is not None:
        restore(name=name, trackable=part)


def show_in_place_of(owner: Any, part: Any) -> None:
    """Have object-based checkpoints see the wrapped optimizer instead of the wrapper, as tf_keras' own wrappers do."""
    # The attribute is that of DelegatingTrackableMixin, their base class (TensorFlow 2.4 to 2.21), whose own `__init__`
    # would track it.
    vars(owner)["_trackable"] = part


@dataclass(frozen=True)
class RestorePlace:
    """A place in an object-based checkpoint that TensorFlow is restoring.

    Attributes:
        path: the checkpoint, as the user named it.
        graph: the `TrackableObjectGraph` proto in it.
        node: the index of the object in `graph.nodes`.
        restore: TensorFlow's object for the restore.
    """

    path: str
    graph: Any
    node: int
    restore: Any = field(repr=False)

    @property
    def paired(self) -> Mapping[int, Any]:
        """The objects that TensorFlow has paired with the checkpoint so far, by their index in `graph.nodes`."""
        paired: Mapping[int, Any] = table.ALL_PAIRED.of(self.restore, {})
        return paired


_RESTORE_MODULE = table.PAIRING.owner
# The most frames between the function that pairs and the methods, which call each other where they are overridden.
_MOST_FRAMES = 12


def place_being_restored(owner: Any) -> RestorePlace | None:
    """Return the place in a checkpoint from which TensorFlow is restoring an object; None if it is not.

    For `_trackable_children`, `_lookup_dependency` and `_deferred_dependencies` of that object. TensorFlow (2.10 to
    2.21) calls them from one function while it pairs objects with the checkpoint, before it restores any value, and
    passes neither the path nor the object graph.

    If TensorFlow has changed so that the place cannot be found, there is one warning, and TensorFlow restores as usual.

    Args:
        owner: the object whose method asks.
    """
    if table.PAIRING.of(sys.modules.get(_RESTORE_MODULE)) is None:
        return None
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return None
        if frame.f_globals.get("__name__") == _RESTORE_MODULE:
            break
        frame = frame.f_back
    else:
        return None
    if frame.f_code.co_name != table.PAIRING.name:
        # Other functions of the module may call the methods too.
        return None
    position: Any = frame.f_locals.get(table.PLACE.name)
    if position is None:
        table.PLACE.warn_that_it_is_gone()
        return None
    return _place(position) if table.PAIRED.of(position) is owner else None


def place_of_slot(owner: Any, slot_position: Any) -> RestorePlace | None:
    """Return the place from which an optimizer is being restored, given one of its slots; None if unknown.

    Args:
        owner: the optimizer.
        slot_position: what `_create_or_restore_slot_variable` gets.
    """
    run = table.RUN.of(slot_position)
    if run is None:
        return None
    paired: Any = table.ALL_PAIRED.of(run, {})
    ids = [proto_id for proto_id, trackable in list(paired.items()) if trackable is owner]
    child_of = table.CHILD.of(slot_position) if ids else None
    return None if child_of is None else _place(child_of(ids[0]))


def _place(position: Any) -> RestorePlace | None:
    run = table.RUN.of(position)
    if run is None:
        return None
    path, graph, node = table.PATH.of(run), table.GRAPH.of(run), table.NODE.of(position)
    return None if path is None or graph is None or node is None else RestorePlace(path, graph, node, run)


def abandon_restore(place: RestorePlace) -> None:
    """Drop the deferred values of a refused restore, which objects that are created later would get."""
    for trackable in list(table.TOUCHED.of(place.restore, ())):
        deferred = awaited_parts_of(trackable)
        for name, positions in list(deferred.items()):
            deferred[name] = [each for each in positions if table.RUN.of(each) is not place.restore]
            if not deferred[name]:
                del deferred[name]


def object_keys_by_name(path: str) -> dict[str, str]:
    """Map variable names to the keys of an object-based checkpoint."""
    keys_by_name = table.OBJECT_KEYS.load()
    return {} if keys_by_name is None else dict(keys_by_name(path))


def hook_savers(
    more_to_save: Callable[[Any], list[Any]], feeds_for: Callable[[Any, Any, str], dict[Any, Any] | Exception]
) -> None:
    """Have `tf.compat.v1.train.Saver` call two functions from now on.

    Args:
        more_to_save: gets the variables that a new saver is for, a list or a dict by name; returns `SaveableObject`s to
            save with them.
        feeds_for: gets the graph, the `SaverDef` and the path before a saver restores; returns the values to feed
            to the restore op in place of those in the file, or the error with which the op has to fail; an error that
            it raises stops the restore.
    """
    hooks = Replacements(lambda: _saver_targets(more_to_save, feeds_for))
    _saver_hooks.setdefault((more_to_save, feeds_for), hooks).put()


_saver_hooks: dict[Any, Replacements] = {}


def _saver_targets(more_to_save: Any, feeds_for: Any) -> list[Target]:
    saver_class = tf.compat.v1.train.Saver
    if table.SAVER_BUILD.of(saver_class) is None:
        return []

    def patched_build(layer: Layer) -> Any:
        @functools.wraps(layer.original)
        def build(saver: Any, *args: Any, **kwargs: Any) -> None:
            is_building = not (tf.executing_eagerly() or table.SAVER_IS_BUILT.of(saver, True) or saver.saver_def)
            if layer.is_on and is_building:
                with _saving_more(saver, more_to_save):
                    layer.original(saver, *args, **kwargs)
            else:
                layer.original(saver, *args, **kwargs)

        return build

    def patched_restore(layer: Layer) -> Any:
        @functools.wraps(layer.original)
        def restore(saver: Any, sess: Any, save_path: Any) -> None:
            feeds: dict[Any, Any] | Exception = {}
            is_restoring = save_path is not None and not tf.executing_eagerly()
            if layer.is_on and is_restoring and saver.saver_def and not table.SAVER_IS_EMPTY.of(saver, True):
                feeds = feeds_for(sess.graph, saver.saver_def, os.fspath(save_path))
            layer.original(saver, _FeedingSession(sess, feeds) if feeds else sess, save_path)

        return restore

    return [(saver_class, table.SAVER_BUILD.name, patched_build), (saver_class, "restore", patched_restore)]


@contextmanager
def _saving_more(saver: Any, more_to_save: Callable[[Any], list[Any]]) -> Iterator[None]:
    """Add variables to a Saver while it is being built."""
    variables = table.SAVER_VARIABLES.of(saver, ABSENT)
    builder = table.SAVER_BUILDER.of(saver, ABSENT)
    is_known = ABSENT not in (variables, builder)
    parts = [each.load() for each in (table.SAVEABLE, table.SAVE_SPEC, table.BULK_BUILDER)] if is_known else [None]
    if None in parts or table.ADD_RESTORE.of(parts[-1]) is None:
        yield
        return
    if variables is None:
        keys = tf.compat.v1.GraphKeys
        known = (keys.GLOBAL_VARIABLES, keys.SAVEABLE_OBJECTS)
        variables = [each for key in known for each in tf.compat.v1.get_collection(key)]
    own = variables
    more = more_to_save(own)
    joined = own
    if more:
        joined = {**own, **{each.name: each for each in more}} if isinstance(own, dict) else [*own, *more]
    setattr(saver, table.SAVER_VARIABLES.name, joined)
    if more and builder is None:
        made = _builder_that_restores_no_copies(table.SAVER_VERSION.of(saver, tf.compat.v1.train.SaverDef.V2))
        setattr(saver, table.SAVER_BUILDER.name, made)
    try:
        yield
    finally:
        # A saver also reads this attribute to find the variables in an object-based checkpoint.
        setattr(saver, table.SAVER_VARIABLES.name, own)


class _FeedingSession:
    """A session that adds feeds to each run, or fails."""

    def __init__(self, session: Any, feeds: dict[Any, Any] | Exception) -> None:
        self._session = session
        self._feeds = feeds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def run(self, fetches: Any, feed_dict: Any = None, **kwargs: Any) -> Any:
        if isinstance(self._feeds, Exception):
            raise self._feeds
        return self._session.run(fetches, {**(feed_dict or {}), **self._feeds}, **kwargs)


def _builder_that_restores_no_copies(write_version: Any) -> Any:
    base: Any = table.BULK_BUILDER.needed()

    class _Builder(base):  # type: ignore[misc]
        def _AddRestoreOps(self, filename_tensor: Any, saveables: list[Any], *args: Any, **kwargs: Any) -> Any:  # noqa: N802
            # Do not read copies: nothing is restored from them, and a file without them would be an error.
            own = [each for each in saveables if not hasattr(each, "is_copy_of_mpls")]
            return super()._AddRestoreOps(filename_tensor, own, *args, **kwargs)

    return _Builder(write_version)


def saved_also_as(variable: Any, name: str) -> Any:
    """Return a `SaveableObject` that writes a variable under a second name, and is never restored."""
    base: Any = table.SAVEABLE.needed()
    spec = table.SAVE_SPEC.needed()

    class _Copy(base):  # type: ignore[misc]
        is_copy_of_mpls = True

        def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
            del restored_tensors, restored_shapes
            return tf.no_op()

    with tf.device(variable.device):
        value = tf.compat.v1.convert_to_tensor(variable)
    return _Copy(value, [spec(value, "", name, dtype=value.dtype, device=value.device)], name)
