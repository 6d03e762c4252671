"""Checks of what users pass to the v1 wrapper."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from mpls.core.loss_scale import LossScale, get
from mpls.errors import ArgumentValueError, error_text

__all__ = ["checked_loss_scale", "require_a_gradient", "require_optimizer"]


def require_optimizer(opt: Any, subject: str) -> None:
    """Refuse what is no `tf.compat.v1.train.Optimizer`."""
    if isinstance(opt, tf.compat.v1.train.Optimizer):
        return
    advice = (
        "Wrap Keras optimizers with mpls.keras.LossScaleOptimizer(opt), and others not at all: "
        "MixedPrecisionLossScaleOptimizer(tf.compat.v1.train.AdamOptimizer(), 'dynamic')"
    )
    raise ArgumentValueError(
        error_text(f"{subject}: opt", "be a tf.compat.v1.train.Optimizer", opt, advice, "optimizer-arguments")
    )


def checked_loss_scale(loss_scale: Any, subject: str) -> LossScale:
    """Return the loss scale that an argument stands for; None stands for none, and is refused."""
    scale = get(loss_scale, f"{subject}: loss_scale")
    if scale is not None:
        return scale
    raise ArgumentValueError(
        error_text(
            f"{subject}: loss_scale",
            "be 'dynamic', a number or a LossScale",
            None,
            "Pass 'dynamic', or use the optimizer unwrapped",
            "loss-scale-arguments",
        )
    )


def require_a_gradient(grads_and_vars: tuple[tuple[Any, Any], ...]) -> None:
    """Refuse, before the loss scale changes, pairs without any gradient, as the wrapped optimizer would."""
    if any(grad is not None for grad, _ in grads_and_vars):
        return
    names = [str(getattr(variable, "name", variable)) for _, variable in grads_and_vars]
    raise ArgumentValueError(
        error_text(
            "MixedPrecisionLossScaleOptimizer: grads_and_vars",
            "hold at least one gradient that is not None",
            names,
            "Check that the loss depends on the variables: tf.gradients(loss, variables)",
            "no-gradients",
        )
    )
