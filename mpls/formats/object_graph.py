"""The objects in a checkpoint: how they hold each other, which are optimizers and whose, where a loss scale is.

A node is made of the bytes of a file (`mpls/saved/graphs.py`), or of what TensorFlow has parsed while it restores
(`mpls/core/persistence/object_checkpoints.py`); what it means is told here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mpls.formats.record import Family

__all__ = ["GRAPH_KEY", "LOSS_SCALE", "STATE", "STATE_OF_KERAS_3", "VALUE", "WRAPPED", "Node", "ObjectGraph", "Slot"]

# The key of the graph in a checkpoint, and the name of a variable's value among the attributes of its node.
GRAPH_KEY, VALUE = "_CHECKPOINTABLE_OBJECT_GRAPH", "VARIABLE_VALUE"
# Under which names wrappers hold the optimizer, and the loss scale; those over Keras 3 hold the latter's two variables.
WRAPPED, LOSS_SCALE = ("base_optimizer", "inner_optimizer"), "loss_scale"
STATE, STATE_OF_KERAS_3 = ("current_loss_scale", "good_steps"), ("dynamic_scale", "step_counter")


@dataclass(frozen=True)
class Slot:
    """That a node has a variable beside another one: their numbers, and the slot's name."""

    variable: int
    name: str
    slot: int


@dataclass(frozen=True)
class Node:
    """An object.

    Attributes:
        children: the numbers of the objects that it tracks, by local name.
        full_name: a variable's name; None for anything else.
        checkpoint_key: under which a variable's value is saved; None for anything else.
        slots: its slots, if it is an optimizer that does not hold them as children.
    """

    children: Mapping[str, int] = field(default_factory=dict)
    full_name: str | None = None
    checkpoint_key: str | None = None
    slots: Sequence[Slot] = ()


class ObjectGraph:
    """The objects of a checkpoint, of which the first is the root.

    Args:
        nodes: the objects.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes

    def child(self, number: int, *names: str) -> int | None:
        """Return the object that another one tracks under a name, or under these, further down; None if none is."""
        found: int | None = number
        for name in names:
            found = None if found is None else self.nodes[found].children.get(name)
        return found

    def wrapped_by(self, number: int) -> int | None:
        """Return the optimizer that a wrapper wraps; None if the object is no wrapper."""
        found = (self.child(number, name) for name in WRAPPED)
        return next((each for each in found if each is not None), None)

    def holder_of_state(self, number: int) -> int:
        """Return the object that has the state of an optimizer.

        That is the wrapped one of a wrapper; but from TF 2.3 on a wrapper over a legacy one has its state itself.
        """
        wrapped = self.wrapped_by(number)
        return number if wrapped is None or self.own_family_at(wrapped) is None else wrapped

    def family_at(self, number: int) -> Family | None:
        """Return the family of an optimizer, wrapped or not; None for what is no optimizer, or does not say.

        It does not say if nothing but plain SGD is saved, or an optimizer of a user's own.
        """
        return self.own_family_at(self.holder_of_state(number))

    def own_family_at(self, number: int) -> Family | None:
        """Return the same of an object by itself, whatever it wraps."""
        node = self.nodes[number]
        return _family_of_children(node.children, has_slots=bool(node.slots))

    def scale_and_counter(self, number: int) -> tuple[int | None, int | None]:
        """Return the variables of a wrapper's dynamic loss scale; None for one that is not there."""
        if self.child(number, "inner_optimizer") is not None:
            scale, counter = (self.child(number, name) for name in STATE_OF_KERAS_3)
        else:
            scale, counter = (self.child(number, LOSS_SCALE, name) for name in STATE)
        return scale, counter

    def shortest_paths(self, spend: Callable[[int], object] = lambda _: None) -> dict[int, str]:
        """Return where each object is, as TensorFlow names it: by the shortest way from the root.

        Args:
            spend: gets the number of letters of each path before the next one is made.
        """
        paths = {0: ""} if len(self.nodes) else {}
        queue = list(paths)
        for number in queue:
            for name, child in self.nodes[number].children.items():
                if child not in paths:
                    paths[child] = f"{paths[number]}/{_escaped(name)}".lstrip("/")
                    spend(len(paths[child]))
                    queue.append(child)
        return paths


def _family_of_children(children: Collection[str], *, has_slots: bool) -> Family | None:
    # Slots beside it have those that do not hold them themselves, as new ones and those of Keras 3 do.
    if "_iterations" in children and "_variables" in children:
        return "keras3" if "_trainable_variables" in children else "new"
    if "iter" in children:
        return "legacy"
    return "v1" if has_slots or "beta1_power" in children else None


def _escaped(name: str) -> str:
    return name.replace(".", "..").replace("/", ".S")
