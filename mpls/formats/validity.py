"""The rules for valid loss scales and counters, which hold for arguments of users, files and configs alike.

* A scale is one real number, positive and finite in float32; a fixed scale is at most 2**126.
* The bounds, growth and backoff of a dynamic scale are in the ranges of `constraint_on`.
* Counts are whole numbers of an integer type, and at most 2**63 - 1.
* The count of good steps is one from 0 to the growth steps; growth steps below 1 count as 1.

A reader of a file takes a larger fixed scale too, which an original may have written; no loss scale is made of it. The
checks return a plain Python number, or raise a `SavedStateError` that names the place of the number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from mpls.errors import SavedStateError, error_text
from mpls.formats.wrapper_state import (
    ADJUSTABLE,
    AUTO,
    COUNTS,
    DEFAULT_MIN_SCALE,
    FLOAT_EXTRAS,
    LARGEST_FIXED_SCALE,
    ON_GIVE_UP,
    SCALE_OPTIONS,
    STEP_OPTIONS,
    WHOLE_EXTRAS,
    can_be_scale,
)

# The section of the documentation about saved state, and the end of errors that point to it.
ANCHOR = "my-checkpoints"
SEE_DOCS = f"See mpls docs {ANCHOR}"
# The advice in errors about values that no run can have saved.
FROM_OLDER = "Restore an older file, or the rest of it without the loss scale"
# The smallest normal float32: kernels flush smaller numbers to zero.
_SMALLEST_BOUND = 2.0**-126
# Counts are int64.
LARGEST_COUNT = 2**63 - 1


def is_number(value: object) -> bool:
    """Return whether a value is a real number of Python or NumPy. 0-d arrays and bools of Python are."""
    if isinstance(value, int | float):
        return True
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "iuf"
    return isinstance(value, np.generic) and value.dtype.kind in "iuf"


def constraint_on_scale(value: Any) -> str:
    """Return what a scale or a factor must be and is not, as `'be a number'`; an empty text if it is valid."""
    if not is_number(value) or _is_bool(value):
        return "be a number"
    return "" if can_be_scale(_float_or_nan(value)) else "be positive and finite in float32"


def is_count(value: Any, least: int = 0) -> bool:
    """Return whether a value is a whole number from `least` to `LARGEST_COUNT`; floats and bools are none."""
    is_whole = is_number(value) and not _is_bool(value) and np.asarray(value).dtype.kind in "iu"
    return is_whole and least <= int(value) <= LARGEST_COUNT


def usable_growth_steps(growth_steps: int, most: int = LARGEST_COUNT) -> int:
    """Return growth steps as counts are compared with them: below 1 they count as 1, above `most` as `most`."""
    return max(1, min(int(growth_steps), most))


def most_good_steps(growth_steps: int | None) -> int:
    """Return the largest valid count of good steps of a scale with these growth steps, or with unknown ones."""
    return LARGEST_COUNT if growth_steps is None else usable_growth_steps(growth_steps)


def constraint_on(setting: str, value: float) -> str:
    """Return what a setting of a dynamic scale must be and is not, as `'be above 1'`; an empty text if it is valid.

    Args:
        setting: its name: `'min_scale'`, `'max_scale'`, `'growth_factor'` or `'backoff_factor'`.
        value: a number that is positive and finite in float32.
    """
    number = np.float32(value)
    if setting == "growth_factor":
        return "be above 1" if number <= 1 else ""
    if setting == "backoff_factor":
        return "be below 1" if number >= 1 else ""
    return "be at least 2**-126, the smallest normal float32" if number < _SMALLEST_BOUND else ""


def constraint_on_bounds(min_scale: float, max_scale: float) -> str:
    """Return what `max_scale` must be and is not, beside a `min_scale`; an empty text if it is valid."""
    return f"be at least min_scale, {min_scale:g}" if min_scale > max_scale else ""


def is_initial_scale(value: float, min_scale: float, max_scale: float) -> bool:
    """Return whether a dynamic scale with these bounds may start from a value; below the default floor, 1, it may."""
    # As float32 holds them: the largest float32 is printed as 3.4028235e38, a larger number.
    value, min_scale, max_scale = (float(np.float32(each)) for each in (value, min_scale, max_scale))
    return value <= max_scale and (min_scale in (DEFAULT_MIN_SCALE, value) or value > min_scale)


def check_scale(value: Any, subject: str, *, is_fixed: bool = False) -> float:
    """Return a scale as a Python float.

    Args:
        value: the value: a Python or NumPy number, or a 0-d array.
        subject: its place, for the error, as `"ckpt-1: optimizer/loss_scale/current_loss_scale"`.
        is_fixed: whether the scale is a fixed one.

    Raises:
        SavedStateError: it is not a number; it is zero, negative, NaN or infinite in float32; or it is a fixed scale
            above 2**126.
    """
    scale = _float_or_nan(value)
    if not can_be_scale(scale):
        raise SavedStateError(error_text(subject, "be a positive, finite float32 number", value, FROM_OLDER, ANCHOR))
    if is_fixed and scale > LARGEST_FIXED_SCALE:
        advice = "Use a power of two such as 2.0**15"
        raise SavedStateError(error_text(subject, "be at most 2**126 for a fixed scale", value, advice, ANCHOR))
    return scale


def check_good_steps(value: Any, subject: str, growth_steps: int | None) -> int:
    """Return a count of good steps as a Python int.

    Args:
        value: the value: a Python or NumPy integer, or a 0-d array.
        subject: its place, for the error.
        growth_steps: finite steps in a row after which the scale grows; None if not known.

    Raises:
        SavedStateError: it is not of an integer type, negative, or larger than the growth steps.
    """
    most = most_good_steps(growth_steps)
    if not is_count(value) or int(value) > most:
        advice, constraint = FROM_OLDER, "be a whole number that is not negative"
        if growth_steps is not None:
            advice = "Use at least as many growth steps as the run that saved it"
            constraint = f"be a whole number from 0 to {most}, the growth steps"
        raise SavedStateError(error_text(subject, constraint, value, advice, ANCHOR))
    return int(value)


def check_count(value: Any, subject: str) -> int:
    """Return a count that no growth steps limit as a Python int; arguments and errors as with `check_good_steps`."""
    return check_good_steps(value, subject, None)


def _float_or_nan(value: Any) -> float:
    if not is_number(value) or _is_bool(value):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


# Options of dynamic loss scales; the one that is left is of fixed ones.
*OF_DYNAMIC_SCALES, _SKIPS = SCALE_OPTIONS
# The keys of the value of `OPTIONS_KEY`.
OF_SETTINGS, OF_STATE = "settings", "state"
# What may stand below them. An initial scale stands there if it is not a number.
OPTIONS = (*SCALE_OPTIONS, *STEP_OPTIONS)
SETTINGS_OF_ENTRY = (*OPTIONS, "initial_scale")
OPTION_VARIABLES = (*WHOLE_EXTRAS, *FLOAT_EXTRAS, *COUNTS)
_MOST_SKIPS = "max_consecutive_skips"
# Options for which None is the same as leaving them out.
_MAY_BE_NONE = (*SCALE_OPTIONS, "skip_counts_step", _MOST_SKIPS)
# Options that say something about skipped steps.
_OF_SKIPS = ("skip_counts_step", "track_overflows", _MOST_SKIPS, "check_unscaled")
_DEFAULTS = {"track_overflows": False, "check_unscaled": False}
_FROM_1 = (ADJUSTABLE[0], ADJUSTABLE[-1], _MOST_SKIPS)


def options_entry(settings: dict[str, Any], state: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the value of `OPTIONS_KEY`."""
    return {OF_SETTINGS: settings, OF_STATE: state}


def is_options_entry(entry: Any) -> bool:
    """Return whether a value has the form of `options_entry`; what stands in it is not checked."""
    is_entry = isinstance(entry, Mapping) and entry.keys() == {OF_SETTINGS, OF_STATE}
    return is_entry and all(isinstance(each, Mapping) for each in entry.values())


def least_of(name: str) -> int:
    """Return the least valid value of an option or a variable that is a whole number."""
    return 1 if name in _FROM_1 else 0


def constraint_on_setting(name: str, value: Any) -> str:
    """Return what an option in a config must be and is not, as `'be a bool'`; an empty text if it is valid.

    Args:
        name: its name, one of `SETTINGS_OF_ENTRY`.
        value: its value.
    """
    if value is None and name in _MAY_BE_NONE:
        return ""
    if name == "initial_scale":
        return "" if isinstance(value, str) and value == AUTO else constraint_on_scale(value)
    if name == "on_give_up":
        return "" if isinstance(value, str) and value in ON_GIVE_UP else f"be one of {', '.join(ON_GIVE_UP)}"
    if name in (*FLOAT_EXTRAS, *_FROM_1):
        return constraint_on_number(name, value)
    return "" if isinstance(value, bool) else "be a bool"


def constraint_on_kind(name: str, value: Any, *, dynamic: bool) -> str:
    """Return what an option must be and is not beside the kind of loss scale; an empty text if it is valid.

    Args:
        name: its name.
        value: its value; None is valid with each kind.
        dynamic: whether the loss scale is a dynamic one.
    """
    if dynamic:
        return "be left out for a dynamic scale, which always skips" if name == _SKIPS and value is False else ""
    is_of_other = name in OF_DYNAMIC_SCALES and value is not None
    return "be left out if dynamic is False, since a fixed scale does not change" if is_of_other else ""


def without_effect(settings: Mapping[str, Any], *, skips: bool) -> dict[str, str]:
    """Return the options that have no effect beside the others, each with what it must be.

    Args:
        settings: options by name, each of them valid; others may stand among them.
        skips: whether the loss scale asks for steps to be skipped; a fixed one does with `skip_nonfinite` only.
    """
    given = [name for name in _OF_SKIPS if settings.get(name) not in (None, _DEFAULTS.get(name))]
    found = {} if skips else dict.fromkeys(given, "be left out for a fixed scale that skips no step")
    gives_up = _MOST_SKIPS in given and _MOST_SKIPS not in found
    if settings.get("on_give_up", ON_GIVE_UP[0]) != ON_GIVE_UP[0] and not gives_up:
        found["on_give_up"] = f"be left out without {_MOST_SKIPS}"
    is_of_one = settings.get("hysteresis") in (None, 1) and not settings.get("adjustable")
    if settings.get("consecutive_hysteresis") and is_of_one:
        found["consecutive_hysteresis"] = "be left out with a hysteresis of 1, where each such step shrinks the scale"
    return found


def constraint_on_number(name: str, value: Any) -> str:
    """Return what a number must be and is not; an empty text if it is valid.

    Args:
        name: that of an option that is a number, or one of `OPTION_VARIABLES`.
        value: its value.
    """
    if name in FLOAT_EXTRAS:
        return constraint_on_scale(value) or constraint_on(name, value)
    return "" if is_count(value, least_of(name)) else f"be a whole number from {least_of(name)}"
