"""How the loaders of tf_keras and Keras 3 make models."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from mpls.upstream import table

__all__ = ["ObjectsOfUser", "h5_loader_of_keras", "wrapper_classes_of_tf_keras"]


class ObjectsOfUser:
    """The objects of the user, by name.

    Args:
        framework: tf_keras or Keras 3.
        custom_objects: what the user passes, by name.
    """

    def __init__(self, framework: ModuleType, custom_objects: dict[str, Any]) -> None:
        self._saving = framework.saving
        self._custom_objects = custom_objects

    def find(self, name: str) -> Any:
        """Return the object that the framework finds by a name; None if there is none."""
        return self._saving.get_registered_object(name, self._custom_objects)

    def is_registered_somewhere(self, name: str) -> bool:
        """Return whether an object is registered by a name, for whatever package."""
        return any(key.endswith(f">{name}") for key in self._saving.get_custom_objects())

    def is_known(self, name: str) -> bool:
        """Return whether tf_keras finds a layer or a metric of its own by a class name of a SavedModel."""
        builtin_layer = table.BUILTIN_LAYER.load()
        # Metrics are looked up among all that their package has imported.
        is_layer = builtin_layer is not None and builtin_layer(name) is not None
        return is_layer or hasattr(table.METRICS.load(), name)


def h5_loader_of_keras() -> Any:
    """Return the function of Keras 3 (3.0 to 3.15) that loads a model from an open H5 file, None if it has none."""
    return table.H5_LOADER.load() if table.H5_LOADER.owner in sys.modules else None


def wrapper_classes_of_tf_keras() -> list[type]:
    """Return the class of tf_keras' own wrappers over new optimizers, if the process has loaded it."""
    found = table.WRAPPERS_OVER_NEW.load() if "tf_keras" in sys.modules else None
    return [found] if isinstance(found, type) else []
