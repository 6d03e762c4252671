"""Configs of the optimizers that the Keras wrappers wrap."""

from __future__ import annotations

from typing import Any

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
    """Return the family that wrote a config: only wrappers of Keras 3 have a name."""
    if "name" in settings:
        return KERAS_3
    return LEGACY if _is_legacy_config(inner) else NEW


def _is_legacy_config(inner: dict[str, Any]) -> bool:
    """Return whether a legacy optimizer wrote the config; new ones say so, from TF 2.11 on."""
    settings = inner.get("config")
    if not isinstance(settings, dict):
        return "module" not in inner
    return bool(settings.get("is_legacy_optimizer", "jit_compile" not in settings))
