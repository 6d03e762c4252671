"""`mpls run --report`: the historical names that a program has read."""

from __future__ import annotations

import os

from mpls.columns import columns
from mpls.names import Name

__all__ = ["Report"]

_HEADER = ("where", "historical name", "releases", "today")


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
        return columns(_HEADER, rows)
