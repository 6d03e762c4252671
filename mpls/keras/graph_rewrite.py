"""How the graph rewrite wraps Keras optimizers; `mpls.v1` asks by name, without importing it."""

from __future__ import annotations

from typing import Any

from mpls.keras.arguments import translate_loss_scale
from mpls.keras.base import LossScaleOptimizer
from mpls.keras.families import is_keras_optimizer

__all__ = ["is_wrappable", "is_wrapper", "wrap"]

is_wrappable = is_keras_optimizer


def is_wrapper(optimizer: Any) -> bool:
    """Return whether an optimizer is a Keras wrapper that scales the loss."""
    return isinstance(optimizer, LossScaleOptimizer)


def wrap(optimizer: Any, loss_scale: Any) -> LossScaleOptimizer:
    """Wrap a Keras optimizer.

    Args:
        optimizer: one for which `is_wrappable` holds.
        loss_scale: `'dynamic'`, a number, a `FixedLossScale` or a `DynamicLossScale`.

    Returns:
        The wrapper.

    Raises:
        ValueError: the loss scale has no counterpart.
        TypeError: it is of a class of the user's own.
    """
    settings = translate_loss_scale(loss_scale, "enable_mixed_precision_graph_rewrite")
    return LossScaleOptimizer(optimizer, **settings)
