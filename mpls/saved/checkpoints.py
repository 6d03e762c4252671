"""Optimizers in object-based checkpoints: those that `tf.train.Checkpoint` writes, and those in SavedModels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mpls.formats.algorithm_names import (
    algorithm_named,
    algorithm_of_legacy,
    algorithm_of_lists,
    algorithm_of_v1,
    slot_and_variable,
)
from mpls.formats.algorithms import MOMENTUM_PRODUCTS
from mpls.formats.families import Family
from mpls.formats.object_graph import BOOKKEEPING, ITERATIONS, LEARNING_RATES, TRAINABLE_VARIABLES, VARIABLES
from mpls.formats.record import LossScaleRecord, OptimizerRecord, VariableRecord
from mpls.formats.wrapper_state import LOSS_SCALE, STATE_OF_KERAS_3, WRAPPED
from mpls.saved.bundles import Bundle
from mpls.saved.graphs import StoredGraph
from mpls.saved.own_state import StateInGraph
from mpls.saved.plain_numbers import count_of_variable, good_steps_of_variable, number_of_variable, scale_of_variable

# Variables of legacy optimizers that are neither slots nor hyperparameters.
_LEGACY_STATE = (ITERATIONS["legacy"], MOMENTUM_PRODUCTS["legacy"])
_WRAPPING = (LOSS_SCALE, *WRAPPED)


class ObjectCheckpoint:
    """The optimizers in a checkpoint with an object graph.

    Args:
        bundle: the checkpoint.

    Raises:
        SavedStateError: its object graph is broken.
    """

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.graph = StoredGraph(bundle)
        self._own = StateInGraph(bundle, self.graph)
        self._numbers = {path: number for number, path in self.graph.paths.items()}

    def optimizers(self) -> list[OptimizerRecord]:
        """Return the optimizers, in the order of the object graph; one record for a wrapper and its optimizer.

        Raises:
            SavedStateError: the state of one is broken or not valid.
        """
        wrapped = {inner for number in self._reachable() if (inner := self.graph.wrapped_by(number)) is not None}
        found = [self._read(number) for number in self._reachable() if number not in wrapped]
        return [record for record in found if record is not None]

    def is_old_layout(self, key: str) -> bool:
        """Return whether the wrapped optimizer tracks the state of a record itself, as up to TF 2.2.

        Args:
            key: the key of a record of a legacy optimizer. In later releases, its wrapper tracks the state.
        """
        number = self._numbers.get(key)
        return number is not None and self.graph.holder_of_state(number) != number

    def _reachable(self) -> Iterator[int]:
        yield from sorted(self.graph.paths)

    def _read(self, number: int) -> OptimizerRecord | None:
        state = self.graph.holder_of_state(number)
        key = self.graph.paths[number]
        family = self.graph.own_family_at(state)
        if family == "new" or family == "keras3":
            record = read_new(self.bundle, self.graph, state, key, family)
        elif family == "legacy":
            record = self._read_legacy(state, key)
        elif self.graph.nodes[state].slots or self._is_wrapper(number):
            record = self._read_v1(state, key)
        else:
            return None
        options, counts, overflows = self._own.of(number, [each.name for each in record.variables])
        loss_scale = self._loss_scale(number)
        if loss_scale is not None:
            loss_scale = replace(loss_scale, options=options)
        return replace(record, loss_scale=loss_scale, counts=counts, overflows=overflows)

    def _is_wrapper(self, number: int) -> bool:
        return self.graph.child(number, LOSS_SCALE) is not None and self.graph.wrapped_by(number) is not None

    def _value(self, number: int) -> Any:
        return self.bundle.tensor(self.graph.require(number, self.graph.paths.get(number, str(number))))

    def _read_legacy(self, number: int, key: str) -> OptimizerRecord:
        node = self.graph.nodes[number]
        hyperparameters: dict[str, Any] = {}
        others: dict[str, Any] = {}
        for name, child in node.children.items():
            if name in _WRAPPING or self.graph.value_key(child) is None:
                continue
            if name not in _LEGACY_STATE and self.bundle.shape(place := self._known(child)) == ():
                hyperparameters[name] = number_of_variable(self.bundle.path, place, self._value(child))
            elif name != ITERATIONS["legacy"]:
                others[name] = self._value(child)
        variables = self._slots(number)
        iteration = node.children[ITERATIONS["legacy"]]
        full_name = self.graph.nodes[iteration].full_name or ""
        kinds = {slot for variable in variables for slot in variable.slots}
        return OptimizerRecord(
            key=key,
            family="legacy",
            algorithm=algorithm_named(full_name.split("/")[-2] if "/" in full_name else None)
            or algorithm_of_legacy(hyperparameters, kinds, others),
            iterations=count_of_variable(self.bundle.path, self._known(iteration), self._value(iteration)),
            hyperparameters=hyperparameters,
            variables=variables,
            others=others,
        )

    def _known(self, number: int) -> str:
        key = self.graph.require(number, self.graph.paths.get(number, str(number)))
        if key not in self.bundle:
            self.bundle.tensor(key)
        return key

    def _slots(self, number: int) -> list[VariableRecord]:
        slots: dict[int, dict[str, Any]] = {}
        for slot in self.graph.nodes[number].slots:
            slots.setdefault(slot.variable, {})[slot.name] = self._value(slot.slot)
        return [
            VariableRecord(self.graph.variable_key(variable), self.graph.nodes[variable].full_name, values)
            for variable, values in slots.items()
        ]

    def _read_v1(self, number: int, key: str) -> OptimizerRecord:
        node = self.graph.nodes[number]
        names = [self.graph.nodes[slot.slot].full_name or "" for slot in node.slots]
        kinds = {slot.name for slot in node.slots}
        others = {
            name: self._value(child)
            for name, child in node.children.items()
            if name not in _WRAPPING and self.graph.value_key(child) is not None
        }
        steps = self.graph.named("global_step")
        iterations = None
        if len(steps) == 1:
            iterations = count_of_variable(self.bundle.path, self._known(steps[0]), self._value(steps[0]))
        return OptimizerRecord(
            key=key,
            family="v1",
            algorithm=algorithm_of_v1(names, kinds),
            iterations=iterations,
            variables=self._slots(number),
            others=others,
        )

    def _loss_scale(self, number: int) -> LossScaleRecord | None:
        scale, good_steps = self.graph.scale_and_counter(number)
        if scale is None or good_steps is None:
            is_wrapper = self.graph.child(number, LOSS_SCALE) is not None or self.graph.wrapped_by(number) is not None
            return LossScaleRecord(dynamic=False) if is_wrapper else None
        path = self.bundle.path
        return LossScaleRecord(
            dynamic=True,
            scale=scale_of_variable(path, self._known(scale), self._value(scale)),
            good_steps=good_steps_of_variable(path, self._known(good_steps), self._value(good_steps), None),
        )


# Variables of new and Keras 3 optimizers that are no slots, and the state of a wrapper.
_NO_SLOTS = (ITERATIONS["new"], *LEARNING_RATES, *STATE_OF_KERAS_3)


def read_new(bundle: Bundle, graph: StoredGraph, number: int, key: str, family: Family) -> OptimizerRecord:
    """Return the record of a new or Keras 3 optimizer, without its loss scale.

    Args:
        bundle: the checkpoint.
        graph: its object graph.
        number: the number of the optimizer in the graph.
        key: the key of the record.
        family: the family of the optimizer, `'new'` or `'keras3'`.

    Raises:
        SavedStateError: its state is broken.
    """
    return _NewOptimizer(bundle, graph, number, family).record(key)


class _NewOptimizer:
    def __init__(self, bundle: Bundle, graph: StoredGraph, number: int, family: Family) -> None:
        self.bundle = bundle
        self.graph = graph
        self.children = graph.nodes[number].children
        self.family = family
        self.lists = {
            name: graph.members(child)
            for name, child in self.children.items()
            if name not in BOOKKEEPING and graph.value_key(child) is None
        }

    def record(self, key: str) -> OptimizerRecord:
        iterations = self.children[ITERATIONS[self.family]]
        rate = self.children.get(LEARNING_RATES[0])
        scalars = {
            name: self._value(child)
            for name, child in self.children.items()
            if name not in (*BOOKKEEPING, *_NO_SLOTS) and self.graph.value_key(child) is not None
        }
        hyperparameters: dict[str, Any] = {}
        if rate is not None:
            number = number_of_variable(self.bundle.path, self._key(rate), self._value(rate))
            hyperparameters = {"learning_rate": number}
        return OptimizerRecord(
            key=key,
            family=self.family,
            algorithm=self._algorithm(),
            iterations=count_of_variable(self.bundle.path, self._key(iterations), self._value(iterations)),
            hyperparameters=hyperparameters,
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
        slots = list(self.graph.members(self.children[VARIABLES]).values())
        scopes = {self._full_name(number).split("/")[0] for number in slots}
        named = {algorithm_named(scope) for scope in scopes} - {None}
        return named.pop() if len(named) == 1 else algorithm_of_lists([*self.children])

    def _variables(self) -> list[VariableRecord]:
        places: dict[int, tuple[str, int]] = {}
        for name, members in self.lists.items():
            for position, member in members.items():
                places.setdefault(member, (name, position))
        known = {self.children[name] for name in (ITERATIONS[self.family], LEARNING_RATES[0]) if name in self.children}
        known |= {child for child in self.children.values() if self.graph.value_key(child) is not None}
        slots: dict[Any, dict[str, Any]] = {}
        names: dict[Any, str | None] = {}
        for _, member in sorted(self.graph.members(self.children[VARIABLES]).items()):
            if member in known:
                continue
            slot, variable = slot_and_variable(self.family, self._full_name(member))
            place = places.get(member)
            group = variable if place is None else place[1]
            slot = slot or (self._full_name(member) if place is None else place[0]).lstrip("_")
            taken = slots.setdefault(group, {})
            # In Keras 3, two slot variables of an Adafactor have the same name.
            taken[slot if slot not in taken else f"{slot}_{len(taken)}"] = self._value(member)
            names.setdefault(group, variable)
        return [self._variable(group, names[group], values) for group, values in slots.items()]

    def _variable(self, group: Any, name: str | None, slots: dict[str, Any]) -> VariableRecord:
        if self.family == "keras3":
            trained = self.graph.members(self.children[TRAINABLE_VARIABLES])
            if isinstance(group, int) and group in trained:
                node = trained[group]
                return VariableRecord(self.graph.variable_key(node), self.graph.nodes[node].full_name, slots)
            return VariableRecord(None, name, slots)
        nodes = self.graph.named(name)
        return VariableRecord(self.graph.variable_key(nodes[0]) if len(nodes) == 1 else None, name, slots)
