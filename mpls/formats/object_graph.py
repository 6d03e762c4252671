"""The object graph of a checkpoint: which objects are optimizers, of which family, and where their loss scales are.

`mpls/saved/checkpoints.py` makes the nodes from the bytes of a file, `mpls/core/state_checks.py` from the proto that
TensorFlow has parsed while it restores.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mpls.formats.algorithms import BETA_1_POWER
from mpls.formats.families import Family
from mpls.formats.wrapper_state import INNER_OPTIMIZER, LOSS_SCALE, STATE, STATE_OF_KERAS_3, WRAPPED

# The checkpoint key of the graph, the attribute of a variable's node that holds its value, and the end of the value's
# checkpoint key.
GRAPH_KEY, VALUE = "_CHECKPOINTABLE_OBJECT_GRAPH", "VARIABLE_VALUE"
VALUE_SUFFIX = f"/.ATTRIBUTES/{VALUE}"
# The child of an optimizer that counts its steps; v1 optimizers have none.
ITERATIONS: Mapping[Family, str] = {"legacy": "iter", "new": "_iterations", "keras3": "_iterations"}
# Children of new and Keras 3 optimizers: the learning rate; the lists of all their variables and, in Keras 3, of those
# that they train; and all that are lists, but not of slots.
LEARNING_RATES = ("_learning_rate", "_current_learning_rate")
VARIABLES, TRAINABLE_VARIABLES = "_variables", "_trainable_variables"
BOOKKEEPING = (VARIABLES, TRAINABLE_VARIABLES, "_trainable_variables_indices", "_index_dict")


@dataclass(frozen=True)
class SlotVariable:
    """A slot of an optimizer: the number of the trained variable, the slot's name, the number of the slot variable."""

    variable: int
    name: str
    slot: int


@dataclass(frozen=True)
class Node:
    """An object in a checkpoint.

    Attributes:
        children: the numbers of the objects that it tracks, by local name.
        full_name: a variable's name; None for other objects.
        checkpoint_key: the key under which a variable's value is saved; None for other objects.
        slots: the slots of an optimizer that does not track them as children.
    """

    children: Mapping[str, int] = field(default_factory=dict)
    full_name: str | None = None
    checkpoint_key: str | None = None
    slots: Sequence[SlotVariable] = ()


class ObjectGraph:
    """The objects of a checkpoint. Methods take and return their numbers, which are their positions in `nodes`.

    Args:
        nodes: the objects; the first is the root.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes

    def child(self, number: int, *names: str) -> int | None:
        """Return the object at a path of local names below an object; None if there is none."""
        found: int | None = number
        for name in names:
            found = None if found is None else self.nodes[found].children.get(name)
        return found

    def wrapped_by(self, number: int) -> int | None:
        """Return the optimizer that a wrapper wraps; None if the object is not a wrapper."""
        found = (self.child(number, name) for name in WRAPPED)
        return next((each for each in found if each is not None), None)

    def holder_of_state(self, number: int) -> int:
        """Return the object that tracks the state of an optimizer, wrapped or not.

        For a wrapper, that is the wrapped optimizer. But from TF 2.3 on, a wrapper over a legacy optimizer tracks the
        optimizer's state itself.
        """
        wrapped = self.wrapped_by(number)
        return number if wrapped is None or self.own_family_at(wrapped) is None else wrapped

    def family_at(self, number: int) -> Family | None:
        """Return the family of an optimizer, wrapped or not; None for other objects, and where it cannot be told.

        It cannot be told from a v1 optimizer without slots, such as plain SGD, nor from many optimizers of users.
        """
        return self.own_family_at(self.holder_of_state(number))

    def own_family_at(self, number: int) -> Family | None:
        """Return the family told by an object's own children and slots; None as for `family_at`."""
        node = self.nodes[number]
        family = _family_of_children(node.children, has_slots=bool(node.slots))
        # A wrapper of a v1 optimizer leaves the slots to that. One over a legacy optimizer lacks the counter of steps
        # if it was restored and saved again before its first step.
        return "legacy" if family == "v1" and self.wrapped_by(number) is not None else family

    def scale_and_counter(self, number: int) -> tuple[int | None, int | None]:
        """Return the two variables of a wrapper's dynamic loss scale, each None if it is not there."""
        if self.child(number, INNER_OPTIMIZER) is not None:
            scale, counter = (self.child(number, name) for name in STATE_OF_KERAS_3)
        else:
            scale, counter = (self.child(number, LOSS_SCALE, name) for name in STATE)
        return scale, counter

    def shortest_paths(self) -> dict[int, str]:
        """Return the path of each reachable object from the root: a shortest one, written as in checkpoint keys."""
        paths = {0: ""} if len(self.nodes) else {}
        queue = list(paths)
        for number in queue:
            for name, child in self.nodes[number].children.items():
                if child not in paths:
                    paths[child] = f"{paths[number]}/{_escaped(name)}".lstrip("/")
                    queue.append(child)
        return paths


def _family_of_children(children: Collection[str], *, has_slots: bool) -> Family | None:
    # New and Keras 3 optimizers track their slots as children; legacy and v1 optimizers have slot entries instead.
    if ITERATIONS["new"] in children and VARIABLES in children:
        return "keras3" if TRAINABLE_VARIABLES in children else "new"
    if ITERATIONS["legacy"] in children:
        return "legacy"
    return "v1" if has_slots or BETA_1_POWER in children else None


def _escaped(name: str) -> str:
    return name.replace(".", "..").replace("/", ".S")
