"""What `mpls run --report` prints; progress bars for the terminal."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO, TypeVar

from mpls.names import Name
from mpls.program.files import current_folder

__all__ = ["Report", "with_progress"]

_HEADER = ("where", "historical name", "releases", "today")
_T = TypeVar("_T")
_WIDTH = 30
_SECONDS = 0.1


class Report:
    """The historical names that a program has read, each with the lines that read it."""

    def __init__(self) -> None:
        self._touched: dict[tuple[str, int, str], Name] = {}
        self._here = os.path.join(current_folder(), "")

    def note(self, name: Name, where: tuple[str, int]) -> None:
        """Note that a line of the program has read a name."""
        file, line = where
        self._touched[file.removeprefix(self._here), line, name.path] = name

    def lines(self) -> list[str]:
        """Return the lines of the table, which has a row for each name and line of the program."""
        if not self._touched:
            return ["mpls run: no historical name was read"]
        rows = [
            (f"{file}:{line}", path, name.releases, name.today)
            for (file, line, path), name in sorted(self._touched.items())
        ]
        return _columns(_HEADER, rows)


def _columns(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table, its columns two spaces apart."""
    lines = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in lines]


def with_progress(items: Iterable[_T], number: int, stream: TextIO, *, few: int) -> Iterator[_T]:
    """Yield items, and show on a terminal how many of them are done.

    Args:
        items: what is done.
        number: how many there are.
        stream: where the bar is shown, if it is a terminal.
        few: fewer are done before one could read it.
    """
    if number < few or not stream.isatty():
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
