"""Attributes that a wrapper has from the optimizer that it wraps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def delegated(name: str, doc: str) -> Any:
    """Return a property that reads and sets an attribute of the wrapped optimizer.

    Args:
        name: the attribute's name there.
        doc: the property's docstring.
    """

    def read(wrapper: Any) -> Any:
        return getattr(wrapper._optimizer, name)

    def write(wrapper: Any, value: Any) -> None:
        setattr(wrapper._optimizer, name, value)

    return property(read, write, doc=doc)


class CallableList(list[Any]):
    """A list of variables that can be called, as optimizers of Keras 2 had a method where Keras 3 has a property.

    Args:
        variables: the elements.
        called: what a call returns.
    """

    def __init__(self, variables: Iterable[Any], called: list[Any]) -> None:
        super().__init__(variables)
        self._called = called

    def __call__(self) -> list[Any]:
        """Return the list of Keras 2."""
        return self._called
