"""Variables that are trained, as an optimizer sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf


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
