"""The class that an optimizer gets by its family, and what users' subclasses are instances of."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from mpls.core import releases
from mpls.errors import ArgumentTypeError, ArgumentValueError, error_text
from mpls.formats.record import Family
from mpls.keras.callers import is_called_by_keras, is_called_for_source
from mpls.upstream import keras_family_of, loaded_keras, loaded_tf_keras, native_keras_wrappers

_SUBJECT = "LossScaleOptimizer: inner_optimizer"

# The modules of this package with the adapter of each.
_MODULES: dict[str, str] = {"legacy": "mpls.keras.legacy", "new": "mpls.keras.new", "keras3": "mpls.keras.keras3"}


def is_keras_optimizer(optimizer: Any) -> bool:
    """Return whether the value is an optimizer of tf_keras, legacy or new, or of Keras 3."""
    return keras_family_of(optimizer) is not None


def family(name: Family) -> Any:
    """Return the adapter class of a family; its framework is imported."""
    return import_module(_MODULES[name]).Family


def family_of(optimizer: Any) -> Any:
    """Return the adapter class for an optimizer's family.

    Raises:
        TypeError: it is no Keras optimizer; up to TF 2.3 it was a ValueError.
    """
    name = keras_family_of(optimizer)
    if name is not None:
        return family(name)
    error = ArgumentValueError if releases.current().wrong_optimizers_are_value_errors else ArgumentTypeError
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


def class_for(cls: Any, family: Any) -> type:
    """Return the class of an instance of `cls` that wraps an optimizer of a family.

    It is `cls` itself, which gets the methods of the family of the first optimizer that it wraps: the bases of the
    family join those of the class, after them, so that `type(optimizer) is cls`. If that was one of another family, it
    is a subclass that has the bases of this family in their place.

    Args:
        cls: the class that was called.
        family: the adapter class.
    """
    public = public_class(cls)
    with _settling:
        if _FAMILY not in vars(public):
            _settle(public, family)
        if vars(public)[_FAMILY] is family:
            return public
        twins: dict[Any, type] = vars(public)[_TWINS]
        if family not in twins:
            twins[family] = _twin(public, family)
        return twins[family]


def public_class(cls: Any) -> type:
    """Return the class that users call for instances of this one: that of mpls, or their own."""
    return next(base for base in cls.__mro__ if not is_twin(base))


def is_twin(cls: type) -> bool:
    """Return whether a class stands for another, with the bases of another family."""
    return _IS_TWIN in vars(cls)


def family_of_class(cls: type) -> Any:
    """Return the adapter class of a class' own instances; None before the first."""
    return vars(cls).get(_FAMILY)


_FAMILY, _TWINS, _IS_TWIN = "_family_of_instances", "_twins", "_is_twin"
_settling = threading.Lock()
_set_class: Any = vars(object)["__class__"].__set__


def set_class(instance: Any, cls: type) -> None:
    """Have an object be an instance of another class."""
    if type(instance) is not cls:
        _set_class(instance, cls)


def _settle(cls: Any, family: Any) -> None:
    type.__setattr__(cls, _FAMILY, family)
    try:
        # The metaclass says in which order they come.
        cls.__bases__ = (*cls.__bases__, family)
    except TypeError:
        type.__delattr__(cls, _FAMILY)
        raise
    # Here, they live no longer than the class that they stand for.
    type.__setattr__(cls, _TWINS, {})


def _twin(cls: Any, family: Any) -> type:
    names = {"__module__": vars(cls)["__module__"], "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    twin: Any = type(cls)(cls.__name__, (cls,), {**names, _IS_TWIN: True})
    _settle(twin, family)
    return twin


def is_own(cls: Any) -> bool:
    """Return whether a class is one of mpls, or stands for one, and is no subclass of a user's."""
    return "_is_experimental" in vars(public_class(cls))


class ModuleName(str):
    """The `__module__` of classes that users find in a package, and that are defined in a module within.

    Some go by the name of a native one in what Keras writes: it looks for the module that its files and configs name,
    which must be there where mpls is not.

    Args:
        shown: the package.
        home: the module, where `inspect` looks for the source.
    """

    _home: str

    def __new__(cls, shown: str, home: str) -> ModuleName:
        """Make one."""
        name = super().__new__(cls, shown)
        name._home = home
        return name

    def __get__(self, instance: Any, owner: Any) -> str:
        """Return the name for whoever asks; Python asks here as the class has a metaclass of its own."""
        if is_called_for_source():
            return self._home
        family = family_of_class(owner)
        return family.native_module if family is not None and is_called_by_keras() else str(self)


def other_name(cls: Any, is_for_keras: bool) -> str | None:
    """Return the name of a class of mpls' own that stands in for its Python name; None if nothing does.

    Args:
        cls: any class of wrappers.
        is_for_keras: whether Keras asks, which finds by it what files say; others see the name that a release gave it.
    """
    if not is_own(cls):
        return None
    family = family_of_class(cls)
    native: str | None = None if family is None else family.serialized_name
    if is_for_keras:
        return native
    is_legacy = family is None or family.__module__ == _MODULES["legacy"]
    return releases.current().wrapper_name(cls._is_experimental, is_legacy) or native


# What `__name__` of any class is.
_NAME: Any = vars(type)["__name__"]


class LossScaleOptimizerMeta(type):
    """Lets the wrappers that a framework made by itself count as instances of `LossScaleOptimizer`.

    Classes have the bases of their instances' family after their own, and show the name that a release gave them, where
    files need another.
    """

    def mro(cls) -> list[type]:
        """Return the bases in order, those of the family last."""
        own, family = _own_bases(cls), family_of_class(cls)
        return own if family is None else _merged([own, family.__mro__])

    def __dir__(cls) -> list[str]:
        return [*{name for base in cls.__mro__ for name in vars(base)}]

    def _read_name(cls) -> str:
        # Code that compares it sees that of the release, and Keras what it can load.
        return other_name(cls, is_called_by_keras()) or str(_NAME.__get__(cls))

    def _write_name(cls, name: str) -> None:
        _NAME.__set__(cls, name)

    __name__ = property(_read_name, _write_name)

    def __instancecheck__(cls, instance: Any) -> bool:
        return cls.__subclasscheck__(type(instance))

    def __subclasscheck__(cls, subclass: type) -> bool:
        if type.__subclasscheck__(cls, subclass):
            return True
        return bool(vars(cls).get("_includes_native")) and issubclass(subclass, native_keras_wrappers())


def _own_bases(cls: type) -> list[type]:
    """Return a class and its bases in order, without those of families."""
    if not isinstance(cls, LossScaleOptimizerMeta):
        return [*cls.__mro__]
    named = [base for base in cls.__bases__ if base is not family_of_class(cls)]
    bases = _merged([*map(_own_bases, named), named])
    # `super(self.__class__, self)` in a method of the class that a twin stands for is to go on to what comes after it.
    return [bases[0], cls, *bases[1:]] if is_twin(cls) else [cls, *bases]


def _merged(orders: Sequence[Sequence[type]]) -> list[type]:
    """Return an order that keeps all orders, as Python chooses it.

    Raises:
        TypeError: there is none.
    """
    left, merged = [[*order] for order in orders if order], []
    while left:
        firsts = [order[0] for order in left]
        first = next((each for each in firsts if not any(each in order[1:] for order in left)), None)
        if first is None:
            names = ", ".join(f"{each.__module__}.{each.__qualname__}" for each in firsts)
            raise TypeError(f"no order of bases keeps that of each class: {names}. Put the mixin before the wrapper")
        merged.append(first)
        left = [rest for order in left if (rest := [each for each in order if each is not first])]
    return merged
