"""Hyperparameters of live optimizers: reading, comparing, checking on a copy and setting them."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from mpls.errors import SavedStateError, error_text
from mpls.formats.algorithms import expected_slots
from mpls.formats.validity import ANCHOR
from mpls.transfer.hosts import Host
from mpls.upstream.keras_packages import loaded_keras, loaded_tf_keras
from mpls.upstream.optimizers import learning_rate_of, set_legacy_setting

# The settings that determine a step. Others, such as `name` and `jit_compile`, are not transferred.
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
_LATER = {"weight_decay": None, "use_ema": False, "gradient_accumulation_steps": None}
# The settings of `NAMES` that are numbers in every optimizer that has them.
NUMBERS = frozenset(NAMES) - {
    *("weight_decay", "clipnorm", "global_clipnorm", "clipvalue", "ema_overwrite_frequency"),
    "gradient_accumulation_steps",
}
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


def settable(host: Host, source: Mapping[str, Any], *, is_built: bool) -> dict[str, Any]:
    """Return the settings of a source that the target has with another value, and that can be set.

    Left out are settings that need other slots than a built target has, schedules of classes that the target's Keras
    does not have, and a number where a new or Keras 3 target has a schedule.

    Args:
        host: the target.
        source: the settings of the source.
        is_built: whether the target has its slots.
    """
    own = settings_of(host)
    plan = {
        name: source[name]
        for name in NAMES
        if name in source and name in own and not is_same(source[name], own[name]) and _fits(host, name, source, own)
    }
    if is_built and host.state is not None:
        for name in list(plan):
            here, there = (expected_slots(host.state, host.family, each) for each in (own, {**own, name: plan[name]}))
            if here != there:
                del plan[name]
    return plan


def _fits(host: Host, name: str, source: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    value = source[name]
    if name != "learning_rate":
        return not isinstance(value, Mapping)
    if isinstance(value, Mapping):
        legacy_nadam = (host.state, host.family) == ("Nadam", "legacy")
        return not legacy_nadam and _schedule_class(host, value) is not None
    return isinstance(value, int | float) and (host.family == "legacy" or not isinstance(own[name], Mapping))


def _schedule_class(host: Host, config: Mapping[str, Any]) -> Any:
    module: Any = loaded_keras() if host.family == "keras3" else loaded_tf_keras()
    schedules = module.optimizers.schedules
    found = getattr(schedules, str(config.get("class_name")), None)
    return found if isinstance(found, type) and found is not schedules.LearningRateSchedule else None


def made(host: Host, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the schedule of the learning rate, if there is one, created from its config."""
    rate = plan.get("learning_rate")
    if not isinstance(rate, Mapping):
        return dict(plan)
    # Without the name of the schedule: it names an op only, and may be None, which Keras 3 refuses.
    config = _schedule(rate)[1]
    return {**plan, "learning_rate": _schedule_class(host, rate).from_config(config)}


def as_numbers(values: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with floats where the target has floats, since Keras 3 refuses an integer there.

    Args:
        values: the settings.
        own: those of the target.

    Raises:
        OverflowError: an integer is too large for a float.
    """

    def converted(name: str, value: Any) -> Any:
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        return float(value) if is_integer and isinstance(own.get(name), float) else value

    return {name: converted(name, value) for name, value in values.items()}


def set_settings(host: Host, values: Mapping[str, Any]) -> None:
    """Set hyperparameters of the target, as `checked_hyperparameters` returns them."""
    for name, value in values.items():
        if host.family == "legacy":
            set_legacy_setting(host.inner, name, value)
        else:
            setattr(host.inner, name, value)


def learning_rate_at(host: Host, iterations: int, values: Mapping[str, Any]) -> float:
    """Return the learning rate of a target after a number of steps, with its schedule or decay.

    Args:
        host: the target.
        iterations: the number of steps.
        values: the settings that the target will get.
    """
    inner = host.inner
    rate = values.get("learning_rate")
    if rate is None:
        rate = learning_rate_of(inner)
    if callable(rate) and not hasattr(rate, "numpy"):
        is_schedule = hasattr(rate, "from_config")
        rate = rate(iterations) if is_schedule else rate()
    decay = values.get("decay", settings_of(host).get("decay")) or 0.0
    return float(_plain(rate)) / (1.0 + decay * iterations)


_ADVICE = "Mend the source, or leave out hyperparameters=True"


def checked_hyperparameters(host: Host, settings: Mapping[str, Any], subject: str) -> dict[str, Any]:
    """Return settings as they are to be set, with the schedule of the learning rate made; the target stays as it is.

    Args:
        host: the target.
        settings: what `settable` returned.
        subject: the origin of the settings, for errors.

    Raises:
        SavedStateError: the target refuses them; the message names them, and says what it refuses.
    """
    for name, value in settings.items():
        is_number = isinstance(value, int | float) or (name == "learning_rate" and isinstance(value, Mapping))
        if not is_number and (value is not None or name in NUMBERS):
            raise _refusal(subject, name, host, value)
    base = _config_of(host)
    with _any_error_as_ours(host, settings, subject):
        values = as_numbers(made(host, settings), settings_of(host))
        rate: Any = values.get("learning_rate")
        if hasattr(rate, "from_config"):
            # A schedule may fail only when it computes a rate.
            float(rate(0))
        if base is not None:
            set_settings(_of(host, base), values)
            # A constructor checks more than setters do. None has no effect, and a constructor may refuse it.
            _of(host, {**base, **{name: value for name, value in values.items() if value is not None}})
    return values


def _config_of(host: Host) -> dict[str, Any] | None:
    """Return the target's config; None if it cannot be made again from it, as an optimizer of the user."""
    try:
        # Legacy optimizers that are built have NumPy's floats, which the copy could not assign to.
        found = host.inner.get_config()
        config = {name: each.item() if isinstance(each, np.generic) else each for name, each in found.items()}
        _of(host, config)
    except (TypeError, ValueError, NotImplementedError):
        return None
    return config


def _of(host: Host, config: Mapping[str, Any]) -> Host:
    other = type(host.inner).from_config(dict(config))
    return type(host)(other, other)


@contextmanager
def _any_error_as_ours(host: Host, settings: Mapping[str, Any], subject: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        names, values = ", ".join(settings), ", ".join(map(str, settings.values()))
        raise _refusal(subject, names, host, f"{values} ({type(error).__name__}: {error})") from error


def _refusal(subject: str, name: str, host: Host, got: Any) -> SavedStateError:
    error: SavedStateError = SavedStateError(
        error_text(f"{subject}: {name}", f"be what {host} takes", got, _ADVICE, ANCHOR)
    )
    return error
