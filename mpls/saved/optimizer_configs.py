"""Configs of optimizers and wrappers of every release, read as plain JSON; no class is looked up, no code is run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from mpls.errors import Described
from mpls.formats.algorithms import algorithm_named
from mpls.formats.families import FAMILY_MARKS, Family, family_of_config
from mpls.formats.record import LossScaleRecord, OptimizerRecord
from mpls.formats.validity import (
    OF_SETTINGS,
    OF_STATE,
    OPTION_VARIABLES,
    OPTIONS,
    SETTINGS_OF_ENTRY,
    check_good_steps,
    check_scale,
    constraint_on_bounds,
    constraint_on_kind,
    constraint_on_number,
    constraint_on_setting,
    is_initial_scale,
    is_options_entry,
    options_entry,
)
from mpls.formats.wrapper_state import (
    AUTO,
    BASE_ARGUMENTS,
    COUNTS,
    DEFAULT_GROWTH_STEPS,
    DEFAULT_INITIAL_SCALE,
    DEFAULT_MAX_SCALE,
    DEFAULT_MIN_SCALE,
    DEFAULT_MULTIPLIER,
    DYNAMIC_CONFIG,
    FIXED_CONFIG,
    FIXED_STATE,
    INCREMENT_PERIOD,
    INITIAL_LOSS_SCALE,
    INNER_KEYS,
    LOSS_SCALE,
    LOSS_SCALE_VALUE,
    MULTIPLIER,
    NEVER,
    OPTIONS_KEY,
    SCALE_OPTIONS,
    SETTINGS,
    STATE_IN_CONFIGS,
    STATE_KEY,
    STEP_OPTIONS,
    WRAPPER_FAMILIES,
    WRAPPERS,
    as_fixed,
    inner_key,
    is_fixed_over_keras_3,
    is_of_keras_3,
)
from mpls.saved.foreign_files import FROM_WRITER, broken
from mpls.saved.plain_numbers import growth_steps_of_config

_ROOT = "the config"
# Entries of an optimizer's config that are not hyperparameters.
_NO_HYPERPARAMETERS = ("name", *FAMILY_MARKS)
# What the config of a wrapper has, and that of no other optimizer with an inner one.
_SCALE_KEYS = frozenset((*SETTINGS, LOSS_SCALE))
_OF_WRAPPERS = frozenset((*INNER_KEYS, LOSS_SCALE, *SETTINGS, *SCALE_OPTIONS, *STEP_OPTIONS, "name", *BASE_ARGUMENTS))


def value_at(content: Any, keys: Iterable[str]) -> Any:
    """Return the value at nested keys of a JSON object; None if one of them is missing."""
    for key in keys:
        content = content.get(key) if isinstance(content, Mapping) else None
    return content


def read_optimizer(path: str, key: str, config: Any, family: Family | None = None) -> OptimizerRecord:
    """Read the config of an optimizer or of a wrapper: a serialized object, or the result of `get_config`.

    Args:
        path: the file, for errors.
        key: the place of the config in the file, as `'training_config/optimizer_config'`; `''` if it is the whole file.
        config: the config.
        family: the family that wrote it; None to tell it from the config.
    """
    if isinstance(config, str):
        # `.keras` files have the argument of `compile`, which may be a name.
        return OptimizerRecord(key, family or "keras3", algorithm_named(config))
    content = _dict(path, key, config)
    if "class_name" in content:
        name = _text(path, _at(key, "class_name"), content["class_name"])
        if _base_name(name) in WRAPPERS:
            settings = _dict(path, _at(key, "config"), content.get("config"))
            return _read_wrapper(path, key, _at(key, "config"), settings, _base_name(name), family)
        if _is_wrappers(content.get("config")):
            # Of a subclass of the user's, which may have settings of its own.
            settings = {each: value for each, value in content["config"].items() if each in _OF_WRAPPERS}
            return _read_wrapper(path, key, _at(key, "config"), settings, None, family)
        return _read_bare(path, key, content, family, is_keras_3=None)
    if INNER_KEYS[0] in content or LOSS_SCALE in content:
        return _read_wrapper(path, key, key, content, None, family)
    if "learning_rate" not in content:
        raise broken(path, key or _ROOT, "be a config of an optimizer", _some_keys(content), FROM_WRITER)
    return _read_bare(path, key, {"class_name": content.get("name"), "config": content}, family, is_keras_3=None)


def _is_wrappers(settings: Any) -> bool:
    """Return whether settings are those of a wrapper, and not of another class that holds an optimizer."""
    return isinstance(settings, dict) and inner_key(settings) in settings and not _SCALE_KEYS.isdisjoint(settings)


def _read_wrapper(
    path: str, key: str, place: str, settings: Mapping[str, Any], name: str | None, family: Family | None
) -> OptimizerRecord:
    key_of_inner = inner_key(settings)
    if LOSS_SCALE in settings:
        _refuse_unknown(path, place, settings, (key_of_inner, LOSS_SCALE, *STEP_OPTIONS))
        loss_scale = _read_loss_scale(path, _at(place, LOSS_SCALE), settings[LOSS_SCALE])
    else:
        own = (*SCALE_OPTIONS, *STEP_OPTIONS)
        of_keras_3 = ("name", *BASE_ARGUMENTS) if is_of_keras_3(settings, {}) else ()
        _refuse_unknown(path, place, settings, (key_of_inner, *SETTINGS, *own, *of_keras_3))
        loss_scale = _read_settings(path, place, settings)
    inner_place = _at(place, key_of_inner)
    if key_of_inner not in settings:
        raise broken(path, place or _ROOT, f"have the key {key_of_inner!r}", _some_keys(settings), FROM_WRITER)
    inner = _dict(path, inner_place, settings[key_of_inner])
    if _base_name(_text(path, f"{inner_place}/class_name", inner.get("class_name"))) in WRAPPERS:
        raise broken(path, inner_place, "not be a LossScaleOptimizer itself", inner["class_name"], FROM_WRITER)
    family = family or WRAPPER_FAMILIES.get(name or "")
    bare = _read_bare(path, inner_place, inner, family, is_keras_3=is_of_keras_3(settings, inner))
    # The entry may be there and None.
    if inner.get(STATE_KEY) == FIXED_STATE:
        loss_scale = _fixed(path, place, settings)
    elif inner.get(STATE_KEY) is not None:
        loss_scale = _with_state(path, f"{inner_place}/{STATE_KEY}", inner[STATE_KEY], loss_scale)
    held = settings[LOSS_SCALE]["config"] if LOSS_SCALE in settings else {}
    entry = inner.get(OPTIONS_KEY)
    of_scale, of_steps, counts = _options(
        path, f"{inner_place}/{OPTIONS_KEY}", {**held, **settings}, entry, dynamic=loss_scale.dynamic
    )
    loss_scale = replace(loss_scale, options=of_scale)
    return replace(bare, key=key, loss_scale=loss_scale, options=of_steps, counts=counts)


def _read_bare(
    path: str, key: str, content: Mapping[str, Any], family: Family | None, is_keras_3: bool | None
) -> OptimizerRecord:
    name = _text(path, _at(key, "class_name"), content.get("class_name"))
    config = _dict(path, _at(key, "config"), content.get("config"))
    rate = config.get("learning_rate", 0.0)
    if isinstance(rate, bool) or not isinstance(rate, (int, float, dict)):
        place = _at(_at(key, "config"), "learning_rate")
        raise broken(path, place, "be a number or the config of a schedule", rate, FROM_WRITER)
    if not key and algorithm_named(name) is None and "learning_rate" not in config:
        raise broken(path, _ROOT, "be a config of an optimizer", name, FROM_WRITER)
    family = family or family_of_config(config, content.get("module"), is_keras_3=bool(is_keras_3))
    hyperparameters = {each: value for each, value in config.items() if each not in _NO_HYPERPARAMETERS}
    return OptimizerRecord(key, family, algorithm_named(name), None, hyperparameters)


def _read_settings(path: str, place: str, settings: Mapping[str, Any]) -> LossScaleRecord:
    dynamic = settings.get("dynamic", True)
    if not isinstance(dynamic, bool):
        raise broken(path, _at(place, "dynamic"), "be a bool", dynamic, FROM_WRITER)
    initial, growth = settings.get("initial_scale"), settings.get("dynamic_growth_steps")
    is_number = initial not in (None, AUTO) or (initial == AUTO and not dynamic)
    scale = check_scale(initial, f"{path}: {_at(place, 'initial_scale')}") if is_number else None
    steps = None if growth is None else growth_steps_of_config(path, _at(place, "dynamic_growth_steps"), growth)
    if dynamic:
        return LossScaleRecord(True, initial_scale=scale, growth_steps=steps, multiplier=DEFAULT_MULTIPLIER)
    if steps is not None:
        raise broken(path, _at(place, "dynamic_growth_steps"), "be null for a fixed scale", growth, FROM_WRITER)
    if scale is None:
        raise broken(path, _at(place, "initial_scale"), "be a number for a fixed scale", initial, FROM_WRITER)
    return LossScaleRecord(False, scale=scale, initial_scale=scale)


def _fixed(path: str, place: str, settings: Mapping[str, Any]) -> LossScaleRecord:
    growth = settings.get("dynamic_growth_steps")
    if not is_fixed_over_keras_3(settings):
        raise broken(path, _at(place, "dynamic_growth_steps"), f"be {NEVER} for a fixed scale", growth, FROM_WRITER)
    return _read_settings(path, place, as_fixed(settings))


def _read_loss_scale(path: str, place: str, config: Any) -> LossScaleRecord:
    content = _dict(path, place, config)
    name = _base_name(_text(path, _at(place, "class_name"), content.get("class_name")))
    settings = _dict(path, _at(place, "config"), content.get("config"))
    place = _at(place, "config")
    if name == "FixedLossScale":
        _refuse_unknown(path, place, settings, (*FIXED_CONFIG, *SCALE_OPTIONS))
        scale = check_scale(settings.get(LOSS_SCALE_VALUE), f"{path}: {_at(place, LOSS_SCALE_VALUE)}")
        return LossScaleRecord(False, scale=scale, initial_scale=scale)
    if name != "DynamicLossScale":
        constraint = "be the class name of a loss scale, 'FixedLossScale' or 'DynamicLossScale'"
        raise broken(path, place.removesuffix("/config") + "/class_name", constraint, name, FROM_WRITER)
    known = (*DYNAMIC_CONFIG, *SCALE_OPTIONS)
    _refuse_unknown(path, place, settings, known)
    initial = settings.get(INITIAL_LOSS_SCALE, DEFAULT_INITIAL_SCALE)
    growth = settings.get(INCREMENT_PERIOD, DEFAULT_GROWTH_STEPS)
    return LossScaleRecord(
        True,
        initial_scale=None if initial == AUTO else check_scale(initial, f"{path}: {_at(place, INITIAL_LOSS_SCALE)}"),
        growth_steps=growth_steps_of_config(path, _at(place, INCREMENT_PERIOD), growth),
        multiplier=check_scale(settings.get(MULTIPLIER, DEFAULT_MULTIPLIER), f"{path}: {_at(place, MULTIPLIER)}"),
    )


def _with_state(path: str, place: str, state: Any, loss_scale: LossScaleRecord) -> LossScaleRecord:
    """Return a loss scale with the state that mpls writes beside the settings."""
    content = _dict(path, place, state)
    _refuse_unknown(path, place, content, STATE_IN_CONFIGS)
    scale = check_scale(content.get("scale"), f"{path}: {place}/scale")
    good_steps = content.get("good_steps")
    if good_steps is None and not loss_scale.dynamic:
        return with_state(loss_scale, scale, None)
    good_steps = check_good_steps(good_steps, f"{path}: {place}/good_steps", loss_scale.growth_steps)
    return with_state(loss_scale, scale, good_steps)


def with_state(settings: LossScaleRecord, scale: float | None, good_steps: int | None) -> LossScaleRecord:
    """Return a loss scale with its state; the scale stays if `scale` is None, a fixed one has no counter."""
    return replace(
        settings,
        scale=scale if scale is not None else settings.scale,
        good_steps=good_steps if settings.dynamic else None,
    )


def _options(
    path: str, place: str, settings: Mapping[str, Any], entry: Any, *, dynamic: bool
) -> tuple[dict[str, Any], dict[str, Any], dict[str, int]]:
    """Return the options in a wrapper's config: of the loss scale, of the steps, and the counters.

    Args:
        path: the file, for errors.
        place: where the entry is in the file.
        settings: the wrapper's settings, or those of its loss scale, which have the options in configs for users.
        entry: the value of `OPTIONS_KEY`, which has them in configs for Keras; or None.
        dynamic: whether the loss scale is a dynamic one.
    """
    own, state = _parts(path, place, entry)
    given = {**{name: settings[name] for name in OPTIONS if name in settings}, **own}
    for name, value in given.items():
        if constraint := constraint_on_setting(name, value) or constraint_on_kind(name, value, dynamic=dynamic):
            raise broken(path, f"{place}/{OF_SETTINGS}/{name}", constraint, value, FROM_WRITER)
    for name, value in state.items():
        if constraint := constraint_on_number(name, value):
            raise broken(path, f"{place}/{OF_STATE}/{name}", constraint, value, FROM_WRITER)
    both = {**settings, **own}
    initial = both.get("initial_scale", both.get(INITIAL_LOSS_SCALE))
    of_scale = {name: given[name] for name in SCALE_OPTIONS if given.get(name) is not None}
    if initial == AUTO and not dynamic:
        raise broken(path, f"{place}/{OF_SETTINGS}/initial_scale", "be a number for a fixed scale", AUTO, FROM_WRITER)
    _check_bounds(path, f"{place}/{OF_SETTINGS}", of_scale, initial)
    _check_bounds(path, f"{place}/{OF_STATE}", {**of_scale, **state}, None)
    if initial == AUTO:
        of_scale = {"initial_scale": AUTO, **of_scale}
    of_steps = {name: given[name] for name in STEP_OPTIONS if given.get(name) is not None}
    counts = {name: state[name] for name in COUNTS if name in state}
    variables = {name: value for name, value in state.items() if name not in counts}
    return {**of_scale, **variables}, of_steps, counts


def _parts(path: str, place: str, entry: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the settings and the state in the entry for options."""
    entry = options_entry({}, {}) if entry is None else entry
    if not is_options_entry(entry):
        constraint = f"be an object with '{OF_SETTINGS}' and '{OF_STATE}'"
        raise broken(path, place, constraint, entry, FROM_WRITER)
    for part, known in ((OF_SETTINGS, SETTINGS_OF_ENTRY), (OF_STATE, OPTION_VARIABLES)):
        for name in entry[part]:
            if name not in known:
                raise broken(path, f"{place}/{part}/{name}", f"be one of {', '.join(known)}", name, FROM_WRITER)
    return entry[OF_SETTINGS], entry[OF_STATE]


def _check_bounds(path: str, place: str, of_scale: Mapping[str, Any], initial: Any) -> None:
    defaults = {"min_scale": DEFAULT_MIN_SCALE, "max_scale": DEFAULT_MAX_SCALE}
    bounds = [of_scale.get(name, default) for name, default in defaults.items()]
    if constraint := constraint_on_bounds(*bounds):
        raise broken(path, f"{place}/max_scale", constraint, bounds[1], FROM_WRITER)
    if isinstance(initial, int | float) and not is_initial_scale(initial, *bounds):
        raise broken(path, place, f"have bounds around the initial scale, {initial}", bounds, FROM_WRITER)


def _at(place: str, key: str) -> str:
    return f"{place}/{key}" if place else key


def _some_keys(content: Mapping[str, Any]) -> Described:
    return Described(f"the keys {', '.join(map(repr, sorted(islice(content, 20))))}" if content else "an empty one")


def _base_name(name: str) -> str:
    return name.rpartition(">")[2]


def _dict(path: str, key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise broken(path, key or _ROOT, "be an object of JSON", value, FROM_WRITER)
    return value


def _text(path: str, key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise broken(path, key, "be a name", value, FROM_WRITER)
    return value


def _refuse_unknown(path: str, place: str, settings: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in settings:
        if key not in known:
            raise broken(path, _at(place, key), f"be one of {', '.join(known)}", key, FROM_WRITER)
