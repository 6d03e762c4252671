"""What `mpls run --report` prints."""

from __future__ import annotations

import os

from mpls.names import Name
from mpls.program.files import current_folder

__all__ = ["Report"]


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
        """Return the lines to print: for each line of the program its names, and what to write today."""
        if not self._touched:
            return ["mpls run: no historical name was read in this process"]
        lines = ["mpls run: the historical names that the program has read, and what to write today"]
        for (file, line, path), name in sorted(self._touched.items()):
            lines += [f"{file}:{line}  {path} ({name.releases})", f"    {name.today}"]
        return lines
