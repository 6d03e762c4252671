"""Pairs of gradient and variable of which some, or all, have no gradient."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from mpls.errors import ArgumentValueError, error_text


def drop_missing_gradients(grads_and_vars: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return the pairs that have a gradient, and log the names of the variables that have none.

    Raises:
        ValueError: there are pairs, and none has a gradient.
    """
    pairs = list(grads_and_vars)
    require_gradients(pairs)
    missing = _without_gradient(pairs)
    if missing:
        tf.get_logger().warning("LossScaleOptimizer: there are no gradients for the variables %s.", missing)
    return [(grad, variable) for grad, variable in pairs if grad is not None]


def require_gradients(grads_and_vars: list[tuple[Any, Any]]) -> None:
    """Refuse pairs of which none has a gradient.

    Raises:
        ValueError: there are pairs, and none has a gradient.
    """
    missing = _without_gradient(grads_and_vars)
    if missing and len(missing) == len(grads_and_vars):
        raise ArgumentValueError(
            error_text(
                "LossScaleOptimizer: grads_and_vars",
                "hold at least one gradient that is not None",
                missing,
                "Check that the loss depends on the variables: tape.gradient(loss, variables)",
                "no-gradients",
            )
        )


def _without_gradient(grads_and_vars: list[tuple[Any, Any]]) -> list[str]:
    return [str(getattr(variable, "name", variable)) for grad, variable in grads_and_vars if grad is None]
