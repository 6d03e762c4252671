"""What `mpls run --report` prints, and tables for the terminal."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from mpls.names import Name

__all__ = ["HISTORICAL_NAMES", "Report", "columns"]

# The header of tables of historical names.
HISTORICAL_NAMES = ("where", "historical name", "releases", "today")


class Report:
    """The historical names that a program has read, each with the lines that read it."""

    def __init__(self) -> None:
        self._touched: dict[tuple[str, int, str], Name] = {}
        self._here = os.path.join(os.getcwd(), "")

    def note(self, name: Name, where: tuple[str, int]) -> None:
        """Note that a line of the program has read a name."""
        file, line = where
        self._touched[file.removeprefix(self._here), line, name.path] = name

    def lines(self) -> list[str]:
        """Return the lines of the table, which has a row for each name and line of the program."""
        if not self._touched:
            return ["mpls run: no historical name was read"]
        rows = [
            (f"{file}:{line}", path, name.releases, name.replacement)
            for (file, line, path), name in sorted(self._touched.items())
        ]
        return columns(HISTORICAL_NAMES, rows)


def columns(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table, its columns two spaces apart."""
    lines = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in lines]
