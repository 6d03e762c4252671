"""Live optimizers of each family, taken apart: their counters, their slots by variable, what else they keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from mpls.errors import ArgumentTypeError, ArgumentValueError, error_text
from mpls.formats import algorithms
from mpls.formats.families import FAMILY_MODULES
from mpls.formats.record import Family
from mpls.transfer import formulas
from mpls.upstream import table
from mpls.upstream.kerases import keras_family_of, native_keras_wrappers
from mpls.upstream.optimizers import (
    counter_of,
    create_weights,
    index_of,
    is_built,
    name_of_legacy,
    powers_of,
    product_of_nadam,
    settle_counts,
    trained_variables,
)


@dataclass(frozen=True)
class Place:
    """A variable that is trained, as an optimizer sees it.

    Attributes:
        name: its name, with whatever scopes are before it.
        slots: the slot variables, by the names of `algorithms`.
        variable: itself; None where the optimizer does not keep it.
    """

    name: str | None
    slots: Mapping[str, Any]
    variable: Any = None


def name_of(variable: Any) -> str | None:
    """Return a variable's name with its scopes; None for None."""
    return None if variable is None else str(getattr(variable, "path", variable.name)).partition(":")[0]


def scope_of(variables: Sequence[Any]) -> AbstractContextManager[Any]:
    """Return the scope of the strategy that variables belong to."""
    for variable in variables:
        raw = getattr(variable, "value", variable)
        strategy = getattr(variable if callable(raw) else raw, "distribute_strategy", None)
        if strategy is not None:
            return strategy.scope()  # type: ignore[no-any-return]
    return nullcontext()


def as_numpy(variable: Any) -> Any:
    """Return a variable's value as a NumPy array."""
    return np.asarray(variable.numpy())


def dtype_of(variable: Any) -> Any:
    """Return a variable's dtype as one of TensorFlow."""
    dtype = variable.dtype
    return tf.as_dtype(getattr(dtype, "base_dtype", dtype))


@dataclass(frozen=True)
class Described:
    """A variable of an optimizer that need not be built yet.

    Attributes:
        name: the variable's name.
        slots: shape and dtype of each slot, by the names of `algorithms`.
    """

    name: str | None
    slots: Mapping[str, tuple[tuple[int, ...], Any]] = field(default_factory=dict)


def describe(place: Place) -> Described:
    """Return what a place holds."""
    return Described(place.name, {name: (tuple(slot.shape), dtype_of(slot)) for name, slot in place.slots.items()})


ANCHOR = "my-checkpoints"
# Of Keras optimizers: not slots, but variables of theirs all the same.
_COUNTERS = (table.NEW_STEPS.name, table.NEW_RATE.name, "_current_learning_rate")


# Lists that are not those of a kind of slot.
_OTHER_LISTS = (table.OWN_VARIABLES.name, "_self_unconditional_checkpoint_dependencies")


class Host:
    """An optimizer without the wrapper around it.

    Attributes:
        optimizer: as the user passes it.
        inner: the optimizer in the wrapper; the same where there is none.
        state: the algorithm in `algorithms.SLOTS` whose state it has; None for others.
    """

    family: Family

    def __init__(self, optimizer: Any, inner: Any) -> None:
        self.optimizer = optimizer
        self.inner = inner
        self.algorithm = formulas.algorithm_of(inner)
        self.state = algorithms.state_of(self.algorithm)

    @property
    def wrapper(self) -> Any:
        """The wrapper; None if there is none."""
        return None if self.optimizer is self.inner else self.optimizer

    def __str__(self) -> str:
        """Return its class and family in words."""
        return f"{FAMILY_MODULES[self.family]}.{type(self.inner).__name__}"

    @property
    def iterations(self) -> Any:
        """The variable that counts its steps; None where it has none, or has not made it yet."""
        return counter_of(self.inner)

    def is_built(self, variables: Sequence[Any] | None) -> bool:
        """Return whether it has slots for these variables, or, for None, for some."""
        raise NotImplementedError

    def build(self, variables: Sequence[Any]) -> None:
        """Create its slots, with those of the variables that have none yet."""
        with scope_of(variables):
            self.optimizer.build(list(variables))

    def places(self, variables: Sequence[Any] | None = None) -> list[Place]:
        """Return what it has of each variable, in the order in which they are given, or in its own."""
        raise NotImplementedError

    def others(self) -> dict[str, Any]:
        """Return its other variables by name."""
        raise NotImplementedError

    def uncounted(self) -> list[str]:
        """Return the names of variables of its that are in no place and not among the others."""
        return []

    def settle(self, steps: int) -> None:
        """Bring what it keeps outside of variables to the number of updates that it has now made."""


class _Slotted(Host):
    """Optimizers that find slots by `get_slot`: legacy ones, and those of v1."""

    def _called(self, name: str) -> str:
        return algorithms.slot_called(self.state, self.family, name)

    def places(self, variables: Sequence[Any] | None = None) -> list[Place]:
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

    def _by_variable(self) -> dict[Any, dict[str, Any]]:
        raise NotImplementedError

    @staticmethod
    def _name_from(slots: Mapping[str, Any]) -> str | None:
        for slot in slots.values():
            # The variable's name comes before that of the slot.
            return str(slot.name).partition(":")[0].rpartition("/")[0] or None
        return None

    def is_built(self, variables: Sequence[Any] | None) -> bool:
        if variables is None:
            return bool(self._by_variable())
        return all(self._slots_of(each) for each in variables)


class V1Host(_Slotted):
    """Optimizers of `tf.compat.v1.train`."""

    family = "v1"

    @property
    def iterations(self) -> Any:
        """None: they count in `global_step`, which they do not know."""
        return None

    def _by_variable(self) -> dict[Any, dict[str, Any]]:
        found: dict[Any, dict[str, Any]] = {}
        for name, slots in table.V1_SLOTS.needed_of(self.inner).items():
            for key, slot in slots.items():
                found.setdefault(key, {})[name] = slot
        return found

    def others(self) -> dict[str, Any]:
        """Return Adam's beta powers by name, and what else is there."""
        return {name: variable for (name, _), variable in powers_of(self.inner).items()}


class LegacyHost(_Slotted):
    """Legacy optimizers of tf_keras."""

    family = "legacy"

    @property
    def iterations(self) -> Any:
        """The counter, which they make when it is asked for."""
        return self.inner.iterations

    def build(self, variables: Sequence[Any]) -> None:
        """Create slots of those variables that have none; it goes on knowing the others."""
        with scope_of(variables), tf.name_scope(name_of_legacy(self.inner)):
            create_weights(self.optimizer, list(variables))

    def _by_variable(self) -> dict[Any, dict[str, Any]]:
        found: dict[Any, dict[str, Any]] = table.LEGACY_SLOTS.needed_of(self.inner)
        return found

    def is_built(self, variables: Sequence[Any] | None) -> bool:
        """Return whether each of the variables has slots, if it makes any."""
        without_slots = self.state == "SGD" and not table.MOMENTUM.of(self.inner, True)
        return bool(without_slots and table.HAS_HYPERS.of(self.inner)) or super().is_built(variables)

    def others(self) -> dict[str, Any]:
        """Return variables that they have made with `add_weight`, as Nadam's cache."""
        slots = {id(slot) for slots in self._by_variable().values() for slot in slots.values()}
        counter = counter_of(self.inner)
        made = table.WEIGHTS.needed_of(self.inner)
        weights = [each for each in made if id(each) not in slots and each is not counter]
        return {str(each.name).partition(":")[0].rpartition("/")[2]: each for each in weights}


class _Listed(Host):
    """Optimizers that keep lists of slots in attributes: new ones of tf_keras, and those of Keras 3."""

    def is_built(self, variables: Sequence[Any] | None) -> bool:
        # At once for all.
        del variables
        return is_built(self.inner)

    def _index(self, variable: Any) -> int:
        raise NotImplementedError

    def _own(self) -> list[Any]:
        """Return the variables that it was built with; None for each where it does not keep them."""
        raise NotImplementedError

    def _lists(self) -> dict[str, list[Any]]:
        known = {id(each) for each in self.inner.variables}
        count = len(self._own())
        lists = {}
        for name, value in vars(self.inner).items():
            if name in _OTHER_LISTS or not isinstance(value, list):
                continue
            # Where a variable has no slot, there is None, or in Adafactor something of no use.
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
        found = {name: each for name, each in attributes if id(each) in known and name not in _COUNTERS}
        product = product_of_nadam(self.inner)
        return found if product is None else {**found, table.U_PRODUCT.name: product}

    def uncounted(self) -> list[str]:
        counted = {id(slot) for slots in self._lists().values() for slot in slots}
        counted |= {id(each) for each in self.others().values()}
        counted |= {id(vars(self.inner).get(name)) for name in _COUNTERS}
        return [str(each.name) for each in self.inner.variables if id(each) not in counted]


class NewHost(_Listed):
    """New optimizers of tf_keras."""

    family = "new"

    def _index(self, variable: Any) -> int:
        return index_of(self.inner, variable)

    def _own(self) -> list[Any]:
        return [None] * (len(table.INDEX.needed_of(self.inner)) if is_built(self.inner) else 0)

    def _name_from(self, variable: Any, slots: Mapping[str, Any]) -> str | None:
        if variable is not None:
            return name_of(variable)
        for name, slot in slots.items():
            own = algorithms.slot_names(self.state, "new").get(name, name) if self.state else name
            # The optimizer's name and that of the slot come before the variable's.
            return f"/{slot.name}".partition(":")[0].partition(f"/{own}/")[2] or None
        return None

    def settle(self, steps: int) -> None:
        """Set Nadam's count, which is a Python number, and the rate that a schedule has now."""
        settle_counts(self.inner, steps)


class Keras3Host(_Listed):
    """Optimizers of Keras 3."""

    family = "keras3"

    def _index(self, variable: Any) -> int:
        return index_of(self.inner, variable)

    def _own(self) -> list[Any]:
        return trained_variables(self.inner)


_HOSTS: dict[str, type[Host]] = {"legacy": LegacyHost, "new": NewHost, "keras3": Keras3Host}


def _v1_host(optimizer: Any) -> Host:
    layers = [optimizer]
    # Wrappers of mpls and TensorFlow, those of tf.contrib and SyncReplicasOptimizer, in any order.
    for name in ("_optimizer", "_opt") * 3:
        wrapped = vars(layers[-1]).get(name)
        layers += [wrapped] if isinstance(wrapped, tf.compat.v1.train.Optimizer) else []
    scaled = [each for each in layers if {"_loss_scale", "_loss_scale_manager"} & set(vars(each))]
    return V1Host((scaled or layers)[0 if scaled else -1], layers[-1])


def host_of(optimizer: Any, argument: str, *, takes_v1: bool) -> Host:
    """Take a live optimizer apart.

    Args:
        optimizer: what the user passes.
        argument: the public name of it, for the error.
        takes_v1: whether it may be one of `tf.compat.v1.train`.

    Raises:
        TypeError: it is none.
    """
    inner: Any = optimizer
    if isinstance(optimizer, native_keras_wrappers()):
        inner = inner.inner_optimizer
    family = keras_family_of(inner)
    if family is not None:
        return _HOSTS[family](optimizer, inner)
    base = tf.compat.v1.train.Optimizer
    if takes_v1 and isinstance(optimizer, base):
        return _v1_host(optimizer)
    advice = "convert_state('checkpoints/ckpt-1', tf_keras.optimizers.Adam(), model.trainable_variables)"
    if isinstance(optimizer, base):
        advice = "For optimizers of tf.compat.v1.train use tf.compat.v1.train.Saver; the target must be one of Keras"
    raise ArgumentTypeError(
        error_text(argument, "be an optimizer of tf_keras or of Keras 3", optimizer, advice, ANCHOR)
    )
