"""Arguments of the Keras wrappers: checked, and translated between the historical forms."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from mpls.core.loss_scale import FixedLossScale, is_dynamic, is_fixed, is_loss_scale
from mpls.core.numbers import require_usable, to_float, to_int
from mpls.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    TensorArgumentError,
    error_text,
)
from mpls.formats.validity import is_number

DEFAULT_INITIAL_SCALE = 2.0**15
DEFAULT_GROWTH_STEPS = 2000
_SUBJECT = "LossScaleOptimizer"


def check_settings(dynamic: Any, initial_scale: Any, dynamic_growth_steps: Any) -> tuple[float, int | None]:
    """Check the settings of a wrapper, and fill the defaults in.

    Returns:
        `(initial_scale, dynamic_growth_steps)`; the latter is None for a fixed scale.

    Raises:
        TypeError: `dynamic` is no bool, as where the arguments of the experimental class are passed.
        ValueError: `initial_scale` is missing for a fixed scale, or no usable number; or `dynamic_growth_steps` is
            given for one.
    """
    if not isinstance(dynamic, bool):
        advice = (
            "Pass dynamic=False, initial_scale=128.0 for a fixed scale, initial_scale=128.0 alone for one that adapts; "
            "the form LossScaleOptimizer(opt, loss_scale) is mpls.experimental.LossScaleOptimizer"
        )
        raise ArgumentTypeError(error_text(f"{_SUBJECT}: dynamic", "be a bool", dynamic, advice, "experimental"))
    if not dynamic and dynamic_growth_steps is not None:
        raise ArgumentValueError(
            error_text(
                f"{_SUBJECT}: dynamic_growth_steps",
                "be None if dynamic is False, since a fixed scale does not grow",
                dynamic_growth_steps,
                "LossScaleOptimizer(opt, dynamic=False, initial_scale=128.0)",
                "fixed-scales",
            )
        )
    if initial_scale is None and not dynamic:
        raise ArgumentValueError(
            error_text(
                f"{_SUBJECT}: initial_scale",
                "be a number if dynamic is False",
                None,
                "LossScaleOptimizer(opt, dynamic=False, initial_scale=128.0)",
                "fixed-scales",
            )
        )
    scale = DEFAULT_INITIAL_SCALE
    if initial_scale is not None:
        subject = f"{_SUBJECT}: initial_scale"
        scale = require_usable(to_float(initial_scale, subject), subject, initial_scale, is_fixed=not dynamic)
    if not dynamic:
        return scale, None
    if dynamic_growth_steps is None:
        return scale, DEFAULT_GROWTH_STEPS
    return scale, to_int(dynamic_growth_steps, f"{_SUBJECT}: dynamic_growth_steps")


def refuse_wrapped(optimizer: Any) -> None:
    """Refuse an optimizer that has a wrapper.

    Raises:
        ValueError: it has one.
    """
    # The mark is one that tf_keras sets and reads too.
    if getattr(optimizer, "_is_wrapped_by_loss_scale_optimizer", False):
        raise ArgumentValueError(
            error_text(
                "LossScaleOptimizer: inner_optimizer",
                "be wrapped by one LossScaleOptimizer only",
                optimizer,
                "Create another: type(opt).from_config(opt.get_config())",
                "wrapping",
            )
        )


def translate_loss_scale(loss_scale: Any, subject: str) -> dict[str, Any]:
    """Translate the `loss_scale` argument of the experimental class into settings.

    Args:
        loss_scale: `'dynamic'`, a number, or a `FixedLossScale` or `DynamicLossScale` of mpls or of TensorFlow itself.
        subject: the public name that the user called, for errors.

    Returns:
        Keyword arguments of `LossScaleOptimizer`, only those that differ from its defaults.

    Raises:
        ValueError: it is none of these, or a `DynamicLossScale` whose multiplier is not 2.
        TypeError: it is a loss scale of a user's own class.
    """
    subject = f"{subject}: loss_scale"
    if isinstance(loss_scale, str) and loss_scale == "dynamic":
        return {}
    if is_number(loss_scale):
        return {
            "dynamic": False,
            "initial_scale": require_usable(to_float(loss_scale, subject), subject, loss_scale, is_fixed=True),
        }
    if is_fixed(loss_scale):
        return {"dynamic": False, "initial_scale": loss_scale._loss_scale_value}
    if is_dynamic(loss_scale):
        return _translate_dynamic(loss_scale, subject)
    error: type[Exception] = ArgumentTypeError if is_loss_scale(loss_scale) else ArgumentValueError
    raise (TensorArgumentError if tf.is_tensor(loss_scale) else error)(
        error_text(
            subject,
            "be 'dynamic', a number, a FixedLossScale or a DynamicLossScale",
            loss_scale,
            "Pass 'dynamic', or 128 for a fixed scale; classes of your own work with mpls.v1",
            "experimental",
        )
    )


def _translate_dynamic(loss_scale: Any, subject: str) -> dict[str, Any]:
    if loss_scale.multiplier != 2:
        raise ArgumentValueError(
            error_text(
                subject,
                "have a multiplier of 2",
                loss_scale,
                f"DynamicLossScale({loss_scale.initial_loss_scale}, {loss_scale.increment_period}); other "
                "multipliers work with mpls.v1",
                "experimental",
            )
        )
    return {
        "initial_scale": loss_scale.initial_loss_scale,
        "dynamic_growth_steps": loss_scale.increment_period,
    }


def translated(settings: dict[str, Any], subject: str) -> dict[str, Any]:
    """Return settings that `read_config` has read, with those of a loss scale in its place.

    Raises:
        ValueError: it has no counterpart.
    """
    if "loss_scale" not in settings:
        return settings
    loss_scale = settings["loss_scale"]
    if not is_fixed(loss_scale) and not is_dynamic(loss_scale):
        raise ArgumentValueError(
            error_text(
                f"{subject}: loss_scale",
                "be a FixedLossScale or a DynamicLossScale",
                loss_scale,
                "Create the optimizer with mpls.v1, which takes loss scales of your own",
                "configs",
            )
        )
    rest = {key: value for key, value in settings.items() if key != "loss_scale"}
    return {**rest, **translate_loss_scale(loss_scale, subject)}


def is_translatable(loss_scale: Any) -> bool:
    """Return whether settings of the non-experimental class say all about a loss scale."""
    if type(loss_scale).__module__.partition(".")[0] not in ("mpls", "tensorflow"):
        return False
    return is_fixed(loss_scale) or (is_dynamic(loss_scale) and loss_scale.multiplier == 2)


def initial_scale_of(loss_scale: Any) -> float:
    """Return what a loss scale starts from.

    Raises:
        AttributeError: it is of a user's own class, which need not know.
    """
    if is_dynamic(loss_scale):
        return float(loss_scale.initial_loss_scale)
    if is_fixed(loss_scale):
        return float(loss_scale._loss_scale_value)
    raise AttributeError(f"A LossScaleOptimizer with a {type(loss_scale).__name__} has no initial_scale")


def growth_steps_of(loss_scale: Any) -> int | None:
    """Return after how many finite steps in a row a loss scale grows; None for one that is not dynamic."""
    return int(loss_scale.increment_period) if is_dynamic(loss_scale) else None


def as_loss_scale(value: Any) -> Any:
    """Return the loss scale that a user puts in the place of a wrapper's; a number is a fixed one, as from TF 2.4 on.

    Raises:
        TypeError: it cannot be called and updated.
        ValueError: it is a number that no fixed scale can have.
    """
    subject = "LossScaleOptimizer: _loss_scale"
    if is_number(value):
        return FixedLossScale._unbounded(require_usable(to_float(value, subject), subject, value, is_fixed=True))
    if callable(value) and callable(getattr(value, "update", None)) and not isinstance(value, type):
        return value
    raise ArgumentTypeError(
        error_text(
            subject,
            "be a LossScale or a number",
            value,
            "opt._loss_scale = mpls.experimental.DynamicLossScale(1024)",
            "loss-scale-arguments",
        )
    )
