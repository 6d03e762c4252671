"""How `tf.compat.v1.train.Saver` saves and restores variables by their names."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from mpls.patches import Layer, Target, WhileNeeded
from mpls.upstream import table
from mpls.upstream.private import ABSENT

__all__ = [
    "hook_savers",
    "object_keys_by_name",
    "saved_also_as",
]


def object_keys_by_name(path: str) -> dict[str, str]:
    """Map variable names to the keys of an object-based checkpoint."""
    keys_by_name = table.OBJECT_KEYS.load()
    return {} if keys_by_name is None else dict(keys_by_name(path))


def hook_savers(
    more_to_save: Callable[[Any], list[Any]], feeds_for: Callable[[Any, Any, str], dict[Any, Any] | Exception]
) -> None:
    """Have `tf.compat.v1.train.Saver` call two functions while the current graph is alive.

    Args:
        more_to_save: gets the variables that a new saver is for, a list or a dict by name; returns `SaveableObject`s to
            save with them.
        feeds_for: gets the graph, the `SaverDef` and the path before a saver restores; returns the values to feed
            to the restore op in place of those in the file, or the error with which the op has to fail; an error that
            it raises stops the restore.
    """
    hooks = WhileNeeded(lambda: _saver_targets(more_to_save, feeds_for))
    with tf.init_scope():
        _saver_hooks.setdefault((more_to_save, feeds_for), hooks).hold_for(tf.compat.v1.get_default_graph())


_saver_hooks: dict[Any, WhileNeeded] = {}


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
    if ABSENT in (variables, builder) or not _can_save_more():
        yield
        return
    own = _all_saveable_objects() if variables is None else variables
    more = more_to_save(own)
    setattr(saver, table.SAVER_VARIABLES.name, _joined(own, more) if more else own)
    if more and builder is None:
        made = _builder_that_restores_no_copies(table.SAVER_VERSION.of(saver, tf.compat.v1.train.SaverDef.V2))
        setattr(saver, table.SAVER_BUILDER.name, made)
    try:
        yield
    finally:
        # A saver also reads this attribute to find the variables in an object-based checkpoint.
        setattr(saver, table.SAVER_VARIABLES.name, own)


def _can_save_more() -> bool:
    parts = [each.load() for each in (table.SAVEABLE, table.SAVE_SPEC, table.BULK_BUILDER)]
    return None not in parts and table.ADD_RESTORE.of(parts[-1]) is not None


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


def _all_saveable_objects() -> list[Any]:
    keys = tf.compat.v1.GraphKeys
    return [
        *tf.compat.v1.get_collection(keys.GLOBAL_VARIABLES),
        *tf.compat.v1.get_collection(keys.SAVEABLE_OBJECTS),
    ]


def _joined(own: Any, more: list[Any]) -> Any:
    return {**own, **{each.name: each for each in more}} if isinstance(own, dict) else [*own, *more]


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
