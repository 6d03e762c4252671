"""Reads the configs of Keras wrappers, of every release, and checks them before anything is created."""

from __future__ import annotations

import inspect
from typing import Any

from mpls.core.identifiers import deserialize
from mpls.core.loss_scale import NativeLossScale
from mpls.errors import (
    ArgumentKeyError,
    ArgumentTypeError,
    ArgumentValueError,
    MplsError,
    error_text,
)
from mpls.formats.wrapper_state import BASE_ARGUMENTS, INNER_KEYS, LOSS_SCALE, inner_key
from mpls.keras.adapters import registered_class

_SUBJECT = "LossScaleOptimizer.from_config"
_ADVICE = ("LossScaleOptimizer.from_config(opt.get_config())", "configs")


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
        TypeError: it is no dict.
        ValueError: it holds a loss scale of an unknown class, or a setting that belongs to the inner optimizer.
    """
    if not isinstance(config, dict):
        raise ArgumentTypeError(
            error_text(
                f"{_SUBJECT}: config",
                "be a dict",
                config,
                *_ADVICE,
            )
        )
    _require_names(config)
    settings = _without_base_arguments(config)
    key = inner_key(settings)
    if LOSS_SCALE in settings:
        settings[LOSS_SCALE] = _deserialize_loss_scale(settings[LOSS_SCALE], custom_objects)
    if key not in settings:
        raise ArgumentKeyError(
            error_text(
                f"{_SUBJECT}: config",
                f"have the key {key!r}",
                sorted(map(str, config)),
                *_ADVICE,
            )
        )
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


def _require_names(config: dict[Any, Any]) -> None:
    odd = [key for key in config if not isinstance(key, str)]
    if odd:
        raise ArgumentTypeError(error_text(f"{_SUBJECT}: config", "have strings as keys", odd[0], *_ADVICE))
    if not isinstance(config.get("name", ""), str):
        raise ArgumentValueError(error_text(f"{_SUBJECT}: name", "be a string", config["name"], *_ADVICE))


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
                    *_ADVICE,
                )
            )


def _deserialize_loss_scale(config: Any, custom_objects: dict[str, type] | None) -> Any:
    name = config.get("class_name") if isinstance(config, dict) else None
    if not isinstance(name, str):
        return deserialize(config if name is None else {**config, "class_name": repr(name)})
    found = (custom_objects or {}).get(name, registered_class(name))
    if found is not None and not (isinstance(found, type) and issubclass(found, NativeLossScale)):
        # Check before any of its code runs.
        raise ArgumentValueError(
            error_text(
                f"{_SUBJECT}: loss_scale: {name}",
                "be a class of loss scales",
                found,
                "Pass custom_objects={'Name': YourLossScale}",
                "configs",
            )
        )
    try:
        return deserialize(config, {} if found is None else {name: found})
    except MplsError:
        raise
    except TypeError as error:
        raise ArgumentTypeError(
            error_text(f"{_SUBJECT}: loss_scale", f"have the settings of a {name}", config, str(error), "configs")
        ) from error
