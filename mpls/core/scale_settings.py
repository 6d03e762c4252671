"""Settings of how a dynamic loss scale adapts, which the originals had not."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import numpy as np

from mpls.core.numbers import require_usable, to_bool, to_count, to_float
from mpls.core.rule import UpdateRule
from mpls.errors import ArgumentTypeError, ArgumentValueError, error_text
from mpls.formats.validity import constraint_on, constraint_on_bounds, is_initial_scale
from mpls.formats.wrapper_options import without_effect
from mpls.formats.wrapper_state import (
    ADJUSTABLE,
    DEFAULT_MAX_SCALE,
    DEFAULT_MIN_SCALE,
    DYNAMIC_CONFIG,
    OWN_SCALE_SETTINGS,
)

__all__ = [
    "DEFAULTS",
    "NUMBERS",
    "ScaleSettings",
    "checked_settings",
    "require_effect",
    "require_multiplier",
    "telling_places",
    "to_number",
]

_ANCHOR = "bounds-and-dynamics"


@dataclasses.dataclass(frozen=True)
class ScaleSettings:
    """Settings of a dynamic loss scale, in float32 where they are no whole numbers.

    Attributes:
        min_scale: floor that a shrinking scale does not pass.
        max_scale: ceiling that a growing scale does not pass.
        growth_factor: factor by which the scale grows; None for the multiplier.
        backoff_factor: factor by which it shrinks, between 0 and 1; None to divide by the multiplier.
        hysteresis: non-finite steps after which it shrinks.
        consecutive_hysteresis: whether they must be in a row; if not, of finite steps only growth resets their count.
        adjustable: whether the other settings are variables, which can be changed in graphs that are already built.
    """

    min_scale: float = DEFAULT_MIN_SCALE
    max_scale: float = DEFAULT_MAX_SCALE
    growth_factor: float | None = None
    backoff_factor: float | None = None
    hysteresis: int = 1
    consecutive_hysteresis: bool = False
    adjustable: bool = False

    def changed(self) -> dict[str, Any]:
        """Return the settings that are not the defaults, for configs."""
        changed = {name: value for name, value in vars(self).items() if value != getattr(DEFAULTS, name)}
        # After `configure` has set a hysteresis of 1.
        idle = without_effect(changed, skips=True)
        return {name: value for name, value in changed.items() if name not in idle}

    @property
    def counts_bad_steps(self) -> bool:
        """Whether the state has a count of non-finite steps."""
        return self.adjustable or self.hysteresis > 1

    def numbers(self, growth_steps: int, multiplier: float) -> dict[str, Any]:
        """Return the initial values of the variables of adjustable settings, by name."""
        growth = multiplier if self.growth_factor is None else self.growth_factor
        backoff = 1 / multiplier if self.backoff_factor is None else self.backoff_factor
        values = (growth_steps, growth, backoff, self.min_scale, self.max_scale, self.hysteresis)
        return dict(zip(NUMBERS, values, strict=True))

    def rule(self, growth_steps: Any, multiplier: float) -> UpdateRule:
        """Return the rule of settings that are constants."""
        return UpdateRule(
            growth_steps=growth_steps,
            # Division by the multiplier is what the originals do; the factors are the user's own.
            multiplier=multiplier if self.growth_factor is None else self.growth_factor,
            min_scale=self.min_scale,
            max_scale=self.max_scale,
            shrink_ratio=self._shrink_ratio(multiplier),
            shrink_steps=self.hysteresis,
            shrink_steps_in_a_row=self.consecutive_hysteresis,
        )

    def _shrink_ratio(self, multiplier: float) -> float | None:
        if self.backoff_factor is None and self.growth_factor is not None:
            return 1 / multiplier
        return self.backoff_factor


DEFAULTS = ScaleSettings()
# Settings that `configure` changes.
NUMBERS = ADJUSTABLE


def checked_settings(
    subject: str, initial_scale: float | None, given: Mapping[str, Any], before: ScaleSettings = DEFAULTS
) -> ScaleSettings:
    """Return settings, some of them given by the user.

    Args:
        subject: the public name that the user called, for errors.
        initial_scale: the scale that has to be between the bounds; None if it will be moved there.
        given: values by name; None leaves a setting as it was before.
        before: the other settings.

    Raises:
        ValueError: a number is NaN, infinite, negative or out of its range; or the bounds exclude each other or the
            initial scale.
        TypeError: a value is no number, or no bool where one is needed.
    """
    changes: dict[str, Any] = {}
    for name, value in given.items():
        if value is not None:
            changes[name] = _CHECKS[name](value, f"{subject}: {name}")
    settings = dataclasses.replace(before, **changes)
    if constraint := constraint_on_bounds(settings.min_scale, settings.max_scale):
        if "max_scale" not in changes:
            constraint, advice = f"be at most max_scale, {settings.max_scale:g}", f"min_scale={settings.max_scale}"
            raise ArgumentValueError(_error(f"{subject}: min_scale", constraint, settings.min_scale, advice))
        raise ArgumentValueError(_error(f"{subject}: max_scale", constraint, settings.max_scale, "max_scale=2.0**24"))
    if initial_scale is None:
        return settings
    if not is_initial_scale(initial_scale, settings.min_scale, settings.max_scale):
        constraint = f"be from {settings.min_scale:g} to {settings.max_scale:g}, the bounds"
        advice = "Choose an initial scale between min_scale and max_scale"
        raise ArgumentValueError(_error(f"{subject}: the initial scale", constraint, initial_scale, advice))
    return settings


def require_effect(subject: str, settings: ScaleSettings) -> None:
    """Refuse settings that have no effect beside the others.

    Args:
        subject: the public name that the user called, for errors.
        settings: all of them, as a constructor got them.

    Raises:
        ValueError: there is one.
    """
    for name, constraint in without_effect(vars(settings), skips=True).items():
        advice = f"Pass hysteresis=2 with it, or leave {name} out"
        raise ArgumentValueError(_error(f"{subject}: {name}", constraint, getattr(settings, name), advice))


_F = TypeVar("_F", bound=Callable[..., Any])
_OF_LOSS_SCALES = {
    **{name: f"DynamicLossScale({name}={{!r}})" for name in (*OWN_SCALE_SETTINGS, *DYNAMIC_CONFIG)},
    "skip_nonfinite": "FixedLossScale(128.0, skip_nonfinite={!r})",
    "initial_scale": "DynamicLossScale({!r})",
    "dynamic_growth_steps": "DynamicLossScale(increment_period={!r})",
}


def telling_places(subject: str, places: Mapping[str, str] | None = None, see: str = _ANCHOR) -> Callable[[_F], _F]:
    """Return a decorator of a constructor that says where settings belong that it does not take.

    Args:
        subject: the public name of the class, for errors.
        places: what to do, by the names of settings, with `{!r}` for the value; by default to pass a loss scale.
        see: the section of MIGRATION.md.
    """
    of_scales = {name: f"Pass it to the loss scale: {subject}(opt, {code})" for name, code in _OF_LOSS_SCALES.items()}
    known = of_scales if places is None else places

    def decorate(constructor: _F) -> _F:
        @functools.wraps(constructor)
        def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
            for name in known.keys() & kwargs.keys():
                advice = known[name].format(kwargs[name])
                raise ArgumentTypeError(error_text(f"{subject}: {name}", "be left out here", kwargs[name], advice, see))
            return constructor(self, *args, **kwargs)

        # Tools that do not follow wrappers show it too.
        checked.__signature__ = inspect.signature(constructor)  # type: ignore[attr-defined]
        # For assignments to the object.
        checked.places = known  # type: ignore[attr-defined]
        return cast(_F, checked)

    return decorate


def require_multiplier(settings: ScaleSettings, multiplier: float) -> None:
    """Refuse a multiplier that would give adjustable settings values with which no saved state is loaded.

    Raises:
        ValueError: it is at most 1, and a factor is left to it.
    """
    numbers = settings.numbers(1, multiplier)
    if settings.adjustable and any(constraint_on(name, numbers[name]) for name in ("growth_factor", "backoff_factor")):
        advice = "Pass growth_factor and backoff_factor, or leave adjustable out"
        raise ArgumentValueError(
            _error("DynamicLossScale: multiplier", "be above 1 with adjustable=True", multiplier, advice)
        )


def _error(subject: str, constraint: str, got: Any, advice: str) -> str:
    return error_text(subject, constraint, got, advice, _ANCHOR)


def to_number(value: Any, subject: str) -> float:
    """Return a positive number as float32 holds it; bools and strings are not taken for one."""
    if isinstance(value, bool | np.bool_ | str):
        raise ArgumentValueError(_error(subject, "be a number", value, "Pass a Python number"))
    return float(np.float32(require_usable(to_float(value, subject), subject, value)))


def _in_range(setting: str, advice: str) -> Callable[[Any, str], float]:
    def checked(value: Any, subject: str) -> float:
        number = to_number(value, subject)
        if constraint := constraint_on(setting, number):
            raise ArgumentValueError(_error(subject, constraint, value, advice))
        return number

    return checked


def _steps(value: Any, subject: str) -> int:
    return to_count(value, subject, "hysteresis=2", _ANCHOR)


def _flag(value: Any, subject: str) -> bool:
    return to_bool(value, subject, _ANCHOR)


_CHECKS = {
    "min_scale": _in_range("min_scale", "0.5"),
    "max_scale": _in_range("max_scale", "0.5"),
    "growth_factor": _in_range("growth_factor", "growth_factor=2.0"),
    "backoff_factor": _in_range("backoff_factor", "backoff_factor=0.5"),
    "hysteresis": _steps,
    "consecutive_hysteresis": _flag,
    "adjustable": _flag,
}
