"""The object graph of a checkpoint, read from its bytes."""

from __future__ import annotations

from typing import Any

from mpls.formats.object_graph import GRAPH_KEY, VALUE, VALUE_SUFFIX, Node, ObjectGraph, SlotVariable
from mpls.saved.bundles import Bundle
from mpls.saved.errors import broken, reading_foreign_bytes
from mpls.saved.messages import parse


class StoredGraph(ObjectGraph):
    """The objects of a checkpoint.

    Args:
        bundle: a checkpoint with an object graph.

    Attributes:
        paths: the path from the root of each object that can be reached from it.

    Raises:
        SavedStateError: the graph is broken.
    """

    def __init__(self, bundle: Bundle) -> None:
        data = bundle.text(GRAPH_KEY)
        self._bundle = bundle
        self._members: dict[int, dict[int, int]] = {}
        self._named: dict[str | None, list[int]] | None = None
        with reading_foreign_bytes(bundle.path, GRAPH_KEY, "be a whole object graph"):
            super().__init__([_node(each) for each in parse("ObjectGraph", data).nodes])
            self._check()
            self.paths = self.shortest_paths()

    def _check(self) -> None:
        count = len(self.nodes)
        for node in self.nodes:
            numbers = [*node.children.values()]
            for slot in node.slots:
                numbers += [slot.variable, slot.slot]
            if not all(0 <= number < count for number in numbers):
                raise ValueError("it names objects that are not there")

    def value_key(self, number: int) -> str | None:
        """Return the checkpoint key of a variable's value; None if the object is not a variable."""
        return self.nodes[number].checkpoint_key

    def variable_key(self, number: int) -> str | None:
        """Return the checkpoint key of a variable without the suffix that all have; None if it is not a variable."""
        key = self.nodes[number].checkpoint_key
        return None if key is None else key.removesuffix(VALUE_SUFFIX)

    def members(self, number: int) -> dict[int, int]:
        """Return the objects of a tracked list by their positions."""
        if number not in self._members:
            children = self.nodes[number].children
            self._members[number] = {
                int(name): child for name, child in children.items() if name.isdecimal() and len(name) < 10
            }
        return self._members[number]

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


def _node(message: Any) -> Node:
    values = [each for each in message.attributes if each.name == VALUE]
    return Node(
        {each.local_name: each.node_id for each in message.children},
        values[-1].full_name if values else None,
        values[-1].checkpoint_key if values else None,
        [
            SlotVariable(each.original_variable_node_id, each.slot_name, each.slot_variable_node_id)
            for each in message.slot_variables
        ],
    )
