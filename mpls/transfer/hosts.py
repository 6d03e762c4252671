"""Live optimizers, one interface for all families: counter, slots of each variable, other state; and `host_of`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from mpls.errors import ArgumentTypeError, ArgumentValueError, error_text
from mpls.formats import algorithms
from mpls.formats.families import FAMILY_MODULES, Family
from mpls.formats.object_graph import ITERATIONS, LEARNING_RATES
from mpls.formats.validity import ANCHOR
from mpls.patches import ABSENT
from mpls.upstream import table
from mpls.upstream.keras_packages import keras_family_of, loaded_tf_keras, native_keras_wrappers
from mpls.upstream.optimizers import create_weights, hyperparameters_of, name_of_legacy, trained_variables
from mpls.upstream.table import Private, look_up

# Attributes of new tf_keras and Keras 3 optimizers: the number of steps, and the learning rate.
_COUNTERS = (ITERATIONS["new"], *LEARNING_RATES)


@dataclass(frozen=True)
class Place:
    """A trained variable of a live optimizer, and its slots.

    Attributes:
        name: the variable's name, with its scopes; None if the optimizer does not tell it.
        slots: the slot variables, by the names in `mpls.formats.algorithms`; a `tf.TensorSpec` for each that will be
            created once the optimizer is built.
        variable: the variable; None if the optimizer does not keep it.
    """

    name: str | None
    slots: Mapping[str, Any]
    variable: Any = None


class Host:
    """A live optimizer, and the wrapper around it, if there is one. Each family has a subclass.

    Attributes:
        family: the family of the optimizer.
        optimizer: the object that the user has passed, wrapped or not.
        inner: the optimizer without a wrapper.
        algorithm: the class name of the inner optimizer; for a user's subclass, that of the framework's class.
        state: the entry of `algorithms.SLOTS` whose state it has; None for other optimizers.
    """

    family: Family
    _counter: Private
    _rate: Private

    def __init__(self, optimizer: Any, inner: Any) -> None:
        self.optimizer = optimizer
        self.inner = inner
        self.algorithm: str = _algorithm_of(inner)
        self.state: str | None = algorithms.state_of(self.algorithm)

    @property
    def wrapper(self) -> Any:
        """The wrapper; None if the optimizer is bare."""
        return None if self.optimizer is self.inner else self.optimizer

    def __str__(self) -> str:
        """Return the public path of its class, as `'keras.optimizers.Adam'`."""
        return f"{FAMILY_MODULES[self.family]}.{type(self.inner).__name__}"

    @property
    def counter(self) -> Any:
        """The variable that counts steps; None if the optimizer has not created it yet."""
        return self._counter.needed_of(self.inner)

    @property
    def iterations(self) -> Any:
        """The same variable, which is created."""
        return self.counter

    @property
    def learning_rate(self) -> Any:
        """The learning rate: a number, a variable or a schedule."""
        return self._rate.needed_of(self.inner)

    def is_built(self, variables: Sequence[Any] | None) -> bool:
        """Return whether the slots of these variables exist; for None, whether those of any variable do."""
        raise NotImplementedError

    def build(self, variables: Sequence[Any]) -> None:
        """Create the slots of variables, in the scope of their strategy."""
        with scope_of(variables):
            self.optimizer.build(list(variables))

    def places(self, variables: Sequence[Any] | None = None) -> list[Place]:
        """Return the slots of these variables, in this order; by default of all that it knows, in its own order."""
        raise NotImplementedError

    def others(self) -> dict[str, Any]:
        """Return the variables that are neither slots nor its counter and learning rate, by name."""
        raise NotImplementedError

    def uncounted(self) -> list[str]:
        """Return the names of variables that neither `places` nor `others` returns, and that are no counters."""
        return []

    def settle(self, steps: int) -> None:
        """Adjust state that is not in variables to the number of updates that the optimizer has now made."""


def name_of(variable: Any) -> str | None:
    """Return the name of a variable of any framework, with its scopes; None for None."""
    return None if variable is None else str(getattr(variable, "path", variable.name)).partition(":")[0]


def scope_of(variables: Sequence[Any]) -> AbstractContextManager[Any]:
    """Return the scope of the `tf.distribute.Strategy` that created the variables; an empty context if none did."""
    for variable in variables:
        raw = getattr(variable, "value", variable)
        strategy = getattr(variable if callable(raw) else raw, "distribute_strategy", None)
        if strategy is not None:
            return strategy.scope()  # type: ignore[no-any-return]
    return nullcontext()


def as_numpy(variable: Any) -> Any:
    """Return the value of a variable as a NumPy array."""
    return np.asarray(variable.numpy())


def dtype_of(variable: Any) -> Any:
    """Return the dtype of a variable of any framework as a `tf.DType`."""
    dtype = variable.dtype
    return tf.as_dtype(getattr(dtype, "base_dtype", dtype))


def _algorithm_of(optimizer: Any) -> str:
    """Return the class name of an optimizer; for a user's subclass, that of the framework's class it derives from."""
    frameworks = ("tensorflow", "tf_keras", "keras")
    for cls in type(optimizer).__mro__:
        if cls.__module__.partition(".")[0] in frameworks and algorithms.state_of(cls.__name__):
            return cls.__name__
    return type(optimizer).__name__


class LegacyHost(Host):
    """Legacy optimizers of tf_keras."""

    family: Family = "legacy"
    _counter = table.LEGACY_STEPS

    @property
    def iterations(self) -> Any:
        """The variable that counts steps; reading it creates it."""
        return self.inner.iterations

    @property
    def learning_rate(self) -> Any:
        """The learning rate: a number, a variable or a schedule."""
        return hyperparameters_of(self.inner).get("learning_rate", self.inner.learning_rate)

    def build(self, variables: Sequence[Any]) -> None:
        """Create the slots of variables that have none yet; slots of others stay."""
        with scope_of(variables), tf.name_scope(name_of_legacy(self.inner)):
            create_weights(self.optimizer, list(variables))

    def _by_variable(self) -> dict[Any, dict[str, Any]]:
        found: dict[Any, dict[str, Any]] = table.LEGACY_SLOTS.needed_of(self.inner)
        return found

    def places(self, variables: Sequence[Any] | None = None) -> list[Place]:
        """Return the slots of these variables, in this order; by default of all that it knows, in its own order."""
        if variables is not None:
            return [Place(name_of(each), self._slots_of(each), each) for each in variables]
        return [
            Place(self._name_from(slots), {self._called(name): slot for name, slot in slots.items()})
            for slots in self._by_variable().values()
        ]

    def _slots_of(self, variable: Any) -> dict[str, Any]:
        found = {}
        for name in self.inner.get_slot_names():
            try:
                slot = self.inner.get_slot(variable, name)
            except KeyError:
                continue
            if slot is not None:
                found[self._called(name)] = slot
        return found

    @staticmethod
    def _name_from(slots: Mapping[str, Any]) -> str | None:
        for slot in slots.values():
            # The names of slot variables are those of their variables, a slash and more.
            return str(slot.name).partition(":")[0].rpartition("/")[0] or None
        return None

    def _called(self, name: str) -> str:
        return algorithms.slot_called(self.state, self.family, name)

    def is_built(self, variables: Sequence[Any] | None) -> bool:
        """Return whether the slots of these variables exist; an SGD without momentum creates none."""
        without_slots = self.state == "SGD" and not table.MOMENTUM.of(self.inner, True)
        if without_slots and table.HAS_HYPERS.of(self.inner):
            return True
        return bool(self._by_variable()) if variables is None else all(self._slots_of(each) for each in variables)

    def others(self) -> dict[str, Any]:
        """Return what the optimizer has created with `add_weight` and is no slot, such as Nadam's momentum cache."""
        slots = {id(slot) for slots in self._by_variable().values() for slot in slots.values()}
        made, counter = table.WEIGHTS.needed_of(self.inner), self.counter
        weights = [each for each in made if id(each) not in slots and each is not counter]
        return {str(each.name).partition(":")[0].rpartition("/")[2]: each for each in weights}


class _SlotListHost(Host):
    """Optimizers that create all slots at once, and keep them in lists."""

    def _index(self, variable: Any) -> int:
        raise NotImplementedError

    def _own(self) -> list[Any]:
        """Return the variables that it was built with; a None for each if it does not keep them."""
        raise NotImplementedError

    def _lists(self) -> dict[str, list[Any]]:
        known = {id(each) for each in self.inner.variables}
        count = len(self._own())
        lists = {}
        for name, value in vars(self.inner).items():
            if not isinstance(value, list) or name == table.OWN_VARIABLES.name:
                continue
            # A variable without this slot has None in its place, or in Adafactor a placeholder.
            own = [each if id(each) in known else None for each in value]
            if len(own) == count and any(each is not None for each in own):
                lists[name] = own
        return lists

    def places(self, variables: Sequence[Any] | None = None) -> list[Place]:
        own, lists = self._own(), self._lists()
        indices = range(len(own)) if variables is None else [self._known_index(each) for each in variables]
        found = []
        for place, index in enumerate(indices):
            slots = {
                algorithms.slot_called(self.state, self.family, name): slots[index]
                for name, slots in lists.items()
                if slots[index] is not None
            }
            variable = own[index] if variables is None else variables[place]
            found.append(Place(self._name_from(variable, slots), slots, variable))
        return found

    def _known_index(self, variable: Any) -> int:
        try:
            return self._index(variable)
        except KeyError:
            advice = "Pass the variables that it was built with, or none"
            raise ArgumentValueError(
                error_text("convert_state: variables", "be known to the optimizer", variable, advice, ANCHOR)
            ) from None

    def _name_from(self, variable: Any, slots: Mapping[str, Any]) -> str | None:
        del slots
        return name_of(variable)

    def others(self) -> dict[str, Any]:
        known = {id(each) for each in self.inner.variables}
        attributes = vars(self.inner).items()
        return {name: each for name, each in attributes if id(each) in known and name not in _COUNTERS}

    def uncounted(self) -> list[str]:
        counted = {id(slot) for slots in self._lists().values() for slot in slots}
        counted |= {id(each) for each in self.others().values()}
        counted |= {id(vars(self.inner).get(name)) for name in _COUNTERS}
        return [str(each.name) for each in self.inner.variables if id(each) not in counted]


class NewHost(_SlotListHost):
    """New optimizers of tf_keras."""

    family: Family = "new"
    _counter, _rate = table.NEW_STEPS, table.NEW_RATE

    def is_built(self, variables: Sequence[Any] | None) -> bool:
        """Return whether its slots exist."""
        del variables
        # Once it is built, it has an index.
        return look_up(self.inner, table.INDEX.name) is not ABSENT

    def _index(self, variable: Any) -> int:
        return int(table.INDEX.needed_of(self.inner)[table.VARIABLE_KEY.needed_of(self.inner)(variable)])

    def _is_nadam(self) -> bool:
        tf_keras: Any = loaded_tf_keras()
        return isinstance(self.inner, tf_keras.optimizers.Nadam)

    def _own(self) -> list[Any]:
        return [None] * (len(table.INDEX.needed_of(self.inner)) if self.is_built(None) else 0)

    def others(self) -> dict[str, Any]:
        """Return the variables that it keeps by name; Nadam's product is not among its variables."""
        found = super().others()
        if self._is_nadam() and self.is_built(None):
            found[table.U_PRODUCT.name] = table.U_PRODUCT.needed_of(self.inner)
        return found

    def _name_from(self, variable: Any, slots: Mapping[str, Any]) -> str | None:
        if variable is not None:
            return name_of(variable)
        for name, slot in slots.items():
            own = algorithms.slot_names(self.state, "new").get(name, name) if self.state else name
            # The name is optimizer/slot/variable.
            return f"/{slot.name}".partition(":")[0].partition(f"/{own}/")[2] or None
        return None

    def settle(self, steps: int) -> None:
        """Set the count that Nadam keeps as a Python number, and the current learning rate of a schedule."""
        if self._is_nadam() and table.U_COUNTER.of(self.inner) is not None:
            # Nadam's product is that of the steps before this one.
            setattr(self.inner, table.U_COUNTER.name, steps + 1)
        compute = table.COMPUTE_RATE.of(self.inner)
        if compute is not None:
            compute()


class Keras3Host(_SlotListHost):
    """Optimizers of Keras 3."""

    family: Family = "keras3"
    _counter, _rate = table.KERAS_3_STEPS, table.KERAS_3_RATE

    def is_built(self, variables: Sequence[Any] | None) -> bool:
        """Return whether its slots exist."""
        del variables
        return bool(self.inner.built)

    def _index(self, variable: Any) -> int:
        return int(table.VARIABLE_INDEX.needed_of(self.inner)(variable))

    def _own(self) -> list[Any]:
        return trained_variables(self.inner)


_HOSTS: dict[str, type[Host]] = {"legacy": LegacyHost, "new": NewHost, "keras3": Keras3Host}


def host_of(optimizer: Any, argument: str) -> Host:
    """Return the host of a live optimizer, wrapped or not.

    Args:
        optimizer: the object that the user has passed.
        argument: the public name of the argument, for the error.

    Raises:
        TypeError: it is not an optimizer of Keras.
    """
    inner: Any = optimizer
    if isinstance(optimizer, native_keras_wrappers()):
        inner = inner.inner_optimizer
    family = keras_family_of(inner)
    if family is not None:
        return _HOSTS[family](optimizer, inner)
    advice = "convert_state('checkpoints/ckpt-1', tf_keras.optimizers.Adam(), model.trainable_variables)"
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        advice = (
            "Save a tf.compat.v1.train optimizer by tf.train.Checkpoint; the path is the source, the target is of Keras"
        )
    raise ArgumentTypeError(
        error_text(argument, "be an optimizer of tf_keras or of Keras 3", optimizer, advice, ANCHOR)
    )
