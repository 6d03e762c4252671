"""How TensorFlow makes modules: lazily, or wrapped, and `tf.keras` by the environment. Imports none of it."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from mpls.upstream import table

# The variable of the environment by which TensorFlow 2.16 to 2.21 chooses what `tf.keras` is.
KERAS_VARIABLE = "TF_USE_LEGACY_KERAS"
# The modules whose functions run when an attribute of such a module is read (TensorFlow 2.16 to 2.21).
MAKERS = ("tensorflow.python.util.lazy_loader", "tensorflow.python.util.module_wrapper")
_LAZY, _WRAPPER = MAKERS
_set_class: Any = vars(object)["__class__"].__set__


def is_keras_2(value: str | None) -> bool:
    """Return whether a value of the variable makes `tf.keras` tf_keras."""
    return value in ("true", "True", "1")


def _is_made_by(cls: type, maker: str) -> bool:
    return any(base.__module__ == maker for base in cls.__mro__)


def is_lazily_loaded(module: ModuleType) -> bool | None:
    """Return whether a lazily loaded module is not loaded yet; None for any other module."""
    if not _is_made_by(type(module), _LAZY):
        return None
    # Bypass `__getattr__`, which would load it.
    is_loaded = vars(module).get(table.IS_LOADED.name)
    if is_loaded is None:
        table.IS_LOADED.warn_that_it_is_gone()
    return not is_loaded


def inner_module(module: ModuleType) -> ModuleType:
    """Return the module inside of one of TensorFlow's module wrappers; other modules as they are."""
    if not _is_made_by(type(module), _WRAPPER):
        return module
    inner: ModuleType | None = vars(module).get(table.INNER_MODULE.name)
    if inner is None:
        table.INNER_MODULE.warn_that_it_is_gone()
    return inner or module


def is_wrapped(cls: type[Any]) -> bool:
    """Return whether a class is TensorFlow's module wrapper, which caches attributes."""
    if not _is_made_by(cls, _WRAPPER):
        return False
    return None not in [each.of(cls) for each in (table.KEEP, table.DROP, table.KEEPS)]


def set_class(instance: Any, cls: type) -> None:
    """Change the class of an object, without its `__setattr__`, which TensorFlow's module wrappers and Keras define."""
    if type(instance) is not cls:
        _set_class(instance, cls)
