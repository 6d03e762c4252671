"""Loss scales that look for the highest one that does not overflow: an initial scale of `'auto'`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpls.core.scale_settings import ScaleSettings, checked_settings
from mpls.formats.wrapper_state import AUTO

__all__ = ["START", "is_auto", "start_between", "start_of"]

# So low that hardly any gradient overflows; it takes seven finite steps from here to the usual 2**15.
START = 2.0**8


def is_auto(initial_scale: Any) -> bool:
    """Return whether an initial scale is to be looked for."""
    return isinstance(initial_scale, str) and initial_scale == AUTO


def start_between(settings: ScaleSettings) -> float:
    """Return the scale from which a search starts, between the bounds."""
    return min(max(START, settings.min_scale), settings.max_scale)


def start_of(initial_scale: Any, settings: Mapping[str, Any]) -> Any:
    """Return the number that a scale starts from: the initial scale, or the start of a search.

    Args:
        initial_scale: a checked number, or `'auto'`.
        settings: checked arguments of a dynamic loss scale by name, the bounds among them.
    """
    return start_between(checked_settings("", None, settings)) if is_auto(initial_scale) else initial_scale
