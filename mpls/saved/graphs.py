"""The graph of objects that a checkpoint holds."""

from __future__ import annotations

from mpls.formats.object_graph import GRAPH_KEY, VALUE, Node, ObjectGraph, Slot
from mpls.saved.bundles import Bundle
from mpls.saved.errors import broken, reading_foreign_bytes
from mpls.saved.memory_limits import Budget, field_budget
from mpls.saved.protobuf import as_bytes, as_int, as_text, fields, messages

_LETTERS = 32 << 20
_SMALLEST = 100_000
_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"


class StoredGraph(ObjectGraph):
    """The objects of a checkpoint, in a file from a stranger: no more is read of them than it has.

    Args:
        bundle: a checkpoint with an object graph.

    Raises:
        SavedStateError: the graph is broken.
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
            # Objects may follow each other in a long row.
            self.paths = self.shortest_paths(Budget(_LETTERS + 16 * bundle.size, "letters in paths").spend)
        # Optimizers that share their parts could have few of them read often.
        self._visits = Budget(
            4 * sum(_parts(node) for node in self.nodes) + _SMALLEST, "optimizers on the same objects"
        )

    def _check(self) -> None:
        count = len(self.nodes)
        for node in self.nodes:
            numbers = [*node.children.values()]
            for slot in node.slots:
                numbers += [slot.variable, slot.slot]
            if any(number >= count for number in numbers):
                raise ValueError("it names objects that are not there")

    def value_key(self, number: int) -> str | None:
        """Return the key of a variable's value, if the object is a variable with one."""
        return self.nodes[number].checkpoint_key

    def variable_key(self, number: int) -> str | None:
        """Return a variable's key without what all have at the end."""
        key = self.nodes[number].checkpoint_key
        return None if key is None else key.removesuffix(_SUFFIX)

    def members(self, number: int) -> dict[int, int]:
        """Return the objects of a tracked list by their position.

        Raises:
            SavedStateError: far more is read of the graph than it has.
        """
        self.visit(number)
        if number not in self._members:
            children = self.nodes[number].children
            self._members[number] = {
                int(name): child for name, child in children.items() if name.isdecimal() and len(name) < 10
            }
        return self._members[number]

    def visit(self, number: int) -> None:
        """Note that all parts of an object are gone through.

        Raises:
            SavedStateError: far more is read of the graph than it has.
        """
        with reading_foreign_bytes(self._bundle.path, GRAPH_KEY, "be a graph of a model"):
            self._visits.spend(_parts(self.nodes[number]))

    def named(self, full_name: str | None) -> list[int]:
        """Return the variables of a name that the root leads to."""
        if self._named is None:
            self._named = {}
            for number in sorted(self.paths):
                self._named.setdefault(self.nodes[number].full_name, []).append(number)
        return self._named.get(full_name, [])

    def require(self, number: int, key: str) -> str:
        """Return the key of a variable's value.

        Raises:
            SavedStateError: the object is no variable.
        """
        found = self.nodes[number].checkpoint_key
        if found is None:
            raise broken(self._bundle.path, key, "be a variable with a value", "an object without one")
        return found


def _parts(node: Node) -> int:
    return 4 + len(node.children) + len(node.slots)


def _node(data: memoryview, budget: Budget) -> Node:
    # An object of Python takes as long as several fields.
    budget.spend(4)
    children: dict[str, int] = {}
    slots: list[Slot] = []
    full_name = checkpoint_key = None
    for number, value in fields(data, budget):
        if number not in (1, 2, 3):
            continue
        parts = dict(fields(as_bytes(value), budget))
        if number == 1:
            children[as_text(parts.get(2, _EMPTY))] = as_int(parts.get(1, 0))
        elif number == 2 and as_text(parts.get(1, _EMPTY)) == VALUE:
            full_name, checkpoint_key = as_text(parts.get(2, _EMPTY)), as_text(parts.get(3, _EMPTY))
        elif number == 3:
            slots.append(Slot(as_int(parts.get(1, 0)), as_text(parts.get(2, _EMPTY)), as_int(parts.get(3, 0))))
    return Node(children, full_name, checkpoint_key, slots)


_EMPTY = memoryview(b"")
