"""Optimizers in object-based checkpoints: those that `tf.train.Checkpoint` writes, and those in SavedModels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from mpls.formats.algorithms import (
    MOMENTUM_PRODUCTS,
    algorithm_named,
    algorithm_of_lists,
    algorithm_of_v1,
    slot_and_variable,
)
from mpls.formats.families import Family
from mpls.formats.object_graph import (
    BOOKKEEPING,
    GRAPH_KEY,
    ITERATIONS,
    LEARNING_RATES,
    TRAINABLE_VARIABLES,
    VALUE,
    VALUE_SUFFIX,
    VARIABLES,
    Node,
    ObjectGraph,
    SlotVariable,
)
from mpls.formats.record import LossScaleRecord, OptimizerRecord, VariableRecord
from mpls.formats.validity import constraint_on_number
from mpls.formats.wrapper_state import (
    COUNTS,
    FLOAT_EXTRAS,
    LOSS_SCALE,
    STATE_OF_KERAS_3,
    STEP_RECORD,
    WHOLE_EXTRAS,
    WRAPPED,
)
from mpls.saved.bundles import Bundle
from mpls.saved.foreign_files import FROM_WRITER, broken, reading_foreign_bytes
from mpls.saved.messages import parse
from mpls.saved.plain_numbers import count_of_variable, good_steps_of_variable, number_of_variable, scale_of_variable

# Variables of legacy optimizers that are neither slots nor hyperparameters.
_LEGACY_STATE = (ITERATIONS["legacy"], MOMENTUM_PRODUCTS["legacy"])
_WRAPPING = (LOSS_SCALE, *WRAPPED)
# Variables of new and Keras 3 optimizers that are no slots, and the state of a wrapper.
_NO_SLOTS = (*BOOKKEEPING, ITERATIONS["new"], *LEARNING_RATES, *STATE_OF_KERAS_3)


class ObjectCheckpoint(ObjectGraph):
    """The objects of a checkpoint, whose object graph the constructor parses, and the optimizers among them."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle, self._path = bundle, bundle.path
        with reading_foreign_bytes(bundle.path, GRAPH_KEY, "be a whole object graph"):
            super().__init__([_node(each) for each in parse("ObjectGraph", bundle.text(GRAPH_KEY)).nodes])
            numbers = {number for node in self.nodes for number in node.children.values()}
            numbers |= {number for node in self.nodes for slot in node.slots for number in (slot.variable, slot.slot)}
            if not all(0 <= number < len(self.nodes) for number in numbers):
                raise ValueError("it names objects that are not there")
        # Of each object that can be reached from the root, by its number.
        self._paths = self.shortest_paths()
        self._named: dict[str | None, list[int]] = {}
        for number in sorted(self._paths):
            self._named.setdefault(self.nodes[number].full_name, []).append(number)

    def optimizers(self) -> list[OptimizerRecord]:
        """Return the optimizers, in the order of the object graph; one record for a wrapper and its optimizer."""
        reachable = sorted(self._paths)
        wrapped = {inner for number in reachable if (inner := self.wrapped_by(number)) is not None}
        found = [self._read(number) for number in reachable if number not in wrapped]
        return [record for record in found if record is not None]

    def _is_variable(self, number: int) -> bool:
        return self.nodes[number].checkpoint_key is not None

    def _value(self, number: int) -> Any:
        return self._bundle.tensor(self._key(number))

    def _key(self, number: int) -> str:
        key = self.nodes[number].checkpoint_key
        if key is None:
            place = self._paths.get(number, str(number))
            raise broken(self._path, place, "be a variable with a value", "an object without one")
        return key

    def _number(self, check: Callable[[str, str, Any], Any], number: int) -> Any:
        """Return the value of a variable as a check of numbers returns it."""
        return check(self._path, self._key(number), self._value(number))

    def _members(self, number: int) -> dict[int, int]:
        """Return the objects of a tracked list by their positions."""
        children = self.nodes[number].children
        return {int(name): child for name, child in children.items() if name.isdecimal() and len(name) < 10}

    def _variable_record(self, number: int | None, name: str | None, slots: Mapping[str, Any]) -> VariableRecord:
        key = None if number is None else self.nodes[number].checkpoint_key
        return VariableRecord(None if key is None else key.removesuffix(VALUE_SUFFIX), name, slots)

    def _read(self, number: int) -> OptimizerRecord | None:
        state = self.holder_of_state(number)
        key = self._paths[number]
        family = self.own_family_at(state)
        is_wrapper = self.wrapped_by(number) is not None
        if family == "new" or family == "keras3":
            record = self._read_new(state, key, family)
        elif family == "legacy":
            record = self._read_legacy(state, key)
        elif self.nodes[state].slots or (is_wrapper and self.child(number, LOSS_SCALE) is not None):
            record = self._read_v1(state, key)
        else:
            return None
        counts = self._numbers(self.child(number, STEP_RECORD), COUNTS)
        return replace(record, loss_scale=self._loss_scale(number), counts=counts)

    def _read_legacy(self, number: int, key: str) -> OptimizerRecord:
        children = self.nodes[number].children
        hyperparameters: dict[str, Any] = {}
        others: dict[str, Any] = {}
        for name, child in children.items():
            if name in _WRAPPING or not self._is_variable(child):
                continue
            if name not in _LEGACY_STATE and self._value(child).shape == ():
                hyperparameters[name] = self._number(number_of_variable, child)
            elif name != ITERATIONS["legacy"]:
                others[name] = self._value(child)
        variables = self._slots(number)
        iteration = children.get(ITERATIONS["legacy"])
        if iteration is None:
            # The slots are named as those of v1.
            algorithm, iterations = algorithm_of_v1([], {name for each in variables for name in each.slots}), None
        else:
            full_name = self.nodes[iteration].full_name or ""
            algorithm = algorithm_named(full_name.split("/")[-2] if "/" in full_name else None)
            iterations = self._number(count_of_variable, iteration)
        return OptimizerRecord(
            key=key,
            family="legacy",
            algorithm=algorithm,
            iterations=iterations,
            hyperparameters=hyperparameters,
            variables=variables,
            others=others,
        )

    def _slots(self, number: int) -> list[VariableRecord]:
        slots: dict[int, dict[str, Any]] = {}
        for slot in self.nodes[number].slots:
            slots.setdefault(slot.variable, {})[slot.name] = self._value(slot.slot)
        return [self._variable_record(each, self.nodes[each].full_name, values) for each, values in slots.items()]

    def _read_v1(self, number: int, key: str) -> OptimizerRecord:
        node = self.nodes[number]
        names = [self.nodes[slot.slot].full_name or "" for slot in node.slots]
        steps = self._named.get("global_step", [])
        return OptimizerRecord(
            key=key,
            family="v1",
            algorithm=algorithm_of_v1(names, {slot.name for slot in node.slots}),
            iterations=self._number(count_of_variable, steps[0]) if len(steps) == 1 else None,
            variables=self._slots(number),
            others={
                name: self._value(child)
                for name, child in node.children.items()
                if name not in _WRAPPING and self._is_variable(child)
            },
        )

    def _read_new(self, number: int, key: str, family: Family) -> OptimizerRecord:
        """Return the record of a new or Keras 3 optimizer, which tracks its slots as lists."""
        children = self.nodes[number].children
        rate = children.get(LEARNING_RATES[0])
        members = self._members(children[VARIABLES])
        scopes = {(self.nodes[each].full_name or "").split("/")[0] for each in members.values()}
        named = {algorithm_named(scope) for scope in scopes} - {None}
        return OptimizerRecord(
            key=key,
            family=family,
            algorithm=named.pop() if len(named) == 1 else algorithm_of_lists([*children]),
            iterations=self._number(count_of_variable, children[ITERATIONS[family]]),
            hyperparameters={} if rate is None else {"learning_rate": self._number(number_of_variable, rate)},
            variables=self._listed(children, members, family),
            others={
                name: self._value(child)
                for name, child in children.items()
                if name not in _NO_SLOTS and self._is_variable(child)
            },
        )

    def _listed(self, children: Mapping[str, int], members: Mapping[int, int], family: Family) -> list[VariableRecord]:
        """Return the slots among the variables of an optimizer that tracks them as lists."""
        places: dict[int, tuple[str, int]] = {}
        for local_name, child in children.items():
            if local_name not in BOOKKEEPING and not self._is_variable(child):
                for position, member in self._members(child).items():
                    places.setdefault(member, (local_name, position))
        no_slots = {children[name] for name in (ITERATIONS[family], LEARNING_RATES[0]) if name in children}
        no_slots |= {child for child in children.values() if self._is_variable(child)}
        slots: dict[Any, dict[str, Any]] = {}
        names: dict[Any, str | None] = {}
        for _, member in sorted(members.items()):
            if member in no_slots:
                continue
            full_name = self.nodes[member].full_name or ""
            slot, variable = slot_and_variable(family, full_name)
            place = places.get(member)
            group = variable if place is None else place[1]
            slot = slot or (full_name if place is None else place[0]).lstrip("_")
            taken = slots.setdefault(group, {})
            # In Keras 3, two slot variables of an Adafactor have the same name.
            taken[slot if slot not in taken else f"{slot}_{len(taken)}"] = self._value(member)
            names.setdefault(group, variable)
        trained = self._members(children[TRAINABLE_VARIABLES]) if family == "keras3" else {}
        found = []
        for group, values in slots.items():
            name: str | None = names[group]
            node: int | None = None
            if family == "keras3" and isinstance(group, int) and group in trained:
                node = trained[group]
                name = self.nodes[node].full_name
            elif family != "keras3" and len(same := self._named.get(name, [])) == 1:
                node = same[0]
            found.append(self._variable_record(node, name, values))
        return found

    def _loss_scale(self, number: int) -> LossScaleRecord | None:
        options = self._numbers(self.child(number, LOSS_SCALE), (*WHOLE_EXTRAS, *FLOAT_EXTRAS))
        scale, good_steps = self.scale_and_counter(number)
        if scale is None or good_steps is None:
            is_wrapper = self.child(number, LOSS_SCALE) is not None or self.wrapped_by(number) is not None
            return LossScaleRecord(dynamic=False, options=options) if is_wrapper else None
        return LossScaleRecord(
            dynamic=True,
            scale=self._number(scale_of_variable, scale),
            good_steps=self._number(good_steps_of_variable, good_steps),
            options=options,
        )

    def _numbers(self, number: int | None, names: Iterable[str]) -> dict[str, Any]:
        """Return the numbers that only mpls has, among the children of an object."""
        found: dict[str, Any] = {}
        for name in names if number is not None else ():
            child = self.nodes[number or 0].children.get(name)
            if child is None or not self._is_variable(child):
                continue
            is_float = name in FLOAT_EXTRAS
            found[name] = self._number(scale_of_variable if is_float else count_of_variable, child)
            if is_float and (constraint := constraint_on_number(name, found[name])):
                raise broken(self._path, self._key(child), constraint, found[name], FROM_WRITER)
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
