"""The automatic mixed-precision graph rewrite, and the loss scaling that comes with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, SupportsFloat

import tensorflow as tf

from mpls.core.loss_scale import LossScale
from mpls.errors import ArgumentTypeError, ArgumentValueError, error_text
from mpls.upstream.rewrite import (
    has_session_without_rewrite,
    is_graph_rewrite_enabled,
    is_mixed_policy_set,
    set_graph_rewrite_enabled,
)
from mpls.upstream.tensorflow import native_v1_class
from mpls.v1.optimizer import MixedPrecisionLossScaleOptimizer

_SUBJECT = "enable_mixed_precision_graph_rewrite"

# Optimizer class -> (function that wraps it, class of what that function returns).
_registry: dict[type, tuple[Callable[[Any, Any], Any], Any]] = {}


def register_loss_scale_wrapper(
    optimizer_cls: type, wrapper_fn: Callable[[Any, Any], Any], wrapper_cls: type | None = None
) -> None:
    """Register how `enable_mixed_precision_graph_rewrite` wraps optimizers of a class.

    Examples:
        >>> import tensorflow as tf
        >>> import mpls.v1
        >>> class Plain(tf.compat.v1.train.GradientDescentOptimizer):
        ...     pass
        >>> mpls.v1.register_loss_scale_wrapper(
        ...     Plain, lambda opt, loss_scale: mpls.v1.MixedPrecisionLossScaleOptimizer(opt, 8))

    Your registration is used before those of mpls. A second registration for the same class replaces the first.

    Args:
        optimizer_cls: the class of optimizers; its subclasses are included.
        wrapper_fn: a function that takes an optimizer and a loss scale, and returns the wrapped optimizer.
        wrapper_cls: the class of the wrapped optimizer, whose instances are not wrapped again; by default `wrapper_fn`,
            if `wrapper_fn` is a class.

    Raises:
        TypeError: `optimizer_cls` is not a class.

    Reproduces:
        `tf.__internal__.mixed_precision.register_loss_scale_wrapper`, TF 2.6 to 2.21, where a function without
        `wrapper_cls` made every later call of `enable_mixed_precision_graph_rewrite` fail. mpls does not change
        TensorFlow's registry.
    """
    if not isinstance(optimizer_cls, type):
        raise ArgumentTypeError(
            error_text(
                "register_loss_scale_wrapper: optimizer_cls",
                "be a class",
                optimizer_cls,
                "Pass type(opt)",
                "graph-rewrite",
            )
        )
    _registry[optimizer_cls] = (wrapper_fn, wrapper_cls or wrapper_fn)


def enable_mixed_precision_graph_rewrite(
    opt: Any, loss_scale: LossScale | SupportsFloat | Literal["dynamic"] = "dynamic"
) -> Any:
    """Turn the mixed-precision graph rewrite on, and wrap an optimizer so that it scales the loss.

    Examples:
        >>> import tensorflow as tf
        >>> import mpls.v1
        >>> opt = tf.compat.v1.train.GradientDescentOptimizer(0.1)
        >>> opt = mpls.v1.enable_mixed_precision_graph_rewrite(opt)
        >>> mpls.v1.disable_mixed_precision_graph_rewrite()

    The rewrite works in sessions and functions that are created afterwards. On GPUs with tensor cores, it changes ops
    to float16. Elsewhere, only the loss scaling has an effect.

    Args:
        opt: an optimizer of `tf.compat.v1.train`, tf_keras (legacy or new) or Keras 3.
        loss_scale: `'dynamic'`, a number of at least 1, or a `FixedLossScale` or `DynamicLossScale`; for v1 optimizers
            any `LossScale`.

    Returns:
        The wrapped optimizer: a `MixedPrecisionLossScaleOptimizer` for a v1 optimizer, a
        `mpls.keras.LossScaleOptimizer` for one of Keras.

    Raises:
        ValueError: `opt` has a wrapper, or is not one of these optimizers; `loss_scale` is not one of these; or the
            global Keras policy is mixed. The rewrite has not been turned on then.

    Reproduces:
        `tf.compat.v1.train.experimental.enable_mixed_precision_graph_rewrite`, TF 1.14 to 2.21, and
        `tf.train.experimental.enable_mixed_precision_graph_rewrite`, TF 1.14 to 2.5. Since TF 2.11, TensorFlow
        refused new tf_keras optimizers.
    """
    if is_mixed_policy_set():
        raise ArgumentValueError(
            f"{_SUBJECT}: the global Keras policy must not be a mixed one; got one, set with set_global_policy or "
            "set_policy. Use one of the two: mpls.keras.set_global_policy('float32'), or leave this call out and "
            "wrap the optimizer with mpls.keras.LossScaleOptimizer(opt). See mpls docs graph-rewrite"
        )
    wrapped = _wrap(opt, loss_scale)
    if has_session_without_rewrite():
        tf.compat.v1.logging.warn(
            "enable_mixed_precision_graph_rewrite() has no effect on the Sessions that exist already, which run "
            "without mixed precision; create the Session after the call."
        )
    set_graph_rewrite_enabled(True)
    return wrapped


def disable_mixed_precision_graph_rewrite() -> None:
    """Turn the mixed-precision graph rewrite off for sessions and functions that are created afterwards.

    Examples:
        >>> import tensorflow as tf
        >>> import mpls.v1
        >>> opt = tf.compat.v1.train.GradientDescentOptimizer(0.1)
        >>> opt = mpls.v1.enable_mixed_precision_graph_rewrite(opt)
        >>> mpls.v1.disable_mixed_precision_graph_rewrite()

    Wrapped optimizers still scale the loss. If the rewrite is off already, the function logs a warning.

    Reproduces:
        `tf.compat.v1.train.experimental.disable_mixed_precision_graph_rewrite`, TF 1.14 to 2.21.
    """
    if not is_graph_rewrite_enabled():
        tf.compat.v1.logging.warn(
            "disable_mixed_precision_graph_rewrite() was called while the mixed-precision graph rewrite is off."
        )
    set_graph_rewrite_enabled(False)


def _wrap(opt: Any, loss_scale: Any) -> Any:
    _refuse_wrapped(opt)
    for optimizer_cls, (wrapper_fn, _) in _registry.items():
        if isinstance(opt, optimizer_cls):
            return wrapper_fn(opt, loss_scale)
    if isinstance(opt, tf.compat.v1.train.Optimizer):
        return MixedPrecisionLossScaleOptimizer(opt, loss_scale)
    # Imported late: it loads the Keras families.
    from mpls.keras.graph_rewrite import is_wrappable, wrap

    if is_wrappable(opt):
        return wrap(opt, loss_scale)
    raise ArgumentValueError(
        error_text(
            f"{_SUBJECT}: opt",
            "be a tf.compat.v1.train.Optimizer or a Keras optimizer",
            opt,
            f"{_SUBJECT}(tf.compat.v1.train.AdamOptimizer())",
            "graph-rewrite",
        )
    )


def _refuse_wrapped(opt: Any) -> None:
    from mpls.keras.graph_rewrite import is_wrapper

    native = native_v1_class("MixedPrecisionLossScaleOptimizer")
    known = [
        native,
        MixedPrecisionLossScaleOptimizer,
        *(wrapper_cls for _, wrapper_cls in _registry.values()),
    ]
    is_wrapped = isinstance(opt, tuple(cls for cls in known if isinstance(cls, type)))
    is_wrapped = is_wrapped or is_wrapper(opt)
    if is_wrapped:
        raise ArgumentValueError(
            error_text(
                f"{_SUBJECT}: opt",
                "not scale the loss already",
                opt,
                f"Pass the optimizer that it wraps; {_SUBJECT} wraps it",
                "graph-rewrite",
            )
        )
