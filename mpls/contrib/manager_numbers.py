"""The numbers of a manager whose loss scale adapts: arguments that are checked, and variables."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from mpls.core.numbers import require_usable, to_float

__all__ = ["made_variable", "subject_of", "usable"]


def subject_of(argument: str) -> str:
    """Return how errors name an argument."""
    return f"ExponentialUpdateLossScaleManager: {argument}"


def usable(argument: str, value: Any) -> float:
    """Return an argument as a float.

    Raises:
        TypeError: it is no number.
        ValueError: it is not positive, or no float32.
    """
    return require_usable(to_float(value, subject_of(argument)), subject_of(argument), value)


def made_variable(name: str, value: float, dtype: Any) -> Any:
    """Make a variable outside of functions and control flow."""
    with tf.init_scope():
        return tf.compat.v1.Variable(value, name=name, dtype=dtype, trainable=False, use_resource=True)
