"""The current settings of a dynamic loss scale; in eager mode, adjustable ones are read from variables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from mpls.core.scale_settings import NUMBERS, ScaleSettings

__all__ = ["CurrentSettings", "current_settings"]


@dataclasses.dataclass(frozen=True)
class CurrentSettings:
    """Settings as the constructor of a loss scale takes them.

    Attributes:
        initial_scale: the scale at the start, between the bounds.
        growth_steps: finite steps in a row after which the scale grows.
        settings: the others.
    """

    initial_scale: float
    growth_steps: int
    settings: ScaleSettings


def current_settings(loss_scale: Any) -> CurrentSettings:
    """Return the settings of a `DynamicLossScale`, which a checkpoint or `load_state_dict` may have brought.

    In a graph, the values of variables are not known; the settings are those that Python code passed last.
    """
    settings: ScaleSettings = loss_scale._scale_settings
    given = CurrentSettings(loss_scale._initial_loss_scale, loss_scale._increment_period, settings)
    is_read = settings.adjustable and tf.executing_eagerly() and NUMBERS[0] in loss_scale._weights_here()
    return (
        _with_numbers(given, loss_scale._numbers(), loss_scale._read_numbers(None, "get_config")) if is_read else given
    )


def _with_numbers(given: CurrentSettings, before: Mapping[str, Any], found: Mapping[str, Any]) -> CurrentSettings:
    # A setting whose variable still has the initial value stays as it was passed: a factor as None, growth steps beyond
    # int64.
    changed = {name: value for name, value in found.items() if value != _held(before[name])}
    growth_steps = changed.pop(NUMBERS[0], given.growth_steps)
    settings = dataclasses.replace(given.settings, **changed)
    initial = min(max(given.initial_scale, settings.min_scale), settings.max_scale)
    return CurrentSettings(initial, growth_steps, settings)


def _held(value: Any) -> Any:
    """Return a number as the variable of a setting holds it."""
    return float(np.float32(value)) if isinstance(value, float) else value
