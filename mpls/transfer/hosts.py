"""Live optimizers, one interface for all families: counter, slots of each variable, other state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from mpls.formats import algorithms
from mpls.formats.families import FAMILY_MODULES, Family
from mpls.transfer import formulas
from mpls.upstream.optimizers import counter_of


@dataclass(frozen=True)
class Place:
    """A trained variable of a live optimizer, and its slots.

    Attributes:
        name: the variable's name, with its scopes; None if the optimizer does not tell it.
        slots: the slot variables, by the names in `mpls.formats.algorithms`.
        variable: the variable; None if the optimizer does not keep it.
    """

    name: str | None
    slots: Mapping[str, Any]
    variable: Any = None


@dataclass(frozen=True)
class Described:
    """A trained variable and the slots that it has, or will have once the optimizer is built.

    Attributes:
        name: the variable's name, with its scopes; None if not known.
        slots: shape and `tf.DType` of each slot, by the names in `mpls.formats.algorithms`.
    """

    name: str | None
    slots: Mapping[str, tuple[tuple[int, ...], Any]] = field(default_factory=dict)


def description_of(place: Place) -> Described:
    """Return the description of a place."""
    return Described(place.name, {name: (tuple(slot.shape), dtype_of(slot)) for name, slot in place.slots.items()})


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

    def __init__(self, optimizer: Any, inner: Any) -> None:
        self.optimizer = optimizer
        self.inner = inner
        self.algorithm = formulas.algorithm_of(inner)
        self.state = algorithms.state_of(self.algorithm)

    @property
    def wrapper(self) -> Any:
        """The wrapper; None if the optimizer is bare."""
        return None if self.optimizer is self.inner else self.optimizer

    def __str__(self) -> str:
        """Return the public path of its class, as `'keras.optimizers.Adam'`."""
        return f"{FAMILY_MODULES[self.family]}.{type(self.inner).__name__}"

    @property
    def iterations(self) -> Any:
        """The variable that counts steps; None if the optimizer has none, or has not created it yet."""
        return counter_of(self.inner)

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
