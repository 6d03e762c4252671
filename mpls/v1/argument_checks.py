"""Checks of what users pass to the v1 wrapper, and to that of `tf.contrib`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from mpls.core.autograph import as_written
from mpls.core.identifiers import get
from mpls.core.loss_scale import LossScale
from mpls.errors import ArgumentValueError, MplsWarning, advise_user, error_text

if TYPE_CHECKING:
    from mpls.core.declared import Optimizer as _Base
else:
    _Base = object


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


class CheckedMinimize(_Base):
    """Mixin that goes before TensorFlow's own class, and does what the documentation of its `minimize` says."""

    @as_written
    def minimize(
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = tf.compat.v1.train.Optimizer.GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Any:
        """Compute the gradients of the scaled loss, unscale them, and apply them or skip the step.

        Args:
            loss: as `compute_gradients` takes it.
            global_step: as `apply_gradients` takes it.
            var_list: list or tuple of the variables to update; by default as in `compute_gradients`.
            gate_gradients: as `compute_gradients` takes it. In eager mode it is ignored, and so are the next two.
            aggregation_method: as `compute_gradients` takes it.
            colocate_gradients_with_ops: as `compute_gradients` takes it.
            name: as `apply_gradients` takes it.
            grad_loss: as `compute_gradients` takes it. In eager mode it is ignored, with a warning.

        Returns:
            What `apply_gradients` returns.

        Raises:
            ValueError: something in `var_list` is no `tf.Variable`, or no gradient reaches any variable.
        """
        for each in () if var_list is None else tf.nest.flatten(var_list):
            if not isinstance(each, tf.Variable):
                raise ArgumentValueError(
                    error_text(
                        f"{type(self).__name__}.minimize: var_list",
                        "be a list or tuple of tf.Variable objects",
                        each,
                        "Pass opt.minimize(loss, var_list=[variable]), and list(variable) for a partitioned one",
                        "optimizer-arguments",
                    )
                )
        if grad_loss is not None and tf.executing_eagerly():
            advise_user(
                f"{type(self).__name__}: minimize() ignores grad_loss in eager mode, as documented; the original "
                "multiplied the gradients by it. Multiply the loss: opt.minimize(lambda: loss() * weight). "
                "See mpls docs optimizer-arguments",
                MplsWarning,
            )
            grad_loss = None
        return super().minimize(
            loss,
            global_step=global_step,
            var_list=var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            name=name,
            grad_loss=grad_loss,
        )
