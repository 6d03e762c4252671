"""The object graph of a checkpoint, read from its bytes."""

from __future__ import annotations

from mpls.formats.object_graph import GRAPH_KEY, VALUE, VALUE_SUFFIX, Node, ObjectGraph, SlotVariable
from mpls.saved.bundles import Bundle
from mpls.saved.errors import broken, reading_foreign_bytes
from mpls.saved.memory_limits import Budget, field_budget
from mpls.saved.protobuf import EMPTY, as_bytes, as_int, as_text, fields, messages

# Letters in all paths of a small checkpoint, and parts of objects that may be gone through in it.
_LETTERS = 32 << 20
_VISITS = 100_000


class StoredGraph(ObjectGraph):
    """The objects of a checkpoint of unknown origin; what reading them costs is limited.

    Args:
        bundle: a checkpoint with an object graph.

    Attributes:
        paths: the path from the root of each object that can be reached from it.

    Raises:
        SavedStateError: the graph is broken, or its paths are too long.
    """

    def __init__(self, bundle: Bundle) -> None:
        data = bundle.text(GRAPH_KEY)
        self._bundle = bundle
        self._members: dict[int, dict[int, int]] = {}
        self._named: dict[str | None, list[int]] | None = None
        with reading_foreign_bytes(bundle.path, GRAPH_KEY, "be a whole object graph"):
            budget = field_budget(bundle.size)
            super().__init__([_node(node, budget) for node in messages(data, 1, budget)])
            self._check()
            # In a long chain of objects, the paths grow with the square of its length.
            self.paths = self.shortest_paths(Budget(_LETTERS + 16 * bundle.size, "letters in paths").spend)
        # Many optimizers may share the same objects, each of which is then read again for each optimizer.
        self._visits = Budget(4 * sum(_parts(node) for node in self.nodes) + _VISITS, "optimizers on the same objects")

    def _check(self) -> None:
        count = len(self.nodes)
        for node in self.nodes:
            numbers = [*node.children.values()]
            for slot in node.slots:
                numbers += [slot.variable, slot.slot]
            if any(number >= count for number in numbers):
                raise ValueError("it names objects that are not there")

    def value_key(self, number: int) -> str | None:
        """Return the checkpoint key of a variable's value; None if the object is not a variable."""
        return self.nodes[number].checkpoint_key

    def variable_key(self, number: int) -> str | None:
        """Return the checkpoint key of a variable without the suffix that all have; None if it is not a variable."""
        key = self.nodes[number].checkpoint_key
        return None if key is None else key.removesuffix(VALUE_SUFFIX)

    def members(self, number: int) -> dict[int, int]:
        """Return the objects of a tracked list by their positions.

        Raises:
            SavedStateError: as with `visit`.
        """
        self.visit(number)
        if number not in self._members:
            children = self.nodes[number].children
            self._members[number] = {
                int(name): child for name, child in children.items() if name.isdecimal() and len(name) < 10
            }
        return self._members[number]

    def visit(self, number: int) -> None:
        """Note that all children and slots of an object are read.

        Raises:
            SavedStateError: together far more objects have been read than the graph has.
        """
        with reading_foreign_bytes(self._bundle.path, GRAPH_KEY, "be a graph of a model"):
            self._visits.spend(_parts(self.nodes[number]))

    def named(self, full_name: str | None) -> list[int]:
        """Return the variables with a full name, among the objects that can be reached from the root."""
        if self._named is None:
            self._named = {}
            for number in sorted(self.paths):
                self._named.setdefault(self.nodes[number].full_name, []).append(number)
        return self._named.get(full_name, [])

    def require(self, number: int, key: str) -> str:
        """Return the checkpoint key of a variable's value.

        Args:
            number: the variable.
            key: its path, for the error.

        Raises:
            SavedStateError: the object is not a variable.
        """
        found = self.nodes[number].checkpoint_key
        if found is None:
            raise broken(self._bundle.path, key, "be a variable with a value", "an object without one")
        return found


def _parts(node: Node) -> int:
    return 4 + len(node.children) + len(node.slots)


def _node(data: memoryview, budget: Budget) -> Node:
    # Making a Python object takes as long as reading several fields.
    budget.spend(4)
    children: dict[str, int] = {}
    slots: list[SlotVariable] = []
    full_name = checkpoint_key = None
    for number, value in fields(data, budget):
        if number not in (1, 2, 3):
            continue
        parts = dict(fields(as_bytes(value), budget))
        if number == 1:
            children[as_text(parts.get(2, EMPTY))] = as_int(parts.get(1, 0))
        elif number == 2 and as_text(parts.get(1, EMPTY)) == VALUE:
            full_name, checkpoint_key = as_text(parts.get(2, EMPTY)), as_text(parts.get(3, EMPTY))
        elif number == 3:
            slots.append(SlotVariable(as_int(parts.get(1, 0)), as_text(parts.get(2, EMPTY)), as_int(parts.get(3, 0))))
    return Node(children, full_name, checkpoint_key, slots)
