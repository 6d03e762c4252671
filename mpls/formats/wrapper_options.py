"""What configs and checkpoints hold of the options that only mpls has: the entry in configs, and the valid values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpls.formats.validity import constraint_on, constraint_on_scale, is_count
from mpls.formats.wrapper_state import (
    ADJUSTABLE,
    AUTO,
    COUNTS,
    FLOAT_EXTRAS,
    ON_GIVE_UP,
    OWN_SCALE_SETTINGS,
    OWN_STEP_SETTINGS,
    WHOLE_EXTRAS,
)

__all__ = [
    "OF_DYNAMIC_SCALES",
    "OF_SETTINGS",
    "OF_STATE",
    "OPTIONS",
    "OPTION_VARIABLES",
    "SETTINGS_OF_ENTRY",
    "constraint_on_kind",
    "constraint_on_number",
    "constraint_on_setting",
    "is_options_entry",
    "least_of",
    "options_entry",
    "without_effect",
]

# Options of dynamic loss scales; the one that is left is of fixed ones.
*OF_DYNAMIC_SCALES, _SKIPS = OWN_SCALE_SETTINGS
# The keys of the value of `OPTIONS_KEY`.
OF_SETTINGS, OF_STATE = "settings", "state"
# What may stand below them. An initial scale stands there if it is no number.
OPTIONS = (*OWN_SCALE_SETTINGS, *OWN_STEP_SETTINGS)
SETTINGS_OF_ENTRY = (*OPTIONS, "initial_scale")
OPTION_VARIABLES = (*WHOLE_EXTRAS, *FLOAT_EXTRAS, *COUNTS)
_MOST_SKIPS = "max_consecutive_skips"
# Options for which None is the same as leaving them out.
_MAY_BE_NONE = (*OWN_SCALE_SETTINGS, "skip_counts_step", _MOST_SKIPS)
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
