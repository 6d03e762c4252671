"""Arguments of the Keras wrappers: checked, and translated between the historical forms."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import tensorflow as tf

from mpls.core.dynamic import DynamicLossScale, checked_settings, current_settings, is_auto, require_effect
from mpls.core.loss_scale import FixedLossScale, is_dynamic, is_fixed, is_loss_scale, never_skips
from mpls.core.numbers import to_bool, to_int, to_usable
from mpls.errors import (
    FRAMEWORKS,
    ArgumentTypeError,
    ArgumentValueError,
    MplsWarning,
    TensorArgumentError,
    error_text,
    warn_user,
)
from mpls.formats.algorithms import LEGACY_CLASSES
from mpls.formats.validity import constraint_on_kind, is_number
from mpls.formats.wrapper_state import AUTO, DEFAULT_GROWTH_STEPS, DEFAULT_INITIAL_SCALE
from mpls.upstream.optimizers import is_marked_as_wrapped
from mpls.upstream.tensorflow import fixed_value_of

_SUBJECT = "LossScaleOptimizer"


def check_settings(
    dynamic: Any, initial_scale: Any, dynamic_growth_steps: Any, others: Mapping[str, Any] = MappingProxyType({})
) -> tuple[float | str, int | None, dict[str, Any]]:
    """Check the settings of a wrapper, and add the defaults.

    Args:
        dynamic: what the user passed.
        initial_scale: what the user passed, or None.
        dynamic_growth_steps: what the user passed, or None.
        others: settings that the originals had not, by name, None among them.

    Returns:
        `(initial_scale, dynamic_growth_steps, others)`; the scale may be `'auto'`, growth steps are None for a fixed
        scale. The others are keyword arguments of the loss scale.

    Raises:
        TypeError: `dynamic` is not a bool, as where the arguments of the experimental class are passed.
        ValueError: `initial_scale` is missing for a fixed scale, or no usable number; `dynamic_growth_steps` is
            given for one; or one of the others is given for the wrong kind of scale.
    """
    if not isinstance(dynamic, bool):
        advice = (
            "Leave it out for a dynamic scale: LossScaleOptimizer(opt). Pass dynamic=False, initial_scale=128.0 for a "
            "fixed one"
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
    scale = _checked_scale(initial_scale, dynamic)
    extras = _of_kind({name: value for name, value in others.items() if value is not None}, dynamic)
    if not dynamic:
        return scale, None, extras
    require_effect(_SUBJECT, checked_settings(_SUBJECT, None if isinstance(scale, str) else scale, extras))
    if dynamic_growth_steps is None:
        return scale, DEFAULT_GROWTH_STEPS, extras
    return scale, to_int(dynamic_growth_steps, f"{_SUBJECT}: dynamic_growth_steps"), extras


def may_skip(settings: Mapping[str, Any]) -> bool:
    """Return whether the loss scale that settings make, those of a config, asks for steps to be skipped."""
    if "loss_scale" in settings:
        return not never_skips(settings["loss_scale"])
    return settings.get("dynamic", True) is not False or settings.get("skip_nonfinite") is True


def _checked_scale(initial_scale: Any, is_dynamic: bool) -> float | str:
    subject = f"{_SUBJECT}: initial_scale"
    if is_auto(initial_scale) and is_dynamic:
        return AUTO
    if not is_dynamic and (initial_scale is None or is_auto(initial_scale)):
        constraint = "be a number if dynamic is False"
        advice = "LossScaleOptimizer(opt, dynamic=False, initial_scale=128.0)"
        raise ArgumentValueError(error_text(subject, constraint, initial_scale, advice, "fixed-scales"))
    if initial_scale is None:
        return DEFAULT_INITIAL_SCALE
    return to_usable(initial_scale, subject, is_fixed=not is_dynamic)


def _of_kind(extras: dict[str, Any], is_dynamic: bool) -> dict[str, Any]:
    """Drop `skip_nonfinite` where it is the default; refuse settings of the other kind of scale."""
    if "skip_nonfinite" in extras:
        to_bool(extras["skip_nonfinite"], f"{_SUBJECT}: skip_nonfinite", "fixed-scales")
    for name, value in extras.items():
        if constraint := constraint_on_kind(name, value, dynamic=is_dynamic):
            advice = "LossScaleOptimizer(opt, dynamic=False, initial_scale=128.0)" if is_dynamic else f"{name}=None"
            raise ArgumentValueError(error_text(f"{_SUBJECT}: {name}", constraint, value, advice, "fixed-scales"))
    # To skip is what a dynamic scale does, and not to is the default of a fixed one.
    is_said = is_dynamic or not extras.get("skip_nonfinite")
    return {name: value for name, value in extras.items() if name != "skip_nonfinite" or not is_said}


def settings_beyond_originals(loss_scale: Any) -> dict[str, Any]:
    """Return the settings of a loss scale that no original has, where they are not the defaults."""
    if isinstance(loss_scale, DynamicLossScale):
        searched = {"initial_scale": AUTO} if loss_scale._searches else {}
        return {**searched, **current_settings(loss_scale).settings.changed()}
    return {"skip_nonfinite": True} if getattr(loss_scale, "_skip_nonfinite", False) else {}


def refuse_wrapped(optimizer: Any) -> None:
    """Refuse an optimizer that has a wrapper.

    Raises:
        ValueError: it has one.
    """
    if is_marked_as_wrapped(optimizer):
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
        return {"dynamic": False, "initial_scale": to_usable(loss_scale, subject, is_fixed=True)}
    if is_fixed(loss_scale):
        value = fixed_value_of(loss_scale)
        return {"dynamic": False, "initial_scale": value, **settings_beyond_originals(loss_scale)}
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
        **settings_beyond_originals(loss_scale),
    }


def translated(settings: dict[str, Any], subject: str) -> dict[str, Any]:
    """Return the settings from `read_config`, with a loss scale object replaced by its settings.

    Raises:
        ValueError: it has no counterpart.
    """
    if "loss_scale" not in settings:
        return settings
    loss_scale = settings["loss_scale"]
    if not is_fixed(loss_scale) and not is_dynamic(loss_scale):
        # Not the TypeError of constructors: Keras finds no such class for a config.
        constraint = "be a FixedLossScale or a DynamicLossScale"
        advice = "Create the optimizer with mpls.v1, which takes loss scales of your own"
        raise ArgumentValueError(error_text(f"{subject}: loss_scale", constraint, loss_scale, advice, "configs"))
    rest = {key: value for key, value in settings.items() if key != "loss_scale"}
    return {**rest, **translate_loss_scale(loss_scale, subject)}


def is_translatable(loss_scale: Any) -> bool:
    """Return whether the settings of the non-experimental class can express a loss scale."""
    if type(loss_scale).__module__.partition(".")[0] not in ("mpls", "tensorflow"):
        return False
    return is_fixed(loss_scale) or (is_dynamic(loss_scale) and loss_scale.multiplier == 2)


def as_loss_scale(value: Any) -> Any:
    """Return the loss scale for a value that a user assigns to `_loss_scale`; a number is a fixed scale.

    Raises:
        TypeError: it cannot be called and updated.
        ValueError: it is a number that no fixed scale can have.
    """
    subject = "LossScaleOptimizer: _loss_scale"
    if is_number(value):
        return FixedLossScale._unbounded(to_usable(value, subject, is_fixed=True))
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


# Update rules of TF 2.10 and earlier on optimizers that never call them.

_OF_LEGACY = ("_resource_apply_dense", "_resource_apply_sparse", "_apply_dense", "_apply_sparse")
_OF_OTHERS = "update_step"

_warned: weakref.WeakSet[type] = weakref.WeakSet()


def warn_of_ignored_rule(optimizer: Any) -> None:
    """Warn, once per class, if an optimizer that is not a legacy one defines the update rule of a legacy one.

    Such an optimizer trains by the rule of its base class, also without mpls.
    """
    cls = type(optimizer)
    ignored = _ignored(cls)
    if ignored is None or cls in _warned:
        return
    _warned.add(cls)
    base = next(each for each in cls.__mro__ if _is_of_framework(each))
    of_legacy = base.__name__ if base.__name__ in LEGACY_CLASSES else "Optimizer"
    warn_user(
        f"LossScaleOptimizer: {cls.__qualname__}.{ignored} is never called: it is the rule of TF 2.10 and earlier, "
        f"and {base.__name__} of {base.__module__.partition('.')[0]} trains by its own. Derive the class from "
        f"tf_keras.optimizers.legacy.{of_legacy}, or run the program by `mpls run --keras 2 --legacy-optimizers`, or "
        f"override {_OF_OTHERS}(). See mpls docs ignored-rules",
        MplsWarning,
    )


def _ignored(cls: type) -> str | None:
    defined = {name for each in cls.__mro__ if not _is_of_framework(each) for name in vars(each)}
    return None if _OF_OTHERS in defined else next((name for name in _OF_LEGACY if name in defined), None)


def _is_of_framework(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in FRAMEWORKS
