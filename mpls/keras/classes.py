"""Classes of wrappers: their bases, to which the adapter class of a family is added, and their names."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mpls.core import releases
from mpls.errors import ArgumentTypeError
from mpls.keras.caller import who_calls
from mpls.upstream.keras_packages import native_keras_wrappers


def class_for(cls: Any, adapter: Any) -> type:
    """Return the class for an instance of `cls` that wraps an optimizer of a family.

    It is `cls` itself: the adapter class for the first optimizer that it wraps becomes its last base, so that
    `type(optimizer) is cls`. If that was an optimizer of another family, it is a subclass with this adapter class in
    place of the other one.

    Args:
        cls: the class that was called.
        adapter: the adapter class of the family.
    """
    public = public_class(cls)
    with _settling:
        if _ADAPTER not in vars(public):
            _settle(public, adapter)
        if vars(public)[_ADAPTER] is adapter:
            return public
        twins: dict[Any, type] = vars(public)[_TWINS]
        if adapter not in twins:
            twins[adapter] = _twin(public, adapter)
        return twins[adapter]


def public_class(cls: Any) -> type:
    """Return the class that users call to create instances of this one: that of mpls, or their own."""
    return next(base for base in cls.__mro__ if not is_twin(base))


def is_twin(cls: type) -> bool:
    """Return whether a class is a twin: a subclass that replaces another class, with another adapter class."""
    return _IS_TWIN in vars(cls)


def adapter_of_class(cls: type) -> Any:
    """Return the adapter class of a wrapper class; None before its first instance."""
    return vars(cls).get(_ADAPTER)


_ADAPTER, _TWINS, _IS_TWIN = "_adapter_of_instances", "_twins", "_is_twin"


_settling = threading.Lock()


def _settle(cls: Any, adapter: Any) -> None:
    type.__setattr__(cls, _ADAPTER, adapter)
    try:
        # The metaclass computes the method resolution order.
        cls.__bases__ = (*cls.__bases__, adapter)
    except TypeError:
        type.__delattr__(cls, _ADAPTER)
        raise
    # Stored on the class, so that twins are freed together with it.
    type.__setattr__(cls, _TWINS, {})


def _twin(cls: Any, adapter: Any) -> type:
    names = {"__module__": vars(cls)["__module__"], "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    twin: Any = type(cls)(cls.__name__, (cls,), {**names, _IS_TWIN: True})
    _settle(twin, adapter)
    return twin


def is_own(cls: Any) -> bool:
    """Return whether a class is one of mpls, or a twin of one, and not a user's subclass."""
    return "_is_experimental" in vars(public_class(cls))


class ModuleName(str):
    """The `__module__` of classes that are defined in a private module and exported by a package.

    To Keras, some of them show the module of a native class. Keras writes it into files and configs, and imports it
    from there also where mpls is not installed.

    Args:
        shown: the package.
        home: the module, where `inspect` looks for the source.
    """

    _home: str

    def __new__(cls, shown: str, home: str) -> ModuleName:
        """Create the string."""
        name = super().__new__(cls, shown)
        name._home = home
        return name

    def __get__(self, instance: Any, owner: Any) -> str:
        """Return the name for the caller; Python calls this because the metaclass is not `type`."""
        caller = who_calls()
        if caller.is_inspect:
            return self._home
        adapter = adapter_of_class(owner)
        return adapter.native_module if adapter is not None and caller.is_keras else str(self)


def other_name(cls: Any, is_for_keras: bool) -> str | None:
    """Return the name that a class of mpls shows instead of its Python name; None if it shows its Python name.

    Args:
        cls: any class of wrappers.
        is_for_keras: whether Keras asks, which writes the name into files; others see the name that a release gave it.
    """
    if not is_own(cls):
        return None
    adapter = adapter_of_class(cls)
    native: str | None = None if adapter is None else adapter.serialized_name
    if is_for_keras:
        return native
    is_legacy = adapter is None or adapter._restored_family == "legacy"
    return releases.current().wrapper_name(cls._is_experimental, is_legacy) or native


# The descriptor behind `__name__` of every class.
_NAME: Any = vars(type)["__name__"]


_IS_CONSTRUCTED = "_is_being_constructed"


def is_being_constructed(wrapper: Any) -> bool:
    """Return whether the constructor of a wrapper is running."""
    return _IS_CONSTRUCTED in vars(wrapper)


class _ConstructorsSignature:
    """The signature of a class that tools show: that of its constructor, and not of the `__call__` of its metaclass."""

    def __get__(self, cls: Any, owner: Any) -> inspect.Signature:
        if cls is None:
            raise AttributeError("__signature__")
        signature = inspect.signature(cls.__init__)
        return signature.replace(parameters=[*signature.parameters.values()][1:])


class LossScaleOptimizerMeta(type):
    """Makes the frameworks' own wrappers instances of `LossScaleOptimizer`.

    Classes have the adapter class of their instances after their own bases. They show the name that a release gave
    them, and another one to Keras.
    """

    def mro(cls) -> list[type]:
        """Return the method resolution order, with the adapter class and its bases last."""
        own, adapter = _own_bases(cls), adapter_of_class(cls)
        return own if adapter is None else _merged([own, adapter.__mro__])

    __signature__ = _ConstructorsSignature()

    # Pyright would check calls of the classes against this one, and not against their constructors.
    if not TYPE_CHECKING:

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            """Create an instance, and mark it while its constructor runs."""
            instance: Any = cls.__new__(cls, *args, **kwargs)
            if type.__subclasscheck__(cls, type(instance)):
                vars(instance)[_IS_CONSTRUCTED] = True
                try:
                    type(instance).__init__(instance, *args, **kwargs)
                finally:
                    vars(instance).pop(_IS_CONSTRUCTED, None)
            return instance

    def __dir__(cls) -> list[str]:
        return [*{name for base in cls.__mro__ for name in vars(base)}]

    def _read_name(cls) -> str:
        # Users get the name that the release had; Keras gets the name that its loader knows.
        return other_name(cls, who_calls().is_keras) or str(_NAME.__get__(cls))

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
    """Return the method resolution order of a class without adapter classes."""
    if not isinstance(cls, LossScaleOptimizerMeta):
        return [*cls.__mro__]
    named = [base for base in cls.__bases__ if base is not adapter_of_class(cls)]
    bases = _merged([*map(_own_bases, named), named])
    # `super(self.__class__, self)`, in a method of the class that a twin stands for, must continue after that class.
    return [bases[0], cls, *bases[1:]] if is_twin(cls) else [cls, *bases]


def _merged(orders: Sequence[Sequence[type]]) -> list[type]:
    """Merge method resolution orders as Python does.

    Raises:
        TypeError: there is none.
    """
    left, merged = [[*order] for order in orders if order], []
    while left:
        firsts = [order[0] for order in left]
        first = next((each for each in firsts if not any(each in order[1:] for order in left)), None)
        if first is None:
            names = ", ".join(f"{each.__module__}.{each.__qualname__}" for each in firsts)
            raise ArgumentTypeError(
                f"no order of bases keeps that of each class: {names}. Put the mixin before the wrapper"
            )
        merged.append(first)
        left = [rest for order in left if (rest := [each for each in order if each is not first])]
    return merged
