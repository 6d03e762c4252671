"""Object-based checkpoints that users restore with TensorFlow's own calls: what is in them, before any of it is loaded.

While TensorFlow pairs objects with a checkpoint, each object of mpls looks at its place in it, and refuses a state that
no optimizer can have, and that of another kind of optimizer. Nothing has been restored then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from mpls.errors import MplsWarning, SavedStateError, warn_user
from mpls.formats.families import FAMILY_NAMES, family_of_object
from mpls.formats.validity import ANCHOR, check_good_steps, check_scale
from mpls.patches import WhileNeeded
from mpls.upstream_saving import (
    RestorePlace,
    abandon_restore,
    object_graph_of,
    place_being_restored,
    place_of_slot,
    restore_of_attached,
)

__all__ = [
    "Node",
    "examine",
    "examine_place",
    "examine_slot",
    "family_of",
    "is_bare",
    "read_value",
    "refuse_other_family",
    "require_valid_state",
    "warn_of_fresh_scale",
    "watch_attached",
]


@dataclass(frozen=True)
class Node:
    """An object in a checkpoint.

    Attributes:
        path: the checkpoint.
        graph: the `TrackableObjectGraph` proto in it.
        id: the object's index there.
    """

    path: str
    graph: Any
    id: int

    @property
    def children(self) -> dict[str, int]:
        """The indices of the objects that this one holds, by name."""
        return {child.local_name: child.node_id for child in self.graph.nodes[self.id].children}

    @property
    def has_slots(self) -> bool:
        """Whether it is an optimizer with slots, of those that keep them outside of their own variables."""
        return bool(self.graph.nodes[self.id].slot_variables)

    def child(self, *names: str) -> Node | None:
        """Return an object that this one holds, directly or further down; None if there is none."""
        found: Node | None = self
        for name in names:
            index = None if found is None else found.children.get(name)
            found = None if index is None else Node(self.path, self.graph, index)
        return found

    @property
    def key(self) -> str:
        """The key of its value in the file, or its place among the objects: `"model/optimizer"`."""
        attributes = self.graph.nodes[self.id].attributes
        return str(attributes[0].checkpoint_key) if attributes else self._way_from_root()

    def _way_from_root(self) -> str:
        ways = {0: ""}
        queue = [0]
        for index in queue:
            for child in self.graph.nodes[index].children:
                if child.node_id not in ways:
                    ways[child.node_id] = f"{ways[index]}/{child.local_name}".lstrip("/")
                    queue.append(child.node_id)
        return ways.get(self.id) or "the root object"

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


def examine(owner: Any, look: Callable[[Node], None]) -> Node | None:
    """Call `look` if TensorFlow is restoring an object from a checkpoint; for its `_trackable_children`.

    Args:
        owner: the object.
        look: gets the object's place in the checkpoint, and raises what must stop the restore.

    Returns:
        The place; None if TensorFlow asks for another reason.
    """
    place = place_being_restored(owner)
    return None if place is None else examine_place(place, look)


def examine_place(place: RestorePlace, look: Callable[[Node], None]) -> Node:
    """Call `look` with a place in a checkpoint that is being restored; if it raises, nothing of it comes later."""
    node = Node(place.path, place.graph, place.node)
    try:
        look(node)
    except SavedStateError:
        abandon_restore(place)
        raise
    return node


def examine_slot(owner: Any, slot_position: Any, look: Callable[[Node], None]) -> None:
    """Call `look` before a slot of an optimizer is restored, which may be before the optimizer's own turn."""
    place = place_of_slot(owner, slot_position)
    if place is not None:
        examine_place(place, look)


def watch_attached(owner: Any) -> None:
    """Have an object looked at where a user has attached it to another: `tf.train.Checkpoint(model, optimizer=opt)`.

    TensorFlow restores the model, values and all, before it comes to what is attached.

    Args:
        owner: the object. Until it is gone, and all others that this was called with, TensorFlow is patched for it.
    """
    _watch.hold_for(owner)


def _examine_attached(path: str, attached: dict[str, Any]) -> None:
    ours = {name: each for name, each in attached.items() if hasattr(each, "_look_at_arriving")}
    graph = object_graph_of(path) if ours else None
    for name, trackable in ours.items() if graph is not None else ():
        node = Node(path, graph, 0).child(name)
        if node is not None:
            trackable._look_at_arriving(node)


_watch = WhileNeeded(lambda: restore_of_attached(_examine_attached))


def is_bare(owner: Any, wrapped: str) -> bool:
    """Return whether an optimizer is being restored from one that was saved without loss scaling around it.

    Args:
        owner: the wrapper.
        wrapped: the name of the wrapped optimizer in checkpoints.
    """
    place = place_being_restored(owner)
    return place is not None and Node(place.path, place.graph, place.node).child(wrapped) is None


def require_valid_state(
    node: Node | None, growth_steps: int | None, scale: str = "current_loss_scale", good_steps: str = "good_steps"
) -> None:
    """Refuse a scale or a count that no loss scale can have.

    Args:
        node: the object that holds them; None if there is none.
        growth_steps: those of the loss scale that they are for.
        scale: the name of the scale in it.
        good_steps: the name of the count.

    Raises:
        SavedStateError: the file holds such a number.
    """
    held = None if node is None else node.child(scale)
    if held is not None:
        check_scale(held.value(), held.subject)
    held = None if node is None else node.child(good_steps)
    if held is not None:
        check_good_steps(held.value(), held.subject, growth_steps)


def family_of(node: Node) -> str | None:
    """Return which family's optimizer, scaled or not, was saved there: `'v1'`, `'legacy'`, `'new'` or `'keras3'`.

    None if it does not say: nothing but plain SGD is saved, say, or it is an optimizer of a user's own.
    """
    if node.child("inner_optimizer") is not None:
        return "keras3"
    base = node.child("base_optimizer")
    found = family_of_object(node.children, has_slots=node.has_slots)
    # Wrappers of TF 2.3 and later have the state of what they wrap beside it.
    return family_of(base) if base is not None and found in (None, "v1") else found


def refuse_other_family(node: Node, family: str) -> None:
    """Refuse the state of another family's optimizer, which would be lost, or read as something else.

    Args:
        node: the place of an optimizer.
        family: the family of the optimizer that is being restored.

    Raises:
        SavedStateError: another family wrote it.
    """
    found = family_of(node)
    if found in (None, family):
        return
    raise SavedStateError(
        f"{node.subject} must be the state of {FAMILY_NAMES[family]}; got that of {FAMILY_NAMES[str(found)]}. Call "
        f"mpls.convert_state({node.path!r}, opt, variables), and restore the rest without the optimizer. "
        f"See MIGRATION.md#{ANCHOR}"
    )


def warn_of_fresh_scale(subject: str, scale: float) -> None:
    """Say that what is restored was saved without loss scaling."""
    warn_user(
        f"{subject} holds no loss scale, as it was saved without: the rest is restored, and the loss scale starts "
        f"fresh, at {scale}. See MIGRATION.md#{ANCHOR}",
        MplsWarning,
    )
