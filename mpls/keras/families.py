"""Which family an optimizer belongs to, by its own bases."""

from __future__ import annotations

import threading
from importlib import import_module
from typing import Any

from mpls.core import dialect
from mpls.core.arrival import FAMILY_NAMES
from mpls.core.dialect import Dialect
from mpls.errors import ArgumentTypeError, ArgumentValueError, error_text
from mpls.keras.callers import is_called_by_keras
from mpls.upstream import loaded_keras, loaded_tf_keras

_SUBJECT = "LossScaleOptimizer: inner_optimizer"

LEGACY, NEW, KERAS_3 = "mpls.keras.legacy", "mpls.keras.new", "mpls.keras.keras3"


def is_keras_optimizer(optimizer: Any) -> bool:
    """Return whether the value is an optimizer of tf_keras, legacy or new, or of Keras 3."""
    return _family_module(optimizer) is not None


def _family_module(optimizer: Any) -> str | None:
    # Without its framework loaded, there can be no instance of a class.
    tf_keras, keras = loaded_tf_keras(), loaded_keras()
    if tf_keras is not None and isinstance(optimizer, tf_keras.optimizers.legacy.Optimizer):
        return LEGACY
    if tf_keras is not None and isinstance(optimizer, tf_keras.optimizers.Optimizer):
        return NEW
    if keras is not None and isinstance(optimizer, keras.optimizers.Optimizer):
        return KERAS_3
    return None


def family(module: str) -> Any:
    """Return the adapter class that a module of this package defines; its framework is imported."""
    return import_module(module).Family


def family_of(optimizer: Any) -> Any:
    """Return the adapter class for an optimizer's family.

    Raises:
        TypeError: it is no Keras optimizer; up to TF 2.3 it was a ValueError.
    """
    module = _family_module(optimizer)
    if module is not None:
        return family(module)
    error = ArgumentValueError if dialect.current().wrong_optimizers_are_value_errors else ArgumentTypeError
    raise error(
        error_text(
            _SUBJECT,
            "be an optimizer of tf_keras or of Keras 3",
            optimizer,
            "LossScaleOptimizer(tf_keras.optimizers.Adam()); tf.compat.v1.train optimizers are for "
            "mpls.v1.MixedPrecisionLossScaleOptimizer",
            "optimizer-arguments",
        )
    )


def registered_class(name: str) -> Any:
    """Return the class that the user has registered with Keras under a name, in either of the two; or None."""
    for module in (loaded_tf_keras(), loaded_keras()):
        found = None if module is None else module.saving.get_registered_object(name)
        if found is not None:
            return found
    return None


_OWN_MODULES = ("mpls.keras", "mpls.experimental")


def concrete_class(cls: Any, family: Any, spoken: Dialect, optimizer: Any) -> type:
    """Return the class of instances of `cls` that wrap optimizers of a family.

    Users' subclasses keep their name. Those of mpls have the one of the family's native wrapper, since files that hold
    the optimizer say by it what to load; but show the one of the release.

    Args:
        cls: the class that was called.
        family: the adapter class.
        spoken: the dialect that the instance is made in.
        optimizer: the optimizer, for the error.

    Raises:
        TypeError: `cls` is the class of instances of another family.
    """
    if issubclass(cls, family):
        return cls
    if hasattr(cls, "serialized_name"):
        public = public_class(cls)
        raise ArgumentTypeError(
            error_text(
                _SUBJECT,
                f"be {FAMILY_NAMES[cls._restored_family]}, since the class of such wrappers was called",
                optimizer,
                f"Call the public class, {public.__module__}.{public.__qualname__}, in its place",
                "optimizer-arguments",
            )
        )
    if cls.__module__ not in _OWN_MODULES:
        return _mixed(cls, family, cls.__name__, cls.__module__)
    shown = spoken.wrapper_name(cls._is_experimental, family.__module__ == LEGACY)
    module = family.serialized_module or ModuleName(cls.__module__, family.native_module)
    return _mixed(cls, family, family.serialized_name, module, shown)


def public_class(cls: Any) -> type:
    """Return the class that users call for instances of this one: that of mpls, or their own."""
    return next(base for base in cls.__mro__ if "_shown_name" not in vars(base))


class ModuleName(str):
    """The `__module__` of a class that goes by the name of a native one in what tf_keras writes.

    tf_keras looks for the module that its files and configs name, which must be there where mpls is not.

    Args:
        shown: what everybody else sees.
        native: the module of the native class.
    """

    native: str

    def __new__(cls, shown: str, native: str) -> ModuleName:
        """Return the name that is shown, which knows the other."""
        name = super().__new__(cls, shown)
        name.native = native
        return name

    def __get__(self, instance: Any, owner: type | None = None) -> str:
        """Return the name for whoever asks; Python asks here as the class has a metaclass of its own."""
        return self.native if is_called_by_keras() else str(self)


_MIXED = "_classes_of_instances"
_mixing = threading.Lock()


def _mixed(cls: type, family: Any, name: str, module: str, shown: str | None = None) -> type:
    # The class holds those of its instances, so that they live no longer than it does.
    with _mixing:
        known: dict[Any, type] | None = vars(cls).get(_MIXED)
        if known is None:
            known = {}
            type.__setattr__(cls, _MIXED, known)
        key = family, shown
        if key not in known:
            namespace = {"__module__": module, "__qualname__": name, "__doc__": cls.__doc__, "_shown_name": shown}
            known[key] = type(family)(name, (cls, family), namespace)
        return known[key]


def shown_name(cls: Any) -> str | None:
    """Return the name under which a release had a class of wrappers, if it is another than its own; or None."""
    if "_shown_name" in vars(cls):
        shown: str | None = vars(cls)["_shown_name"]
        return shown
    # The public classes have instances of every dialect.
    is_public = "_is_experimental" in vars(cls)
    return dialect.current().wrapper_name(cls._is_experimental) if is_public else None
