"""New optimizers of tf_keras and those of Keras 3 in checkpoints with an object graph."""

from __future__ import annotations

from typing import Any

from mpls.formats.algorithms import algorithm_named, algorithm_of_lists, slot_and_variable
from mpls.formats.record import Family, OptimizerRecord, VariableRecord
from mpls.saved.bundles import Bundle
from mpls.saved.graphs import ObjectGraph
from mpls.saved.validity import count_of_variable

_BOOKKEEPING = ("_variables", "_trainable_variables", "_trainable_variables_indices", "_index_dict")
# Hyperparameters, or what follows from them, and the state of a wrapper.
_NO_STATE = ("_iterations", "_learning_rate", "_current_learning_rate", "step_counter", "dynamic_scale")


def read_new(bundle: Bundle, graph: ObjectGraph, number: int, key: str, family: Family) -> OptimizerRecord:
    """Return the optimizer that an object is.

    Args:
        bundle: the checkpoint.
        graph: the objects in it.
        number: that of the object.
        key: where it is, for the record.
        family: its family, `'new'` or `'keras3'`.

    Raises:
        SavedStateError: its state is broken.
    """
    return _NewOptimizer(bundle, graph, number, family).record(key)


class _NewOptimizer:
    def __init__(self, bundle: Bundle, graph: ObjectGraph, number: int, family: Family) -> None:
        self.bundle = bundle
        self.graph = graph
        self.children = graph.nodes[number].children
        self.family = family
        self.lists = {
            name: graph.members(child)
            for name, child in self.children.items()
            if name not in _BOOKKEEPING and graph.value_key(child) is None
        }

    def record(self, key: str) -> OptimizerRecord:
        iterations = self.children["_iterations"]
        rate = self.children.get("_learning_rate")
        scalars = {
            name: self._value(child)
            for name, child in self.children.items()
            if name not in (*_BOOKKEEPING, *_NO_STATE) and self.graph.value_key(child) is not None
        }
        return OptimizerRecord(
            key=key,
            family=self.family,
            algorithm=self._algorithm(),
            iterations=count_of_variable(self.bundle.path, self._key(iterations), self._value(iterations)),
            hyperparameters={} if rate is None else {"learning_rate": float(self._value(rate))},
            variables=self._variables(),
            others=scalars,
        )

    def _key(self, number: int) -> str:
        return self.graph.require(number, self.graph.paths.get(number, str(number)))

    def _value(self, number: int) -> Any:
        return self.bundle.tensor(self._key(number))

    def _full_name(self, number: int) -> str:
        return self.graph.nodes[number].full_name or ""

    def _algorithm(self) -> str | None:
        slots = list(self.graph.members(self.children["_variables"]).values())
        scopes = {self._full_name(number).split("/")[0] for number in slots}
        named = {algorithm_named(scope) for scope in scopes} - {None}
        return named.pop() if len(named) == 1 else algorithm_of_lists([*self.children])

    def _variables(self) -> list[VariableRecord]:
        places: dict[int, tuple[str, int]] = {}
        for name, members in self.lists.items():
            for position, member in members.items():
                places.setdefault(member, (name, position))
        known = {self.children[name] for name in ("_iterations", "_learning_rate") if name in self.children}
        known |= {child for child in self.children.values() if self.graph.value_key(child) is not None}
        slots: dict[Any, dict[str, Any]] = {}
        names: dict[Any, str | None] = {}
        for _, member in sorted(self.graph.members(self.children["_variables"]).items()):
            if member in known:
                continue
            slot, variable = slot_and_variable(self.family, self._full_name(member))
            place = places.get(member)
            group = variable if place is None else place[1]
            slot = slot or (self._full_name(member) if place is None else place[0]).lstrip("_")
            taken = slots.setdefault(group, {})
            # Keras 3's Adafactor gives two the same name.
            taken[slot if slot not in taken else f"{slot}_{len(taken)}"] = self._value(member)
            names.setdefault(group, variable)
        return [self._variable(group, names[group], values) for group, values in slots.items()]

    def _variable(self, group: Any, name: str | None, slots: dict[str, Any]) -> VariableRecord:
        if self.family == "keras3":
            trained = self.graph.members(self.children["_trainable_variables"])
            if isinstance(group, int) and group in trained:
                node = trained[group]
                return VariableRecord(self.graph.variable_key(node), self.graph.nodes[node].full_name, slots)
            return VariableRecord(None, name, slots)
        nodes = self.graph.named(name)
        return VariableRecord(self.graph.variable_key(nodes[0]) if len(nodes) == 1 else None, name, slots)
