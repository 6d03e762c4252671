"""Reads the configs of Keras wrappers, of every release, checks them, and creates the wrapped optimizer."""

from __future__ import annotations

import inspect
from typing import Any

from mpls.core.identifiers import deserialize, serialize
from mpls.core.loss_scale import NativeLossScale, is_dynamic, is_fixed
from mpls.errors import ArgumentKeyError, ArgumentTypeError, ArgumentValueError, MplsError, error_text
from mpls.formats.wrapper_state import BASE_ARGUMENTS, INNER_KEYS, LOSS_SCALE, WRAPPERS, inner_family, inner_key
from mpls.keras.adapters import adapter_of_family, registered_class
from mpls.keras.family_members import FamilyMembers
from mpls.upstream.keras_packages import loaded_keras, loaded_tf_keras
from mpls.upstream.optimizers import hyperparameters_of

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
        raise ArgumentTypeError(
            error_text(
                f"{_SUBJECT}: config",
                "be a dict",
                config,
                *_READ_ADVICE,
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
                *_READ_ADVICE,
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
        raise ArgumentTypeError(error_text(f"{_SUBJECT}: config", "have strings as keys", odd[0], *_READ_ADVICE))
    if not isinstance(config.get("name", ""), str):
        raise ArgumentValueError(error_text(f"{_SUBJECT}: name", "be a string", config["name"], *_READ_ADVICE))


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


def deserialize_inner(inner: Any, settings: dict[str, Any], custom_objects: dict[str, Any] | None) -> Any:
    """Create the wrapped optimizer that a config describes.

    Args:
        inner: the optimizer itself, or its config, of any release.
        settings: the rest of the wrapper's config.
        custom_objects: classes of the user by name.

    Returns:
        The optimizer; or what the config has in its place, if that is not a dict.

    Raises:
        TypeError: the config is of another form, or what it names is not an optimizer, or one with other settings.
        ValueError: it is that of a wrapper, or has a setting that the optimizer refuses.
    """
    if not isinstance(inner, dict):
        return inner
    _require_optimizer(inner, custom_objects)
    try:
        optimizer = adapter_of_family(inner_family(settings, inner)).deserialize_optimizer(
            {**inner, "config": dict(inner["config"])}, custom_objects
        )
    except MplsError:
        raise
    except KeyError as error:
        raise ArgumentKeyError(_described(inner, error)) from error
    except (RecursionError, ValueError) as error:
        raise ArgumentValueError(_described(inner, error)) from error
    except (AttributeError, TypeError) as error:
        raise ArgumentTypeError(_described(inner, error)) from error
    # Legacy optimizers keep an unknown schedule as a string. Look in `_hyper`: reading the attribute creates variables.
    if isinstance(hyperparameters_of(optimizer).get("learning_rate"), str):
        subject = f"{_INNER}: learning_rate"
        rate = inner["config"]["learning_rate"]
        raise ArgumentTypeError(error_text(subject, "be a number, or the config of a schedule", rate, *_ADVICE))
    return optimizer


def _described(inner: dict[str, Any], error: Exception) -> str:
    reason = str(error).partition("\n")[0]
    return error_text(_INNER, f"be the config of an optimizer that can be made ({reason})", inner, *_ADVICE)


_ADVICE = (
    "Pass what optimizer.get_config() of the wrapper returned, and classes of yours as custom_objects",
    "configs",
)


def _require_optimizer(inner: dict[str, Any], custom_objects: dict[str, Any] | None) -> None:
    """Refuse a config that does not describe an optimizer, before any of its code runs."""
    name = inner.get("class_name")
    if not isinstance(name, str) or not isinstance(inner.get("config"), dict):
        raise ArgumentTypeError(
            error_text(_INNER, "have a 'class_name', a string, and a 'config', a dict", inner, *_ADVICE)
        )
    if name.lower() in _WRAPPERS:
        advice = "Use the inner_optimizer of that config in its place"
        raise ArgumentTypeError(error_text(_INNER, "not be a wrapper itself", name, advice, "wrapping"))
    for key in (name, inner.get("registered_name")):
        if not isinstance(key, str):
            continue
        found = (custom_objects or {}).get(key, registered_class(key))
        if found is not None and not _is_class_of(found, _optimizers()):
            raise ArgumentTypeError(error_text(f"{_INNER}: {key}", "be a class of Keras optimizers", found, *_ADVICE))
    _require_learning_rate(inner["config"].get("learning_rate"), custom_objects)


def _require_learning_rate(value: Any, custom_objects: dict[str, Any] | None) -> None:
    """Refuse an invalid learning rate; Keras would accept it, and fail in training."""
    subject = f"{_INNER}: learning_rate"
    name = value.get("class_name") if isinstance(value, dict) else None
    if isinstance(value, str | list) or (isinstance(value, dict) and not isinstance(name, str)):
        raise ArgumentTypeError(error_text(subject, "be a number, or the config of a schedule", value, *_ADVICE))
    if isinstance(name, str):
        found = (custom_objects or {}).get(name, registered_class(name))
        if found is not None and not _is_class_of(found, _schedules()):
            raise ArgumentTypeError(error_text(f"{subject}: {name}", "be a class of schedules", found, *_ADVICE))


def _is_class_of(value: Any, bases: list[Any]) -> bool:
    return isinstance(value, type) and issubclass(value, tuple(bases))


def _optimizers() -> list[Any]:
    tf_keras = loaded_tf_keras()
    bases = [module.optimizers.Optimizer for module in _loaded()]
    return bases if tf_keras is None else [*bases, tf_keras.optimizers.legacy.Optimizer]


def _schedules() -> list[Any]:
    return [module.optimizers.schedules.LearningRateSchedule for module in _loaded()]


def _loaded() -> list[Any]:
    return [module for module in (loaded_tf_keras(), loaded_keras()) if module is not None]


def config_of_old(wrapper: FamilyMembers) -> dict[str, Any]:
    """Return a wrapper's config in the format of TF 2.0 to 2.3: `{'optimizer': dict, 'loss_scale': dict}`."""
    loss_scale = wrapper._loss_scale
    serialized: Any = serialize(loss_scale)
    if type(loss_scale).__module__.startswith("mpls.keras"):
        # Write the public class name for the families' own loss scale classes.
        if is_dynamic(loss_scale):
            serialized["class_name"] = "DynamicLossScale"
        elif is_fixed(loss_scale):
            serialized["class_name"] = "FixedLossScale"
    return {**wrapper._family_config_of_old(), LOSS_SCALE: serialized}
