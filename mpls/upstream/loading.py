"""How the loaders of tf_keras and Keras 3 make models."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any

import tensorflow as tf

from mpls.upstream import table
from mpls.upstream.kerases import loaded_keras
from mpls.upstream.private import Private

__all__ = [
    "OwnObjects",
    "h5_loader_of_keras",
    "has_class",
    "makers_of_networks",
    "makers_of_ops",
    "number_of_outputs",
    "repeaters_of_tf_keras",
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
    builtin_layer = table.BUILTIN_LAYER.load()
    # Metrics are looked up among all that their package has imported.
    is_layer = builtin_layer is not None and builtin_layer(name) is not None
    return is_layer or hasattr(table.METRICS.load(), name)


def h5_loader_of_keras() -> Any:
    """Return the function of Keras 3 (3.0 to 3.15) that loads a model from an open H5 file, None if it has none."""
    return table.H5_LOADER.load() if table.H5_LOADER.owner in sys.modules else None


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
    return [found for row in (table.CONNECT, table.CONNECT_3) for found in _in_loaded_module(row)]


def _in_loaded_module(row: Private) -> list[tuple[ModuleType, str]]:
    if row.framework not in sys.modules:
        return []
    return [] if row.load() is None else [(sys.modules[row.owner], row.name)]


def makers_of_ops() -> list[tuple[type, str]]:
    """Return the method of graphs that makes each op, as `(class, name)`; its first argument is the op's type."""
    return [] if table.CREATE_OP.of(tf.Graph) is None else [(tf.Graph, table.CREATE_OP.name)]


def repeaters_of_tf_keras() -> list[tuple[ModuleType, str]]:
    """Return the function of tf_keras that repeats each slice of a tensor, in a list, as `(module, name)`."""
    return _in_loaded_module(table.REPEAT)


def number_of_outputs(make_op: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> int:
    """Return into how many tensors an op is about to split one, 1 if it is not a split.

    Args:
        make_op: the method that `makers_of_ops` names.
        arguments: what it is called with, with the graph.
        keywords: and by name.
    """
    attributes = inspect.signature(make_op).bind(*arguments, **keywords).arguments.get("attrs") or {}
    return max((int(attributes[name].i) for name in ("num_split", "num") if name in attributes), default=1)
