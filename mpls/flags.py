"""Flags that a block sets for its own thread: what it asks for, other threads do not get."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Flag"]


class Flag:
    """A flag that is false but in blocks that raise it, each of one thread or asynchronous task.

    Args:
        name: the name, for those who debug.
    """

    def __init__(self, name: str) -> None:
        self._value: ContextVar[bool] = ContextVar(name, default=False)

    @property
    def is_raised(self) -> bool:
        """Whether the caller is in such a block."""
        return self._value.get()

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Raise it for a block."""
        token = self._value.set(True)
        try:
            yield
        finally:
            self._value.reset(token)
