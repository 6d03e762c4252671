"""The parts of Keras' and tf_keras' loaders that are no public API, each in one function."""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from mpls.upstream import loaded_keras

__all__ = [
    "OwnObjects",
    "h5_loader_of_keras",
    "has_class",
    "maker_of_ops",
    "makers_of_networks",
    "number_of_outputs",
    "repeater_of_tf_keras",
    "variable_class_of_keras",
]


class OwnObjects:
    """The objects of the user, by name.

    Args:
        framework: tf_keras or Keras 3.
        custom_objects: what the user passes, by name.
    """

    def __init__(self, framework: ModuleType, custom_objects: dict[str, Any]) -> None:
        self._saving = framework.saving
        self._custom_objects = custom_objects

    def find(self, name: str) -> Any:
        """Return the one that the framework finds by a name, None if there is none."""
        return self._saving.get_registered_object(name, self._custom_objects)

    def is_registered_somewhere(self, name: str) -> bool:
        """Return whether an object is registered by a name, for whatever package."""
        return any(key.endswith(f">{name}") for key in self._saving.get_custom_objects())


def has_class(name: str) -> bool:
    """Return whether tf_keras finds a layer or a metric of its own by a class name of a SavedModel."""
    layers = import_module("tf_keras.src.layers.serialization")
    # Metrics are looked up among all that their package has imported.
    return layers.get_builtin_layer(name) is not None or name in vars(import_module("tf_keras.src.metrics"))


def h5_loader_of_keras() -> Any:
    """Return the function of Keras 3 (3.0 to 3.15) that loads a model from an open H5 file, None if it has none."""
    module = sys.modules.get("keras.src.legacy.saving.legacy_h5_format")
    return getattr(module, "load_model_from_hdf5", None)


def variable_class_of_keras() -> Any:
    """Return the class of Keras 3 whose `__init__` makes variables, if the process has loaded it."""
    keras = loaded_keras()
    if keras is None:
        return None
    return next(cls for cls in keras.Variable.__mro__ if "__init__" in vars(cls))


def makers_of_networks() -> list[tuple[ModuleType, str]]:
    """Return functions that loaders call each time that they try to connect a layer, as `(module, name)`.

    They try until they succeed: tf_keras, and Keras 3 up to some release, for ever.
    """
    names = (
        ("tf_keras.src.utils.tf_utils", "convert_inner_node_data"),
        ("keras.src.models.functional", "deserialize_node"),
    )
    found = [(sys.modules.get(module), name) for module, name in names]
    return [(module, name) for module, name in found if module is not None and hasattr(module, name)]


def maker_of_ops() -> tuple[type, str]:
    """Return the method of graphs that makes each op, as `(class, name)`; its first argument is the op's type."""
    return import_module("tensorflow.python.framework.ops").Graph, "_create_op_internal"


def repeater_of_tf_keras() -> tuple[ModuleType, str] | None:
    """Return the function of tf_keras that repeats each slice of a tensor, in a list, as `(module, name)`."""
    module = sys.modules.get("tf_keras.src.backend")
    return None if module is None else (module, "repeat_elements")


def number_of_outputs(make_op: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> int:
    """Return into how many tensors an op is about to split one, 1 if it is not a split.

    Args:
        make_op: the method that `maker_of_ops` names.
        arguments: what it is called with, with the graph.
        keywords: and by name.
    """
    attributes = inspect.signature(make_op).bind(*arguments, **keywords).arguments.get("attrs") or {}
    return max((int(attributes[name].i) for name in ("num_split", "num") if name in attributes), default=1)
