"""The graph of objects that a checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mpls.saved.bundles import Bundle
from mpls.saved.validity import broken, reading_foreign_bytes
from mpls.saved.wire import as_bytes, as_int, as_text, fields

GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "VARIABLE_VALUE"
_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"


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
        slots: its slots, if it is an optimizer.
    """

    children: Mapping[str, int]
    full_name: str | None
    checkpoint_key: str | None
    slots: Sequence[Slot]


class ObjectGraph:
    """The objects of a checkpoint.

    Args:
        bundle: a checkpoint with an object graph.

    Raises:
        SavedStateError: the graph is broken.
    """

    def __init__(self, bundle: Bundle) -> None:
        data = bundle.text(GRAPH_KEY)
        with reading_foreign_bytes(bundle.path, GRAPH_KEY, "be a whole object graph"):
            self.nodes = [_node(as_bytes(value)) for number, value in fields(data) if number == 1]
            self._check()
        self.paths = self._shortest_paths()
        self._bundle = bundle

    def _check(self) -> None:
        count = len(self.nodes)
        for node in self.nodes:
            numbers = [*node.children.values()]
            for slot in node.slots:
                numbers += [slot.variable, slot.slot]
            if any(number >= count for number in numbers):
                raise ValueError("it names objects that are not there")

    def _shortest_paths(self) -> dict[int, str]:
        """Return where each object is, as TensorFlow names it: by the shortest way from the root."""
        paths = {0: ""} if self.nodes else {}
        queue = list(paths)
        for number in queue:
            for name, child in self.nodes[number].children.items():
                if child not in paths:
                    paths[child] = f"{paths[number]}/{_escaped(name)}".lstrip("/")
                    queue.append(child)
        return paths

    def child(self, number: int, name: str) -> int | None:
        """Return the object that another tracks under a name, or None."""
        return self.nodes[number].children.get(name)

    def value_key(self, number: int) -> str | None:
        """Return the key of a variable's value, if the object is a variable with one."""
        return self.nodes[number].checkpoint_key

    def variable_key(self, number: int) -> str | None:
        """Return a variable's key without what all have at the end."""
        key = self.nodes[number].checkpoint_key
        return None if key is None else key.removesuffix(_SUFFIX)

    def members(self, number: int) -> dict[int, int]:
        """Return the objects of a tracked list by their position."""
        children = self.nodes[number].children
        return {int(name): child for name, child in children.items() if name.isdecimal() and len(name) < 10}

    def require(self, number: int, key: str) -> str:
        """Return the key of a variable's value.

        Raises:
            SavedStateError: the object is no variable.
        """
        found = self.nodes[number].checkpoint_key
        if found is None:
            raise broken(self._bundle.path, key, "be a variable with a value", "an object without one")
        return found


def _node(data: memoryview) -> Node:
    children: dict[str, int] = {}
    slots: list[Slot] = []
    full_name = checkpoint_key = None
    for number, value in fields(data):
        if number not in (1, 2, 3):
            continue
        parts = dict(fields(as_bytes(value)))
        if number == 1:
            children[as_text(parts.get(2, _EMPTY))] = as_int(parts.get(1, 0))
        elif number == 2 and as_text(parts.get(1, _EMPTY)) == _VALUE:
            full_name, checkpoint_key = as_text(parts.get(2, _EMPTY)), as_text(parts.get(3, _EMPTY))
        elif number == 3:
            slots.append(Slot(as_int(parts.get(1, 0)), as_text(parts.get(2, _EMPTY)), as_int(parts.get(3, 0))))
    return Node(children, full_name, checkpoint_key, slots)


_EMPTY = memoryview(b"")


def _escaped(name: str) -> str:
    return name.replace(".", "..").replace("/", ".S")
