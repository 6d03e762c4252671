"""Object-based checkpoints that users restore with TensorFlow's own calls: what is in them, before any of it is loaded.

While TensorFlow pairs objects with a checkpoint, each object of mpls looks at its place in it, and refuses a state that
no optimizer can have, and that of another kind of optimizer. Nothing has been restored then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from mpls.errors import MplsWarning, SavedStateError, warn_user
from mpls.formats.families import FAMILY_NAMES, Family
from mpls.formats.object_graph import VALUE, Node, ObjectGraph, SlotVariable
from mpls.formats.validity import ANCHOR, check_good_steps, check_scale
from mpls.formats.wrapper_state import STATE
from mpls.patches import WhileNeeded
from mpls.upstream.object_restores import (
    RestorePlace,
    abandon_restore,
    object_graph_of,
    place_being_restored,
    place_of_slot,
    restore_of_attached,
)

__all__ = [
    "SavedObject",
    "check_when_attached",
    "examine",
    "examine_place",
    "examine_slot",
    "is_bare",
    "read_value",
    "refuse_other_family",
    "require_valid_state",
    "warn_of_missing_scale",
]


class _Nodes(Sequence[Node]):
    """The nodes of a proto that TensorFlow has parsed, each made when it is asked for."""

    def __init__(self, proto: Any) -> None:
        self._nodes = proto.nodes

    def __len__(self) -> int:
        return len(self._nodes)

    def __getitem__(self, number: Any) -> Any:
        node = self._nodes[number]
        values = [each for each in node.attributes if each.name == VALUE]
        return Node(
            {child.local_name: child.node_id for child in node.children},
            values[0].full_name if values else None,
            values[0].checkpoint_key if values else None,
            [
                SlotVariable(each.original_variable_node_id, each.slot_name, each.slot_variable_node_id)
                for each in node.slot_variables
            ],
        )


@dataclass(frozen=True)
class SavedObject:
    """An object in a checkpoint that is being restored.

    Attributes:
        path: the checkpoint.
        graph: the objects in it.
        number: which one it is.
    """

    path: str
    graph: ObjectGraph
    number: int

    def child(self, *names: str) -> SavedObject | None:
        """Return an object that this one holds, directly or further down; None if there is none."""
        found = self.graph.child(self.number, *names)
        return None if found is None else SavedObject(self.path, self.graph, found)

    @property
    def family(self) -> Family | None:
        """The family of the optimizer that was saved there, scaled or not; None if it does not say."""
        return self.graph.family_at(self.number)

    @property
    def key(self) -> str:
        """The key of its value in the file, or its place among the objects: `"model/optimizer"`."""
        key = self.graph.nodes[self.number].checkpoint_key
        return key or self.graph.shortest_paths().get(self.number) or "the root object"

    @property
    def subject(self) -> str:
        """File and key, for errors."""
        return f"{self.path}: {self.key}"

    def value(self) -> Any:
        """Return its value, a NumPy array.

        Raises:
            SavedStateError: the file is damaged there, or does not have it.
        """
        return read_value(self.path, self.key)


def read_value(path: str, key: str) -> Any:
    """Return a value in a checkpoint, a NumPy array.

    Raises:
        SavedStateError: the file is damaged there, or does not have it.
    """
    try:
        return tf.train.load_checkpoint(path).get_tensor(key)
    except (tf.errors.OpError, RuntimeError, ValueError, IndexError) as error:
        raise SavedStateError(
            f"{path}: {key} must be readable; got {type(error).__name__} ({error}). The file is damaged: restore an "
            f"older one. See MIGRATION.md#{ANCHOR}"
        ) from error


def _object_at(place: RestorePlace) -> SavedObject:
    return SavedObject(place.path, ObjectGraph(_Nodes(place.graph)), place.node)


def examine(owner: Any, look: Callable[[SavedObject], None]) -> SavedObject | None:
    """Call `look` if TensorFlow is restoring an object from a checkpoint; for its `_trackable_children`.

    Args:
        owner: the object.
        look: gets the object's place in the checkpoint, and raises what must stop the restore.

    Returns:
        The place; None if TensorFlow asks for another reason.
    """
    place = place_being_restored(owner)
    return None if place is None else examine_place(place, look)


def examine_place(place: RestorePlace, look: Callable[[SavedObject], None]) -> SavedObject:
    """Call `look` with a place in a checkpoint that is being restored; if it raises, nothing of it comes later."""
    node = _object_at(place)
    try:
        look(node)
    except SavedStateError:
        abandon_restore(place)
        raise
    return node


def examine_slot(owner: Any, slot_position: Any, look: Callable[[SavedObject], None]) -> None:
    """Call `look` before a slot of an optimizer is restored, which may be before the optimizer's own turn."""
    place = place_of_slot(owner, slot_position)
    if place is not None:
        examine_place(place, look)


def check_when_attached(owner: Any) -> None:
    """Have an object looked at where a user has attached it to another: `tf.train.Checkpoint(model, optimizer=opt)`.

    TensorFlow restores the model, values and all, before it comes to what is attached.

    Args:
        owner: the object. Until it is gone, and all others that this was called with, TensorFlow is patched for it.
    """
    _watch.hold_for(owner)


def _examine_attached(path: str, attached: dict[str, Any]) -> None:
    ours = {name: each for name, each in attached.items() if hasattr(each, "_check_saved_object")}
    graph = object_graph_of(path) if ours else None
    for name, trackable in ours.items() if graph is not None else ():
        node = SavedObject(path, ObjectGraph(_Nodes(graph)), 0).child(name)
        if node is not None:
            trackable._check_saved_object(node)


_watch = WhileNeeded(lambda: restore_of_attached(_examine_attached))


def is_bare(owner: Any, wrapped: str) -> bool:
    """Return whether an optimizer is being restored from one that was saved without loss scaling around it.

    Args:
        owner: the wrapper.
        wrapped: the name of the wrapped optimizer in checkpoints.
    """
    place = place_being_restored(owner)
    return place is not None and _object_at(place).child(wrapped) is None


def require_valid_state(node: SavedObject | None, growth_steps: int | None, names: tuple[str, str] = STATE) -> None:
    """Refuse a scale or a count that no loss scale can have.

    Args:
        node: the object that holds them; None if there is none.
        growth_steps: those of the loss scale that they are for.
        names: those of the scale and of the count in it.

    Raises:
        SavedStateError: the file holds such a number.
    """
    scale, good_steps = names
    held = None if node is None else node.child(scale)
    if held is not None:
        check_scale(held.value(), held.subject)
    held = None if node is None else node.child(good_steps)
    if held is not None:
        check_good_steps(held.value(), held.subject, growth_steps)


def refuse_other_family(node: SavedObject, family: Family) -> None:
    """Refuse the state of another family's optimizer, which would be lost, or read as something else.

    Args:
        node: the place of an optimizer.
        family: the family of the optimizer that is being restored.

    Raises:
        SavedStateError: another family wrote it.
    """
    found = node.family
    if found is None or found == family:
        return
    raise SavedStateError(
        f"{node.subject} must be the state of {FAMILY_NAMES[family]}; got that of {FAMILY_NAMES[found]}. Call "
        f"mpls.convert_state({node.path!r}, opt, variables), and restore the rest without the optimizer. "
        f"See MIGRATION.md#{ANCHOR}"
    )


def warn_of_missing_scale(subject: str, what_happens: str) -> None:
    """Say that what is restored was saved without loss scaling, and what the loss scale does."""
    warn_user(
        f"{subject} holds no loss scale, as it was saved without: the rest is restored, and the loss scale "
        f"{what_happens}. See MIGRATION.md#{ANCHOR}",
        MplsWarning,
    )
