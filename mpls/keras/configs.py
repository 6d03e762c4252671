"""Configs of the optimizers that the Keras wrappers wrap."""

from __future__ import annotations

from typing import Any

import tf_keras

from mpls.keras import legacy, new


def deserialize_inner(cls: type, inner: Any, custom_objects: dict[str, Any] | None) -> Any:
    """Create the wrapped optimizer that a config describes.

    Args:
        cls: the wrapper's class; one of a family reads every config into its own.
        inner: the optimizer itself, or its config, of any release.
        custom_objects: classes of the user by name.

    Returns:
        The optimizer.
    """
    if not isinstance(inner, dict):
        return inner
    if issubclass(cls, legacy.Family):
        is_legacy = True
    elif issubclass(cls, new.Family):
        is_legacy = False
    else:
        is_legacy = _is_legacy_config(inner)
    return tf_keras.optimizers.deserialize(dict(inner), custom_objects=custom_objects, use_legacy_optimizer=is_legacy)


def _is_legacy_config(inner: dict[str, Any]) -> bool:
    """Return whether a legacy optimizer wrote the config; new ones say so, from TF 2.11 on."""
    settings = inner.get("config")
    if not isinstance(settings, dict):
        return "module" not in inner
    return bool(settings.get("is_legacy_optimizer", "jit_compile" not in settings))
