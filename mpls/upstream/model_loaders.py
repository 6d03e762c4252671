"""How the loaders of tf_keras and Keras 3 make models."""

from __future__ import annotations

import inspect
import os
import sys
from types import ModuleType
from typing import Any

import tensorflow as tf

from mpls.upstream import table
from mpls.upstream.keras_packages import loaded_keras
from mpls.upstream.private import Private

__all__ = [
    "OpArguments",
    "OwnObjects",
    "classes_of_symbolic_tensors",
    "evaluators_of_constants",
    "h5_loader_of_keras",
    "has_class",
    "is_to_be_imported",
    "layer_classes_of_tf_keras",
    "locally_connected",
    "makers_of_networks",
    "makers_of_ops",
    "makers_of_shapes",
    "normalizations",
    "orthogonals",
    "policy_maps",
    "repeaters_of_tf_keras",
    "variable_class_of_keras",
    "wrapper_classes_of_tf_keras",
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
        """Return the object that the framework finds by a name; None if there is none."""
        return self._saving.get_registered_object(name, self._custom_objects)

    def is_of_a_user(self, name: str) -> bool:
        """Return whether the object found by a name is not a class or function of the framework."""
        module = getattr(self.find(name), "__module__", None) or ""
        return module.partition(".")[0] not in ("tf_keras", "keras")

    def is_registered_somewhere(self, name: str) -> bool:
        """Return whether an object is registered by a name, for whatever package."""
        return any(key.endswith(f">{name}") for key in self._saving.get_custom_objects())


def has_class(name: str) -> bool:
    """Return whether tf_keras finds a layer or a metric of its own by a class name of a SavedModel."""
    builtin_layer = table.BUILTIN_LAYER.load()
    # Metrics are looked up among all that their package has imported.
    is_layer = builtin_layer is not None and builtin_layer(name) is not None
    return is_layer or hasattr(table.METRICS.load(), name)


def is_to_be_imported(module: str) -> bool:
    """Return whether a Keras that is loaded has a module of a name, and has not imported it; its loader would do so.

    tf_keras looks up its own module for each of Keras 3.
    """
    for name in (module, f"tf_{module}"):
        root, *parts = name.split(".")
        if root in ("tf_keras", "keras") and root in sys.modules and name not in sys.modules:
            path = os.path.join(sys.modules[root].__path__[0], *parts)
            if os.path.isdir(path) or os.path.exists(f"{path}.py"):
                return True
    return False


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

    They try until they succeed; tf_keras, and Keras 3 up to some release, without a limit.
    """
    return [found for row in (table.CONNECT, table.CONNECT_3) for found in _in_loaded_module(row)]


def _in_loaded_module(row: Private) -> list[tuple[ModuleType, str]]:
    if row.framework not in sys.modules:
        return []
    return [] if row.load() is None else [(sys.modules[row.owner], row.name)]


def makers_of_ops() -> list[tuple[type, str]]:
    """Return the method of graphs that makes each op, as `(class, name)`; its first argument is the op's type."""
    return [] if table.CREATE_OP.of(tf.Graph) is None else [(tf.Graph, table.CREATE_OP.name)]


def evaluators_of_constants() -> list[tuple[ModuleType, str]]:
    """Return the function that computes symbolic tensors from constants at once, as `(module, name)`."""
    return _in_loaded_module(table.CONSTANT_VALUE)


def makers_of_shapes() -> list[tuple[ModuleType, str]]:
    """Return the function that makes a shape of a symbolic tensor, as far as it is known, as `(module, name)`."""
    return _in_loaded_module(table.CONSTANT_SHAPE)


def repeaters_of_tf_keras() -> list[tuple[ModuleType, str]]:
    """Return the function of tf_keras that repeats each slice of a tensor, in a list, as `(module, name)`."""
    return _in_loaded_module(table.REPEAT)


class OpArguments:
    """The arguments with which the method that `makers_of_ops` names is called.

    Args:
        make_op: the method.
        arguments: its positional arguments; the first is the graph.
        keywords: its keyword arguments.
    """

    def __init__(self, make_op: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self._make_op = make_op
        self._arguments = arguments
        self._keywords = keywords

    def inputs(self) -> list[Any]:
        """Return the inputs of the op, symbolic tensors, in a flat list."""
        inputs: list[Any] = self._arguments[2] if len(self._arguments) > 2 else self._keywords["inputs"]
        return inputs

    def _bound(self, name: str) -> Any:
        return inspect.signature(self._make_op).bind(*self._arguments, **self._keywords).arguments.get(name)

    def make(self) -> Any:
        """Call the method, and return the op."""
        return self._make_op(*self._arguments, **self._keywords)

    def make_call(self) -> Any:
        """Call the method, and return the op, a call of a function.

        TensorFlow goes through the function's ops for the shapes of the outputs, and through those of the functions
        that these call, and computes what depends on constants. Not so here: the caller knows the shapes, as the
        function has been traced.
        """
        bound = inspect.signature(self._make_op).bind(*self._arguments, **self._keywords)
        told = tf.compat.v1.AttrValue(b=True)
        bound.arguments["attrs"] = {**(bound.arguments.get("attrs") or {}), "_disable_call_shape_inference": told}
        return self._make_op(*bound.args, **bound.kwargs)

    def number_of_outputs(self) -> int:
        """Return how many tensors the op makes in a list, 1 if it makes no list."""
        attributes = self._bound("attrs") or {}
        names = ("num_split", "num", "num_partitions", "top_paths")
        return max((int(attributes[name].i) for name in names if name in attributes), default=1)

    def rank_of_input(self, number: int) -> int | None:
        """Return the number of dimensions of an input, None if it is not known."""
        rank: int | None = self.inputs()[number].shape.rank
        return rank


def classes_of_symbolic_tensors() -> list[type]:
    """Return the classes of the tensors between the layers of functional models, of each Keras that is loaded."""
    keras = loaded_keras()
    found = table.KERAS_TENSOR.load() if "tf_keras" in sys.modules else None
    return [each for each in (found, None if keras is None else keras.KerasTensor) if each is not None]


def layer_classes_of_tf_keras() -> list[type]:
    """Return the class of tf_keras whose `__call__` calls any layer, if the process has loaded it."""
    return [sys.modules["tf_keras"].layers.Layer] if "tf_keras" in sys.modules else []


def normalizations() -> list[type]:
    """Return the classes of layers that make constants of a shape that their input has."""
    return [each.layers.Normalization for each in (sys.modules.get("tf_keras"), loaded_keras()) if each is not None]


def orthogonals() -> list[type]:
    """Return the classes of initializers that factorise a matrix."""
    frameworks = (sys.modules.get("tf_keras"), loaded_keras())
    return [each.initializers.Orthogonal for each in frameworks if each is not None]


def locally_connected() -> list[type]:
    """Return the layers of tf_keras that may list the indices of a sparse kernel, if the process has loaded it."""
    if "tf_keras" not in sys.modules:
        return []
    layers = sys.modules["tf_keras"].layers
    return [layers.LocallyConnected1D, layers.LocallyConnected2D]


def policy_maps() -> list[type]:
    """Return the class of Keras 3 (3.7 to 3.15) that looks policies up among regular expressions."""
    keras = loaded_keras()
    found = None if keras is None else getattr(keras.dtype_policies, "DTypePolicyMap", None)
    return [found] if isinstance(found, type) else []


def wrapper_classes_of_tf_keras() -> list[type]:
    """Return the class of tf_keras' own wrappers over new optimizers, if the process has loaded it."""
    found = table.WRAPPERS_OVER_NEW.load() if "tf_keras" in sys.modules else None
    return [found] if isinstance(found, type) else []
