"""Reads the configs of Keras wrappers, of every release, checks them, and creates the wrapped optimizer."""

from __future__ import annotations

import inspect
from typing import Any

from mpls.core.identifiers import deserialize
from mpls.errors import ArgumentKeyError, ArgumentTypeError, ArgumentValueError, error_text
from mpls.formats.wrapper_state import BASE_ARGUMENTS, INNER_KEYS, LOSS_SCALE, WRAPPERS, inner_family, inner_key
from mpls.keras.adapters import adapter_of_family, registered_class

_SUBJECT = "LossScaleOptimizer.from_config"
_READ_ADVICE = ("LossScaleOptimizer.from_config(opt.get_config())", "configs")
_INNER = "LossScaleOptimizer.from_config: inner_optimizer"
_WRAPPERS = tuple(map(str.lower, WRAPPERS))


def read_config(config: Any, custom_objects: dict[str, type] | None = None) -> tuple[Any, dict[str, Any]]:
    """Read a wrapper's config: mpls' own, that of Keras 3, of TF 2.4 and later, or that of TF 2.0 to 2.3.

    Args:
        config: what `get_config` returned; it is left as it is.
        custom_objects: classes of the user by class name.

    Returns:
        `(inner_optimizer, settings)`: the wrapped optimizer or its config, and keyword arguments of the constructor; in
        the format of TF 2.0 to 2.3, the loss scale as `loss_scale`.

    Raises:
        KeyError: the config names no optimizer.
        TypeError: it is not a dict.
        ValueError: it holds a loss scale of an unknown class, or a setting that belongs to the inner optimizer.
    """
    if not isinstance(config, dict):
        raise ArgumentTypeError(error_text(f"{_SUBJECT}: config", "be a dict", config, *_READ_ADVICE))
    settings = _without_base_arguments(config)
    key = inner_key(settings)
    if LOSS_SCALE in settings:
        settings[LOSS_SCALE] = _deserialize_loss_scale(settings[LOSS_SCALE], custom_objects or {})
    if key not in settings:
        keys = sorted(map(str, config))
        raise ArgumentKeyError(error_text(f"{_SUBJECT}: config", f"have the key {key!r}", keys, *_READ_ADVICE))
    return settings.pop(key), settings


def _without_base_arguments(config: dict[str, Any]) -> dict[str, Any]:
    settings = dict(config)
    for key, default in BASE_ARGUMENTS.items():
        if "name" not in config or key not in config:
            continue
        value = settings.pop(key)
        if value != default:
            raise ArgumentValueError(
                error_text(
                    f"{_SUBJECT}: {key}",
                    "be a setting of the inner optimizer",
                    value,
                    f"config['inner_optimizer']['config'][{key!r}] = {value!r}",
                    "configs",
                )
            )
    return settings


def refuse_unknown_keys(constructor: Any, settings: dict[str, Any]) -> None:
    """Refuse settings that a constructor does not take.

    Args:
        constructor: an `__init__`, of mpls or of a user's subclass.
        settings: its keyword arguments, from a config.

    Raises:
        TypeError: it does not take one of them.
    """
    parameters = inspect.signature(constructor).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return
    for key in settings:
        # The inner optimizer is already removed from the settings, so these keys are unknown too.
        if key not in parameters or key in ("self", *INNER_KEYS):
            raise ArgumentTypeError(
                error_text(
                    f"{_SUBJECT}: {key}",
                    "be left out, as there is no such setting beside the others",
                    settings[key],
                    *_READ_ADVICE,
                )
            )


def _deserialize_loss_scale(config: Any, custom_objects: dict[str, type]) -> Any:
    name = config.get("class_name") if isinstance(config, dict) else None
    if not isinstance(name, str):
        return deserialize(config)
    found = custom_objects.get(name, registered_class(name))
    return deserialize(config, {} if found is None else {name: found})


def deserialize_inner(inner: Any, settings: dict[str, Any], custom_objects: dict[str, Any] | None) -> Any:
    """Create the wrapped optimizer that a config describes.

    Args:
        inner: the optimizer itself, or its config, of any release.
        settings: the rest of the wrapper's config.
        custom_objects: classes of the user by name.

    Returns:
        The optimizer; or what the config has in its place, if that is not a dict.

    Raises:
        TypeError: the config is of another form, or that of a wrapper. Other errors are those of Keras.
    """
    if not isinstance(inner, dict):
        return inner
    name = inner.get("class_name")
    if not isinstance(name, str) or not isinstance(inner.get("config"), dict):
        raise ArgumentTypeError(
            error_text(
                _INNER,
                "have a 'class_name', a string, and a 'config', a dict",
                inner,
                "Pass what optimizer.get_config() of the wrapper returned",
                "configs",
            )
        )
    if name.lower() in _WRAPPERS:
        advice = "Use the inner_optimizer of that config in its place"
        raise ArgumentTypeError(error_text(_INNER, "not be a wrapper itself", name, advice, "wrapping"))
    config = {**inner, "config": dict(inner["config"])}
    return adapter_of_family(inner_family(settings, inner)).deserialize_optimizer(config, custom_objects)
