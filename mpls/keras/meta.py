"""The metaclass of wrappers: what counts as an instance, their bases, and what their classes are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpls.keras.callers import is_called_by_keras
from mpls.keras.families import family_of_class, is_twin, other_name
from mpls.upstream import native_keras_wrappers

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
