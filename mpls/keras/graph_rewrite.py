"""How the graph rewrite wraps Keras optimizers, which `mpls.v1` imports when it is given one."""

from __future__ import annotations

from typing import Any

from mpls.core import releases
from mpls.errors import without_deprecations
from mpls.keras.adapters import is_keras_optimizer
from mpls.keras.arguments import translate_loss_scale
from mpls.keras.experimental_wrapper import LossScaleOptimizer as Experimental
from mpls.keras.optimizer import LossScaleOptimizer

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
        The wrapper; as of TF 2.8 and earlier, the experimental one.

    Raises:
        ValueError: the loss scale has no counterpart.
        TypeError: it is of a class of the user's own.
    """
    if releases.current().is_up_to("2.8"):
        # They wrapped with the experimental class.
        with without_deprecations():
            return Experimental(optimizer, loss_scale)
    settings = translate_loss_scale(loss_scale, "enable_mixed_precision_graph_rewrite")
    return LossScaleOptimizer(optimizer, **settings)
