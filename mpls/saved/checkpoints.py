"""Checkpoints that `tf.train.Checkpoint` writes, and that saved models hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mpls.formats.algorithms import algorithm_named, algorithm_of_legacy, algorithm_of_lists, slot_and_variable
from mpls.formats.object_graph import LOSS_SCALE, STATE_OF_KERAS_3, WRAPPED
from mpls.formats.record import Family, LossScaleRecord, OptimizerRecord, VariableRecord
from mpls.saved.bundles import Bundle
from mpls.saved.graphs import StoredGraph
from mpls.saved.plain_numbers import count_of_variable, good_steps_of_variable, scale_of_variable

# Other children of legacy optimizers are hyperparameters.
_LEGACY_STATE = ("iter", "momentum_cache")
_WRAPPING = (LOSS_SCALE, *WRAPPED)


class ObjectCheckpoint:
    """A checkpoint with an object graph, and what its optimizers are.

    Args:
        bundle: the checkpoint.

    Raises:
        SavedStateError: it is broken.
    """

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.graph = StoredGraph(bundle)
        self._numbers = {path: number for number, path in self.graph.paths.items()}

    def optimizers(self) -> list[OptimizerRecord]:
        """Return the optimizers, those that wrappers wrap once.

        Raises:
            SavedStateError: state in it is broken, or none that an optimizer can have.
        """
        wrapped = {inner for number in self._reachable() if (inner := self.graph.wrapped_by(number)) is not None}
        found = [self._read(number) for number in self._reachable() if number not in wrapped]
        return [record for record in found if record is not None]

    def is_old_layout(self, key: str) -> bool:
        """Return whether the optimizer of a record is saved inside a wrapper, as up to TF 2.2."""
        number = self._numbers.get(key)
        # Later ones have the state in the wrapper, and that of Keras 3 is another kind.
        return number is not None and self.graph.holder_of_state(number) != number

    def _reachable(self) -> Iterator[int]:
        yield from sorted(self.graph.paths)

    def _read(self, number: int) -> OptimizerRecord | None:
        state = self.graph.holder_of_state(number)
        self.graph.visit(state)
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
        return replace(record, loss_scale=self._loss_scale(number))

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
            if name not in _LEGACY_STATE and self.bundle.shape(self._known(child)) == ():
                hyperparameters[name] = float(self._value(child))
            elif name != "iter":
                others[name] = self._value(child)
        variables = self._slots(number)
        iteration = node.children["iter"]
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
            algorithm=_v1_algorithm(names, kinds),
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


def _v1_algorithm(slot_names: list[str], kinds: set[str]) -> str | None:
    """Tell a v1 optimizer by the ends of its slots' names, as in `'dense/kernel/Adam_1'`, or by the kinds of slots."""
    named = {algorithm_named(_KERAS_OF_V1.get(_without_number(name), None)) for name in slot_names}
    if len(named) == 1 and None not in named:
        return named.pop()
    for algorithm, slots in _KINDS_OF_V1:
        if kinds and slots == kinds:
            return algorithm
    return None


def _without_number(name: str) -> str:
    last = name.rpartition("/")[2]
    head, _, number = last.rpartition("_")
    return head if number.isdecimal() else last


_KERAS_OF_V1 = {"Adam": "Adam", "Momentum": "SGD", "RMSProp": "RMSprop"} | {
    name: name for name in ("Adagrad", "Adadelta", "Ftrl")
}
_KINDS_OF_V1 = [
    ("Adam", {"m", "v"}),
    ("SGD", {"momentum"}),
    ("RMSprop", {"rms", "momentum"}),
    ("RMSprop", {"rms", "mg", "momentum"}),
    ("Adagrad", {"accumulator"}),
    ("Adadelta", {"accum", "accum_update"}),
    ("Ftrl", {"accum", "linear"}),
]


_BOOKKEEPING = ("_variables", "_trainable_variables", "_trainable_variables_indices", "_index_dict")
# Hyperparameters, or what follows from them, and the state of a wrapper.
_NO_STATE = ("_iterations", "_learning_rate", "_current_learning_rate", *STATE_OF_KERAS_3)


def read_new(bundle: Bundle, graph: StoredGraph, number: int, key: str, family: Family) -> OptimizerRecord:
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
    def __init__(self, bundle: Bundle, graph: StoredGraph, number: int, family: Family) -> None:
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
