"""Configs of the optimizers that the Keras wrappers wrap."""

from __future__ import annotations

import sys
from typing import Any

from mpls.core.loss_scale import is_dynamic, is_fixed, serialize
from mpls.keras.families import KERAS_3, LEGACY, NEW, family


def deserialize_inner(cls: type, inner: Any, settings: dict[str, Any], custom_objects: dict[str, Any] | None) -> Any:
    """Create the wrapped optimizer that a config describes.

    Args:
        cls: the wrapper's class; one of a family reads every config into its own.
        inner: the optimizer itself, or its config, of any release.
        settings: the rest of the wrapper's config.
        custom_objects: classes of the user by name.

    Returns:
        The optimizer.
    """
    if not isinstance(inner, dict):
        return inner
    own = getattr(cls, "deserialize_optimizer", None)
    read = own or family(_module_of(inner, settings)).deserialize_optimizer
    return read(dict(inner), custom_objects)


def _module_of(inner: dict[str, Any], settings: dict[str, Any]) -> str:
    """Return the family that wrote a config."""
    # Only wrappers of Keras 3 have a name, and only over its optimizers does the format of TF 2.0 to 2.3 have a module.
    if "name" in settings or ("loss_scale" in settings and "module" in inner):
        return KERAS_3
    return LEGACY if _is_legacy_config(inner) else NEW


def _is_legacy_config(inner: dict[str, Any]) -> bool:
    """Return whether a legacy optimizer wrote the config; new ones say so, from TF 2.11 on."""
    settings = inner.get("config")
    if not isinstance(settings, dict):
        return "module" not in inner
    return bool(settings.get("is_legacy_optimizer", "jit_compile" not in settings))


def config_of_old(wrapper: Any) -> dict[str, Any]:
    """Return a wrapper's config in the format of TF 2.0 to 2.3: `{'optimizer': dict, 'loss_scale': dict}`."""
    loss_scale = wrapper._loss_scale
    serialized: Any = serialize(loss_scale)
    if type(loss_scale).__module__.startswith("mpls.keras"):
        # Classes of the families, which stand for public ones.
        if is_dynamic(loss_scale):
            serialized["class_name"] = "DynamicLossScale"
        elif is_fixed(loss_scale):
            serialized["class_name"] = "FixedLossScale"
    return {**wrapper._family_config_of_old(), "loss_scale": serialized}


def is_called_by_keras() -> bool:
    """Return whether a function of tf_keras or Keras 3 has called the method that asks."""
    module = str(sys._getframe(2).f_globals.get("__name__", ""))
    return module.startswith(("keras.", "tf_keras."))
