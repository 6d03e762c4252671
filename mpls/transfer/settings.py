"""Hyperparameters of live optimizers: reading and comparing them."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from mpls.transfer.hosts import Host

# The settings that determine a step. Others, such as `name` and `jit_compile`, are not compared.
NAMES = (
    "learning_rate",
    "decay",
    "momentum",
    "nesterov",
    "rho",
    "centered",
    "beta_1",
    "beta_2",
    "epsilon",
    "adaptive_epsilon",
    "amsgrad",
    "initial_accumulator_value",
    "learning_rate_power",
    "l1_regularization_strength",
    "l2_regularization_strength",
    "l2_shrinkage_regularization_strength",
    "beta",
    "weight_decay",
    "clipnorm",
    "global_clipnorm",
    "clipvalue",
    "use_ema",
    "ema_momentum",
    "ema_overwrite_frequency",
    "gradient_accumulation_steps",
)

# Settings that v1 and legacy optimizers lack, each with the value that has no effect.
_LATER = {"weight_decay": None, "use_ema": False}
_LARGEST = sys.float_info.max
# Values without an effect. An optimizer that lacks a setting does the same as one that has such a value.
_NEUTRAL = (None, 0, 0.0, False)


def settings_of(host: Host) -> dict[str, Any]:
    """Return the hyperparameters of a live optimizer as plain Python values; a schedule is its config."""
    try:
        config = host.inner.get_config()
    except NotImplementedError:
        # A user's optimizer need not define it.
        return {}
    if hasattr(host.inner, "adaptive_epsilon"):
        # Adam of tf_keras leaves it out.
        config = {"adaptive_epsilon": host.inner.adaptive_epsilon, **config}
    return {name: _plain(config[name]) for name in NAMES if name in config}


def _plain(value: Any) -> Any:
    """Return the Python value of a variable, tensor or NumPy value; None for a callable; other values as they are."""
    if hasattr(value, "numpy"):
        value = value.numpy()
    if isinstance(value, np.generic | np.ndarray):
        return value.item() if np.ndim(value) == 0 else value.tolist()
    return None if callable(value) else value


def differences(source: Mapping[str, Any], target: Mapping[str, Any], family: str) -> tuple[str, ...]:
    """Return the settings in which two optimizers differ, in words, among those that are known of the source.

    Args:
        source: the settings that the source says.
        target: those of the target.
        family: the family of the source.
    """
    found = []
    if family in ("v1", "legacy"):
        lacking = {name: none for name, none in _LATER.items() if target.get(name) not in _NEUTRAL}
        source = {**lacking, **source}
    is_averaging = source.get("use_ema") or target.get("use_ema")
    for name in NAMES:
        if name not in source or (name.startswith("ema_") and not is_averaging):
            continue
        ours, theirs = source[name], target.get(name)
        if name not in target and ours in _NEUTRAL:
            continue
        if not is_same(ours, theirs):
            found.append(f"{name}: {_words(ours)}, {_words(theirs) if name in target else 'not there'}")
    return tuple(found)


def is_same(one: Any, other: Any) -> bool:
    """Return whether two values of a setting are equal, numbers up to a relative error of 1e-6."""
    if isinstance(one, Mapping) or isinstance(other, Mapping):
        return isinstance(one, Mapping) and isinstance(other, Mapping) and _schedule(one) == _schedule(other)
    is_float = isinstance(one, float) or isinstance(other, float)
    if is_float and isinstance(one, int | float) and isinstance(other, int | float):
        # An integer may be too large for a float.
        return one == other or (max(abs(one), abs(other)) <= _LARGEST and math.isclose(one, other, rel_tol=1e-6))
    return bool(one == other)


def _schedule(config: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    inner = config.get("config")
    settings = inner.items() if isinstance(inner, Mapping) else ()
    return config.get("class_name"), {key: each for key, each in settings if key != "name"}


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{value.get('class_name')}({', '.join(f'{key}={each}' for key, each in _schedule(value)[1].items())})"
    return f"{value:g}" if isinstance(value, float) else str(value)


def learning_rate_at(host: Host, iterations: int) -> float:
    """Return the learning rate of a target after a number of steps, with its schedule or decay."""
    rate = host.learning_rate
    if callable(rate):
        is_schedule = hasattr(rate, "from_config")
        rate = rate(iterations) if is_schedule else rate()
    decay = settings_of(host).get("decay") or 0.0
    return float(_plain(rate)) / (1.0 + decay * iterations)
