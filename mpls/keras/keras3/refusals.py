"""Checks of the Keras 3 family, made before anything changes."""

from __future__ import annotations

import inspect
from typing import Any

import keras

from mpls.core.step_options import StepOptions
from mpls.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    UnsupportedBackendError,
    UnsupportedGraphError,
    error_text,
)
from mpls.upstream.keras_packages import unknown_variables
from mpls.upstream.tensorflow import graph_key


def require_known_backend() -> None:
    """Refuse backends of Keras on which mpls is not tested."""
    backend = keras.backend.backend()
    if backend not in ("tensorflow", "jax"):
        raise UnsupportedBackendError(
            f"LossScaleOptimizer: the backend of Keras must be tensorflow or jax; got {backend!r} (str). Set "
            "KERAS_BACKEND=tensorflow before Keras is imported. See mpls docs keras-3"
        )


def require_tensorflow(method: str) -> None:
    """Refuse a method that needs TensorFlow's gradients."""
    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise UnsupportedBackendError(
            f"LossScaleOptimizer: {method}() must be called on the TensorFlow backend; got {backend!r} (str). "
            "Compute gradients of opt.scale_loss(loss), and call opt.stateless_apply(). See mpls docs keras-3"
        )


def require_stateless_backend() -> None:
    """Refuse `stateless_apply` on TensorFlow, as Keras does."""
    if keras.backend.backend() == "tensorflow":
        raise UnsupportedBackendError(
            "LossScaleOptimizer: stateless_apply() must be called on the JAX backend; got TensorFlow, on which no "
            "Keras optimizer has it. Call opt.apply(grads, variables). See mpls docs keras-3"
        )


def accumulates(inner_optimizer: Any) -> bool:
    """Return whether an optimizer averages the gradients of several steps, and updates variables after these."""
    return bool(inner_optimizer.gradient_accumulation_steps)


def refuse_settings(inner_optimizer: Any, options: StepOptions) -> None:
    """Refuse an optimizer whose own settings do not go with a loss scale, or with the options of the wrapper."""
    _refuse_factor(inner_optimizer)
    if options.skip_counts_step and accumulates(inner_optimizer):
        raise ArgumentValueError(
            error_text(
                "LossScaleOptimizer: skip_counts_step",
                "be False or left out where the optimizer has gradient_accumulation_steps, as Keras would take a "
                "skipped step for one of those that it has added up",
                options.skip_counts_step,
                "Leave it out, and read skipped_steps: LossScaleOptimizer(optimizer, count_steps=True)",
                "counted-steps",
            )
        )


def _refuse_factor(inner_optimizer: Any) -> None:
    """Refuse an optimizer with a `loss_scale_factor`: it would unscale the gradients a second time."""
    factor = inner_optimizer.loss_scale_factor
    if factor is not None:
        raise ArgumentValueError(
            error_text(
                "LossScaleOptimizer: inner_optimizer",
                "have no loss_scale_factor of its own",
                factor,
                f"Leave it out, and pass LossScaleOptimizer(optimizer, dynamic=False, initial_scale={factor})",
                "fixed-scales",
            )
        )


def refuse_factor_of_wrapper(_: Any, factor: Any) -> None:
    """Refuse to set `loss_scale_factor` on a wrapper, which has a loss scale already."""
    if factor is not None:
        raise ArgumentValueError(
            error_text(
                "LossScaleOptimizer: loss_scale_factor",
                "be None, as the wrapper scales the loss",
                factor,
                f"For a fixed scale: LossScaleOptimizer(optimizer, dynamic=False, initial_scale={factor})",
                "fixed-scales",
            )
        )


def refuse_unknown(inner_optimizer: Any, variables: list[Any]) -> None:
    """Refuse variables that the optimizer was not built with, before the loss scale is updated."""
    unknown = [str(variable.name) for variable in unknown_variables(inner_optimizer, variables)]
    if unknown:
        raise ArgumentValueError(
            error_text(
                "LossScaleOptimizer: trainable_variables",
                "be among those that the optimizer was built with",
                unknown,
                "Call opt.build(all_variables) before the first step, or create another optimizer",
                "keras-3",
            )
        )


def refuse_v1_graph() -> None:
    """Refuse to apply gradients where no session could run it."""
    if graph_key() is not None:
        raise UnsupportedGraphError(
            "LossScaleOptimizer: an optimizer in a v1 graph must be one of tf_keras.optimizers.legacy; got one of "
            "Keras 3, which returns no op that a session could run. Wrap tf_keras.optimizers.legacy.SGD(), or one of "
            "tf.compat.v1.train with mpls.v1. See mpls docs optimizer-arguments"
        )


def require_second_argument(inner_optimizer: Any, value: Any) -> None:
    """Refuse a second positional argument of `apply_gradients` that the wrapped optimizer's own does not take."""
    parameters = inspect.signature(inner_optimizer.apply_gradients).parameters.values()
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    takes_any = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    if keras.backend.backend() != "tensorflow" or (len(positional) < 2 and not takes_any):
        raise ArgumentTypeError(
            error_text(
                "LossScaleOptimizer.apply_gradients: skip_gradients_aggregation",
                f"be a bool, since apply_gradients of {type(inner_optimizer).__name__} takes nothing in its place",
                value,
                "opt.apply_gradients(zip(grads, variables))",
                "second-argument",
            )
        )


def refuse_off_tensorflow(option: str, value: Any) -> None:
    """Refuse an option that is set, as its state is in TensorFlow's variables; called on another backend."""
    if value in (None, False):
        return
    raise UnsupportedBackendError(
        f"LossScaleOptimizer: {option} must be left out where Keras runs on {keras.backend.backend()}; got {value!r} "
        f"({type(value).__name__}), whose state is in TensorFlow's variables. Leave it out, or run Keras on "
        "TensorFlow. See mpls docs keras-3"
    )


def refuse_sharing(other: Any) -> None:
    """Refuse a wrapper whose loss scale is to be shared; called on another backend than TensorFlow.

    There, Keras hands the variables of one optimizer from step to step, and writes them back later.
    """
    raise UnsupportedBackendError(
        f"LossScaleOptimizer: share_scale_with must be left out where Keras runs on {keras.backend.backend()}; got "
        f"{other!r} ({type(other).__name__}). Give each optimizer a loss scale of its own, or run Keras on TensorFlow. "
        "See mpls docs several-losses"
    )


def require_tensorflow_for(loss_scale: Any) -> None:
    """Refuse a loss scale that keeps its state in TensorFlow's variables on another backend."""
    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise UnsupportedBackendError(
            f"LossScaleOptimizer: loss_scale must be 'dynamic' or a number where Keras runs on {backend}; got "
            f"{loss_scale!r} ({type(loss_scale).__name__}), whose state is in TensorFlow's variables. "
            "Pass 'dynamic', or use mpls.keras.LossScaleOptimizer. See mpls docs keras-3"
        )
