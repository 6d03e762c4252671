"""Keras variables of options, on other backends than TensorFlow; Keras' trainer passes them on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from mpls.core.counters import StepRecord
from mpls.core.step_options import StepOptions
from mpls.formats.wrapper_state import COUNTS

__all__ = ["BackendRecord", "BackendVariable", "counters", "option_variables"]


class BackendVariable:
    """A Keras variable of a whole number, for code that reads and sets variables of TensorFlow.

    Args:
        variable: the variable, a scalar int32: JAX has no int64 unless it is told to.
    """

    def __init__(self, variable: Any) -> None:
        self.variable = variable
        self.dtype = tf.as_dtype(keras.backend.standardize_dtype(variable.dtype))
        self.shape = tuple(variable.shape)

    def numpy(self) -> Any:
        """Return the value, a NumPy array."""
        return keras.ops.convert_to_numpy(self.variable)

    def assign(self, value: Any) -> None:
        """Set the value."""
        self.variable.assign(value)


def counters(values: Mapping[str, int]) -> dict[str, Any]:
    """Return new scalar int32 Keras variables by name, given their initial values."""
    return {name: keras.Variable(value, dtype="int32", trainable=False, name=name) for name, value in values.items()}


def option_variables(wrapper: Any) -> list[Any]:
    """Return the Keras variables of options, always in the same order; none on TensorFlow."""
    owners = (vars(wrapper).get(name) for name in ("_loss_scale", "_record"))
    return [variable for owner in owners for variable in getattr(owner, "of_backend", {}).values()]


class BackendRecord(StepRecord):
    """The counters of an optimizer in Keras' variables.

    Args:
        options: what is counted; only steps are.

    Attributes:
        of_backend: the counters by name, scalar int32 Keras variables.
    """

    def __init__(self, options: StepOptions) -> None:
        super().__init__(options)
        self.of_backend = counters(dict.fromkeys(COUNTS, 0))

    def counter(self, name: str) -> Any:
        """Return a counter, a scalar int32 Keras variable."""
        return self.of_backend[name]

    def _created_weight(self, name: str) -> Any:
        return BackendVariable(self.of_backend[name])

    def last_step_applied(self) -> Any:
        """Return whether the last step was applied, a scalar boolean tensor of the backend; false before the first."""
        applied, _, in_a_row = (ops.convert_to_tensor(self.of_backend[name]) for name in COUNTS)
        return ops.logical_and(applied > 0, ops.equal(in_a_row, 0))

    def after_step(self, before: Mapping[str, Any], is_applied: Any) -> dict[str, Any]:
        """Return the values of the counters after a step, by name.

        Args:
            before: their values before it.
            is_applied: whether it is applied, a bool or a scalar boolean tensor.
        """
        applied, skipped, in_a_row = (before[name] for name in COUNTS)
        one = ops.cast(is_applied, "int32")
        return dict(zip(COUNTS, (applied + one, skipped + 1 - one, (in_a_row + 1) * (1 - one)), strict=True))
