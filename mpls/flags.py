"""Flags that a `with` block sets for its own thread only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Flag"]


class Flag:
    """A flag that is true only in blocks that raise it, in their own thread or asynchronous task.

    Args:
        name: a name for debugging.
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
