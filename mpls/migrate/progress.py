"""A progress bar on a terminal, for many files."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TextIO, TypeVar

__all__ = ["with_progress"]

_T = TypeVar("_T")
# Fewer are done before one could read it.
_FEW = 200
_WIDTH = 30
_SECONDS = 0.1


def with_progress(items: Iterable[_T], number: int, stream: TextIO) -> Iterator[_T]:
    """Yield items, and show on a terminal how many of them are done."""
    if number < _FEW or not stream.isatty():
        yield from items
        return
    shown = 0.0
    for done, item in enumerate(items, 1):
        yield item
        if time.monotonic() - shown > _SECONDS:
            shown = time.monotonic()
            filled = _WIDTH * done // number
            print(f"\r[{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{number}", end="", file=stream, flush=True)
    # Erase the line.
    print("\r\x1b[K", end="", file=stream, flush=True)
