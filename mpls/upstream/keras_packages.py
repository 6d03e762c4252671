"""Private parts of tf_keras and Keras 3: which is loaded, wrappers, policies, `compile`; not those of optimizers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

import tensorflow as tf

from mpls.formats.families import Family
from mpls.upstream import table
from mpls.upstream.modules import KERAS_VARIABLE, is_keras_2, is_lazily_loaded
from mpls.upstream.table import Private


def loaded_tf_keras() -> ModuleType | None:
    """Return tf_keras if the process has loaded it: without it, nothing can be an instance of its classes."""
    return sys.modules.get("tf_keras")


def loaded_keras() -> ModuleType | None:
    """Return Keras 3 if the process has loaded it."""
    module = sys.modules.get("keras")
    return module if module is not None and hasattr(module, "version") else None


def tensorflow_keras() -> ModuleType:
    """Return what `tf.keras` is, tf_keras or Keras 3; it is loaded with TensorFlow, or now."""
    is_legacy = tf.keras.Model.__module__.partition(".")[0] == "tf_keras"
    return sys.modules["tf_keras" if is_legacy else "keras"]


def chosen_keras() -> int:
    """Return which Keras `tf.keras` is, 2 or 3, without loading it.

    TensorFlow (2.16 to 2.21) chooses by the environment when `tf.keras` is first used.
    """
    loader = vars(tf).get("keras")
    if loader is not None and is_lazily_loaded(loader) is not True:
        # Imported by that name, the module is called `tensorflow.keras`.
        return 2 if loader.Model.__module__.partition(".")[0] == "tf_keras" else 3
    return 2 if is_keras_2(os.environ.get(KERAS_VARIABLE)) else 3


def keras_family_of(optimizer: Any) -> Family | None:
    """Return the family of an optimizer, `'legacy'`, `'new'` or `'keras3'`, by its bases; None for anything else."""
    # Without its framework loaded, there can be no instance of a class.
    tf_keras, keras = loaded_tf_keras(), loaded_keras()
    if tf_keras is not None and isinstance(optimizer, tf_keras.optimizers.legacy.Optimizer):
        return "legacy"
    if tf_keras is not None and isinstance(optimizer, tf_keras.optimizers.Optimizer):
        return "new"
    if keras is not None and isinstance(optimizer, keras.optimizers.Optimizer):
        return "keras3"
    return None


def native_keras_wrappers() -> tuple[type, ...]:
    """Return the loss-scale wrappers of tf_keras and Keras 3, of those that the process has loaded."""
    return (*native_wrappers_of_tf_keras(), *native_wrappers_of_keras_3())


def native_wrappers_of_keras_3() -> tuple[type, ...]:
    """Return the loss-scale wrapper of Keras 3, if the process has loaded it."""
    keras = loaded_keras()
    return () if keras is None else _classes(keras.optimizers.LossScaleOptimizer, table.NATIVE_3)


def native_wrappers_of_tf_keras() -> tuple[type, ...]:
    """Return the loss-scale wrapper of tf_keras, if the process has loaded it."""
    tf_keras = loaded_tf_keras()
    if tf_keras is None:
        return ()
    return _classes(tf_keras.mixed_precision.LossScaleOptimizer, table.WRAPPERS, table.WRAPPERS_OVER_NEW)


def _classes(public: Any, *rows: Private) -> tuple[type, ...]:
    """Return a public class; or those of the rows, where a library has put a function in the place of the class."""
    found = (public,) if isinstance(public, type) else tuple(row.load() for row in rows)
    return tuple(each for each in found if isinstance(each, type))


def native_policies() -> tuple[type, ...]:
    """Return the classes of dtype policies of tf_keras and Keras 3, of those that the process has loaded."""
    tf_keras, keras = loaded_tf_keras(), loaded_keras()
    return (
        *(() if tf_keras is None else (tf_keras.mixed_precision.Policy,)),
        *(() if keras is None else (keras.DTypePolicy,)),
    )


def compile_hooks() -> list[tuple[type, str]]:
    """Return the methods in which `compile` wraps optimizers, with their classes, of each Keras that is loaded.

    tf_keras has one for v1 graph mode (Keras 2.4, tf_keras 2.16 to 2.21). In Keras 3 it is `compile` itself.
    """
    hooks: list[tuple[type, str]] = []
    if loaded_tf_keras() is not None:
        hooks += _hook(table.TF_KERAS_COMPILE) + _hook(table.TF_KERAS_COMPILE_V1)
    if loaded_keras() is not None:
        trainer = table.COMPILING.load()
        hooks += [] if trainer is None else [(trainer, "compile")]
    return hooks


def _hook(method: Private) -> list[tuple[type, str]]:
    module, _, owner = method.owner.partition(":")
    found = getattr(import_module(module), owner)
    return [] if method.of(found) is None else [(found, method.name)]


def _compiled(model: Any) -> Any:
    """Return what a model keeps of the arguments of `compile`; None if it is not compiled, or keeps nothing."""
    keras = loaded_keras()
    is_keras_3 = keras is not None and isinstance(model, keras.Model)
    row = table.KERAS_3_COMPILED if is_keras_3 else table.TF_KERAS_COMPILED
    # Models get it from `compile`; those of tf_keras' v1 graph mode have none.
    is_compiled = model.compiled if is_keras_3 else getattr(model, "compiled_loss", None) is not None
    return row.of(model) if is_compiled else None


@contextmanager
def compile_settings_kept(model: Any) -> Iterator[None]:
    """Keep the settings that a model was compiled with while it is saved, with the optimizer.

    Keras 3 (3.6 to 3.15) removes the optimizer from them when it writes an H5 file, and so from all files that it
    writes of the model later. It is put back if the program's own `model.save` has done that.
    """
    held = _compiled(model)
    if held is None:
        yield
        return
    before = {"optimizer": model.optimizer, **held.config}
    held.config = dict(before)
    try:
        yield
    finally:
        held.config = before


def replace_optimizer(model: Any, optimizer: Any) -> None:
    """Replace the optimizer that a model was compiled with, also in the settings of `compile` that are saved.

    `compile` sets the attribute itself (tf_keras 2.16 to 2.21, Keras 3.6 to 3.15), and keeps the argument that it was
    given.
    """
    model.optimizer = optimizer
    held = _compiled(model)
    if held is not None:
        held.config["optimizer"] = optimizer


def native_tf_keras_wrapper(*, over_new: bool) -> Any:
    """Return tf_keras' concrete wrapper over legacy or new optimizers; only their base class has a public name.

    tf_keras tests for the base class in `Model.compile`, for the concrete legacy class in its v1 training code, and for
    the other concrete class where it turns new optimizers into legacy ones (Keras 2.9, tf_keras 2.16 to 2.21).
    """
    return (table.WRAPPERS_OVER_NEW if over_new else table.WRAPPERS).needed()


def track_in_keras_graph(variable: Any) -> None:
    """Have the session of tf_keras' v1 graph mode initialize a variable; nothing to do in eager mode."""
    if tf.executing_eagerly() or loaded_tf_keras() is None:
        return
    track_variable = table.TRACK_VARIABLE.load()
    if track_variable is not None:
        track_variable(variable)


def keras_graph_session() -> Any:
    """Return the session of tf_keras' v1 graph mode, in which the variables that it tracks are initialized."""
    get_session = table.GET_SESSION.load()
    return None if get_session is None else get_session()


def serialize_as_keras_policy(cls: type) -> None:
    """Have files of Keras 3 name its own policy instead of a class of ours, so that it loads them without mpls.

    Layers need only the name of a policy that is loaded (Keras 3.6 to 3.15). tf_keras goes by the name of the class.
    """
    if loaded_keras() is not None:
        table.KERAS_NAMES.load({})[cls] = "keras.DTypePolicy"


def config_writers() -> set[str]:
    """Return the names of the functions of both Kerases that write an optimizer's config into a file, or a pickle."""
    return {"save_model", *_found(table.KERAS_3_JSON_WRITER), *h5_config_writers()}


def h5_config_writers() -> set[str]:
    """Return the names of those functions that write an optimizer's config into an H5 file."""
    return _found(table.TF_KERAS_H5_WRITER, table.KERAS_3_H5_WRITER)


def h5_variable_writers() -> set[str]:
    """Return the name of the function of Keras 3 that writes an optimizer's variables into an H5 file."""
    return _found(table.KERAS_3_H5_VARIABLES)


def _found(*functions: Private) -> set[str]:
    loaded = {"tf_keras": loaded_tf_keras(), "keras": loaded_keras()}
    return {row.name for row in functions if loaded[row.framework] is not None and row.load() is not None}


def unknown_variables(optimizer: Any, variables: list[Any]) -> list[Any]:
    """Return the variables that a Keras 3 optimizer was not built with; it refuses them when it applies gradients.

    Its own check raises a ValueError, whose text it cannot make inside of a function before Keras 3.13.
    """
    key_of, indices = table.KERAS_3_KEY.of(optimizer), table.INDICES.of(optimizer)
    if None in (key_of, indices):
        return []
    return [each for each in variables if key_of(each) not in indices]


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing; `fit` passes the epoch or batch and the logs in `_` and `__`."""


# Keras 3 (3.6 to 3.15) runs batches asynchronously on some backends, unless a callback has a hook for them.
_nothing._is_default = True  # type: ignore[attr-defined]


class CallbackOfAnyKeras:
    """A callback that does nothing: each Keras calls its methods, and does not check its class.

    So the class exists before a Keras is loaded, and one instance works in models of both.
    """

    # tf_keras (2.16 to 2.21) reads it: hooks take tensors, and no batch waits for the host only to have them read.
    _supports_tf_logs = True

    def __init__(self) -> None:
        self.params: Any = None
        self.model: Any = None

    def set_params(self, params: dict[str, Any]) -> None:
        """Keep the parameters of the call; `fit` calls it.

        Args:
            params: its arguments, by name.
        """
        self.params = params

    def set_model(self, model: Any) -> None:
        """Keep the model; `fit` calls it.

        Args:
            model: a model of tf_keras or of Keras 3.
        """
        self.model = model

    # tf_keras calls these three, and then only the hooks of those batches.

    def _implements_train_batch_hooks(self) -> bool:
        return True

    def _implements_test_batch_hooks(self) -> bool:
        return False

    def _implements_predict_batch_hooks(self) -> bool:
        return False

    on_batch_begin: Any = _nothing
    on_batch_end: Any = _nothing
    on_epoch_begin: Any = _nothing
    on_epoch_end: Any = _nothing
    on_train_begin: Any = _nothing
    on_train_end: Any = _nothing
    on_train_batch_begin: Any = _nothing
    on_train_batch_end: Any = _nothing
    on_test_begin: Any = _nothing
    on_test_end: Any = _nothing
    on_test_batch_begin: Any = _nothing
    on_test_batch_end: Any = _nothing
    on_predict_begin: Any = _nothing
    on_predict_end: Any = _nothing
    on_predict_batch_begin: Any = _nothing
    on_predict_batch_end: Any = _nothing


def callbacks_before(callback: Any) -> list[Any]:
    """Return the callbacks before one in the list of the running `fit`; to be called in a hook that `fit` calls.

    A callback is not told of the others. The list is an attribute of what calls the hook (tf_keras 2.16 to 2.21, Keras
    3.6 to 3.15). It is empty where that is not found.

    Args:
        callback: the one whose hook is called.
    """
    frame: Any = sys._getframe(1)
    while frame is not None:
        listed = getattr(frame.f_locals.get("self"), "callbacks", None)
        if isinstance(listed, list) and any(each is callback for each in listed):
            return listed[: [each is callback for each in listed].index(True)]
        frame = frame.f_back
    return []


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
