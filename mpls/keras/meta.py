"""The metaclass of wrappers: what counts as an instance, and what their classes are called."""

from __future__ import annotations

from typing import Any

from mpls.keras.callers import is_called_by_keras
from mpls.keras.families import shown_name
from mpls.upstream import native_keras_wrappers

# What `__name__` of any class is.
_NAME: Any = vars(type)["__name__"]


class LossScaleOptimizerMeta(type):
    """Lets the wrappers that a framework made by itself count as instances of `LossScaleOptimizer`.

    And has classes show the name that a release gave them, where files need another.
    """

    def _read_name(cls) -> str:
        # Code that compares it sees that of the release, and Keras what it can load.
        shown = shown_name(cls)
        return str(_NAME.__get__(cls)) if shown is None or is_called_by_keras() else shown

    def _write_name(cls, name: str) -> None:
        _NAME.__set__(cls, name)

    __name__ = property(_read_name, _write_name)

    def __instancecheck__(cls, instance: Any) -> bool:
        return cls.__subclasscheck__(type(instance))

    def __subclasscheck__(cls, subclass: type) -> bool:
        if type.__subclasscheck__(cls, subclass):
            return True
        return bool(vars(cls).get("_includes_native")) and issubclass(subclass, native_keras_wrappers())
