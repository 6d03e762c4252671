"""Progress bars, on terminals only, and lines of a limited width."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterable, Iterator
from typing import TextIO, TypeVar

__all__ = ["with_progress", "wrapped"]

_T = TypeVar("_T")
_WIDTH = 30
_SECONDS = 0.1
_WIDTH_OF_LINES = 100


def with_progress(
    items: Iterable[_T], number: int, stream: TextIO | None, *, few: int = 2, after: float = 0.0
) -> Iterator[_T]:
    """Yield items, and show on a terminal how many of them are done.

    Args:
        items: what is done.
        number: how many there are.
        stream: where the bar is shown, if it is a terminal; None for nowhere.
        few: fewer are done before one could read it.
        after: seconds until it is shown.
    """
    if number < few or stream is None or not stream.isatty():
        yield from items
        return
    is_shown, last = False, time.monotonic() + after - _SECONDS
    try:
        for done, item in enumerate(items, 1):
            yield item
            if time.monotonic() - last > _SECONDS:
                is_shown, last = True, time.monotonic()
                filled = _WIDTH * done // number
                print(f"\r[{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{number}", end="", file=stream, flush=True)
    finally:
        if is_shown:
            # Erase the line.
            print("\r\x1b[K", end="", file=stream, flush=True)


def wrapped(text: str, indent: int = 0, more: int = 4) -> list[str]:
    """Return the lines of a text, of at most 100 columns, with an indentation; those after the first get some more."""
    rest = " " * (indent + more)
    wrapper = textwrap.TextWrapper(_WIDTH_OF_LINES, " " * indent, rest, break_long_words=False, break_on_hyphens=False)
    return wrapper.wrap(text)
