"""What mpls knows of how particular TensorFlow releases save and restore; the other half of `upstream`."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import tensorflow as tf

from mpls.errors import MplsWarning, advise_user
from mpls.patches import Layer, Target, WhileNeeded

__all__ = [
    "RestorePlace",
    "abandon_restore",
    "hook_savers",
    "object_graph_of",
    "object_keys_by_name",
    "place_being_restored",
    "place_of_slot",
    "restore_of_attached",
    "saved_also_as",
]


@dataclass(frozen=True)
class RestorePlace:
    """A place in an object-based checkpoint that TensorFlow is restoring.

    Attributes:
        path: the checkpoint, as the user named it.
        graph: the `TrackableObjectGraph` proto in it.
        node: the index of the object in `graph.nodes`.
        restore: what TensorFlow has of the restore.
    """

    path: str
    graph: Any
    node: int
    restore: Any = field(repr=False)


_RESTORE_MODULE = "tensorflow.python.checkpoint.restore"
_RESTORE_FUNCTION = "_queue_children_for_restoration"
# Overridden methods call each other; deeper down the call is not about restoring any more.
_MOST_FRAMES = 12


def place_being_restored(owner: Any) -> RestorePlace | None:
    """Return the place in a checkpoint from which TensorFlow is restoring an object; None if it is not.

    For `_trackable_children`, `_lookup_dependency` and `_deferred_dependencies` of that object. TensorFlow (2.10 to
    2.21) calls them from one function while it pairs objects with the checkpoint, before it restores any value, and
    hands on neither the path nor what else is in the file.

    Where TensorFlow has changed, so that the place cannot be told, one warning says so, and it restores as it does.

    Args:
        owner: the object whose method asks.
    """
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return None
        if frame.f_globals.get("__name__") == _RESTORE_MODULE:
            break
        frame = frame.f_back
    else:
        return None
    position: Any = frame.f_locals.get("checkpoint_position")
    if frame.f_code.co_name == _RESTORE_FUNCTION and position is not None:
        return _place(position) if getattr(position, "trackable", owner) is owner else None
    # Another function of the module may ask in passing, but only while that one is there to do the work.
    if frame.f_code.co_name == _RESTORE_FUNCTION or not hasattr(sys.modules[_RESTORE_MODULE], _RESTORE_FUNCTION):
        _warn_of_change(frame.f_code.co_name)
    return None


_has_warned_of_change: set[bool] = set()


def _warn_of_change(what: str) -> None:
    if _has_warned_of_change:
        return
    _has_warned_of_change.add(True)
    advise_user(
        f"mpls does not know {_RESTORE_MODULE}.{what} of TensorFlow {tf.__version__}: checkpoints are restored as "
        "TensorFlow does, and not looked at before. Call `mpls inspect PATH` before, and report it, please. "
        "See MIGRATION.md#refused-files",
        MplsWarning,
    )


def place_of_slot(owner: Any, slot_position: Any) -> RestorePlace | None:
    """Return the place from which an optimizer is being restored, seen from one of its slots; None if unknown.

    Args:
        owner: the optimizer.
        slot_position: what `_create_or_restore_slot_variable` gets.
    """
    try:
        found = slot_position.checkpoint.object_by_proto_id
        ids = [proto_id for proto_id, trackable in list(found.items()) if trackable is owner]
        return _place(slot_position.create_child_position(ids[0])) if ids else None
    except AttributeError as error:
        _warn_of_change(str(error.name))
        return None


def _place(position: Any) -> RestorePlace | None:
    try:
        restore = position.checkpoint
        return RestorePlace(restore.save_path_string, restore.object_graph_proto, position.proto_id, restore)
    except AttributeError as error:
        _warn_of_change(str(error.name))
        return None


def abandon_restore(place: RestorePlace) -> None:
    """Have objects that are still to be made forget a restore that was refused: they would get values from it."""
    for trackable in list(place.restore.all_python_objects):
        deferred = trackable._deferred_dependencies
        for name, positions in list(deferred.items()):
            deferred[name] = [each for each in positions if each.checkpoint is not place.restore]
            if not deferred[name]:
                del deferred[name]


def object_graph_of(path: str) -> Any:
    """Return the `TrackableObjectGraph` proto of a checkpoint; None if it cannot be read, or is not object-based."""
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    try:
        reader = tf.train.load_checkpoint(path)
        if not reader.has_tensor("_CHECKPOINTABLE_OBJECT_GRAPH"):
            return None
        serialized = reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH")
    except (tf.errors.OpError, RuntimeError, ValueError):
        # TensorFlow says so itself, when it restores.
        return None
    return trackable_object_graph_pb2.TrackableObjectGraph.FromString(serialized)


def restore_of_attached(look: Callable[[str, dict[str, Any]], None]) -> list[Target]:
    """Return what to patch to look at objects that are attached to a root object, before TensorFlow restores that.

    `tf.train.Checkpoint(root, **attached)`, TensorFlow 2.5 to 2.21, restores the root first, and knows no hook.

    Args:
        look: gets the path and the attached objects by name; what it raises stops the restore.
    """
    from tensorflow.python.checkpoint.checkpoint import TrackableSaver

    def patched(layer: Layer) -> Any:
        @functools.wraps(layer.original)
        def restore(saver: Any, save_path: Any, *args: Any, **kwargs: Any) -> Any:
            attached = {
                each.name: each.ref for each in saver._graph_view.attached_dependencies or () if each.name != "root"
            }
            if layer.is_on and attached and save_path is not None:
                look(os.fspath(save_path), attached)
            return layer.original(saver, save_path, *args, **kwargs)

        return restore

    return [(TrackableSaver, "restore", patched)]


def object_keys_by_name(path: str) -> dict[str, str]:
    """Return where an object-based checkpoint has what a name-based one would have under a variable's name."""
    from tensorflow.python.training import saver

    return dict(saver.object_graph_key_mapping(path))


def hook_savers(
    more_to_save: Callable[[Any], list[Any]], feeds_for: Callable[[Any, Any, str], dict[Any, Any] | Exception]
) -> None:
    """Have `tf.compat.v1.train.Saver` ask two functions, as long as the current graph lives.

    Args:
        more_to_save: gets the variables that a new saver is for, a list or a dict by name; returns `SaveableObject`s to
            save with them.
        feeds_for: gets the graph, the `SaverDef` and the path before a saver restores; returns what to feed to the
            restore op in place of what is in the file, or what the op has to fail with; what it raises stops the
            restore.
    """
    hooks = WhileNeeded(lambda: _saver_targets(more_to_save, feeds_for))
    with tf.init_scope():
        _saver_hooks.setdefault((more_to_save, feeds_for), hooks).hold_for(tf.compat.v1.get_default_graph())


_saver_hooks: dict[Any, WhileNeeded] = {}


def _saver_targets(more_to_save: Any, feeds_for: Any) -> list[Target]:
    saver_class = tf.compat.v1.train.Saver

    def patched_build(layer: Layer) -> Any:
        @functools.wraps(layer.original)
        def build(saver: Any, *args: Any, **kwargs: Any) -> None:
            is_building = not (tf.executing_eagerly() or saver._is_built or saver.saver_def)
            if not (layer.is_on and is_building):
                layer.original(saver, *args, **kwargs)
                return
            own = _all_saveable_objects() if saver._var_list is None else saver._var_list
            more = more_to_save(own)
            saver._var_list = _joined(own, more) if more else own
            if more and saver._builder is None:
                saver._builder = _builder_that_restores_no_copies(saver._write_version)
            try:
                layer.original(saver, *args, **kwargs)
            finally:
                # Which is also what a saver looks for in an object-based checkpoint.
                saver._var_list = own

        return build

    def patched_restore(layer: Layer) -> Any:
        @functools.wraps(layer.original)
        def restore(saver: Any, sess: Any, save_path: Any) -> None:
            feeds: dict[Any, Any] | Exception = {}
            is_restoring = save_path is not None and not tf.executing_eagerly()
            if layer.is_on and is_restoring and saver.saver_def and not saver._is_empty:
                feeds = feeds_for(sess.graph, saver.saver_def, os.fspath(save_path))
            layer.original(saver, _FeedingSession(sess, feeds) if feeds else sess, save_path)

        return restore

    return [(saver_class, "_build", patched_build), (saver_class, "restore", patched_restore)]


class _FeedingSession:
    """A session that feeds some more, or fails."""

    def __init__(self, session: Any, feeds: dict[Any, Any] | Exception) -> None:
        self._session = session
        self._feeds = feeds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def run(self, fetches: Any, feed_dict: Any = None, **kwargs: Any) -> Any:
        if isinstance(self._feeds, Exception):
            raise self._feeds
        return self._session.run(fetches, {**(feed_dict or {}), **self._feeds}, **kwargs)


def _all_saveable_objects() -> list[Any]:
    keys = tf.compat.v1.GraphKeys
    return [
        *tf.compat.v1.get_collection(keys.GLOBAL_VARIABLES),
        *tf.compat.v1.get_collection(keys.SAVEABLE_OBJECTS),
    ]


def _joined(own: Any, more: list[Any]) -> Any:
    return {**own, **{each.name: each for each in more}} if isinstance(own, dict) else [*own, *more]


def _builder_that_restores_no_copies(write_version: Any) -> Any:
    from tensorflow.python.training.saver import BulkSaverBuilder

    class _Builder(BulkSaverBuilder):  # type: ignore[misc]
        def _AddRestoreOps(self, filename_tensor: Any, saveables: list[Any], *args: Any, **kwargs: Any) -> Any:  # noqa: N802
            # They would be read from the file for nothing, and have to be there.
            own = [each for each in saveables if not hasattr(each, "is_copy_of_mpls")]
            return super()._AddRestoreOps(filename_tensor, own, *args, **kwargs)

    return _Builder(write_version)


def saved_also_as(variable: Any, name: str) -> Any:
    """Return a `SaveableObject` by which a saver writes a variable under another name too, and never restores it."""
    from tensorflow.python.training.saving import saveable_object

    class _Copy(saveable_object.SaveableObject):  # type: ignore[misc]
        is_copy_of_mpls = True

        def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
            del restored_tensors, restored_shapes
            return tf.no_op()

    with tf.device(variable.device):
        value = tf.compat.v1.convert_to_tensor(variable)
    return _Copy(value, [saveable_object.SaveSpec(value, "", name, dtype=value.dtype, device=value.device)], name)
