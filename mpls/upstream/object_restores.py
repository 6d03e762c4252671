"""How TensorFlow restores object-based checkpoints."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import tensorflow as tf

from mpls.formats.object_graph import GRAPH_KEY
from mpls.patches import Layer, Target
from mpls.upstream import restore_table as table
from mpls.upstream.trackables import awaited_parts_of

__all__ = [
    "RestorePlace",
    "abandon_restore",
    "object_graph_of",
    "place_being_restored",
    "place_of_slot",
    "restore_of_attached",
]


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


def object_graph_of(path: str) -> Any:
    """Return the `TrackableObjectGraph` proto of a checkpoint; None if it cannot be read, or is not object-based."""
    graph = table.OBJECT_GRAPH.load()
    if graph is None:
        return None
    try:
        reader = tf.train.load_checkpoint(path)
        if not reader.has_tensor(GRAPH_KEY):
            return None
        serialized = reader.get_tensor(GRAPH_KEY)
    except (tf.errors.OpError, RuntimeError, ValueError):
        # TensorFlow raises its own error when it restores.
        return None
    return graph.FromString(serialized)


def restore_of_attached(look: Callable[[str, dict[str, Any]], None]) -> list[Target]:
    """Return the patch that calls a function with the objects attached to a root, before TensorFlow restores the root.

    `tf.train.Checkpoint(root, **attached)`, TensorFlow 2.5 to 2.21, restores the root first, and has no hook for this.

    Args:
        look: gets the path and the attached objects by name; what it raises stops the restore.
    """
    saver_class = table.TRACKABLE_SAVER.load()
    if saver_class is None:
        return []

    def patched(layer: Layer) -> Any:
        @functools.wraps(layer.original)
        def restore(saver: Any, save_path: Any, *args: Any, **kwargs: Any) -> Any:
            view = table.ATTACHED.of(saver)
            parts = () if view is None else view.attached_dependencies or ()
            attached = {each.name: each.ref for each in parts if each.name != "root"}
            if layer.is_on and attached and save_path is not None:
                look(os.fspath(save_path), attached)
            return layer.original(saver, save_path, *args, **kwargs)

        return restore

    return [(saver_class, "restore", patched)]
