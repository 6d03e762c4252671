"""Attributes that a wrapper has from the optimizer that it wraps."""

from __future__ import annotations

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
