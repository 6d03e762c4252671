"""Finds the programs at a path: a script, a notebook, or all those in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from mpls.program.files import files
from mpls.program.notebooks import MAX_NOTEBOOK_BYTES, Notebook, notebook
from mpls.reading.programs import beside, script, scripts
from mpls.reading.sources import Program
from mpls.reading.uses import Where

__all__ = ["Found", "Unread", "found_at"]

_NOTEBOOK = ".ipynb"


class Unread(NamedTuple):
    """A path that could not be read.

    Attributes:
        path: its path.
        reason: why, as text that follows the path: "is not there".
    """

    path: str
    reason: str


class Found(NamedTuple):
    """A program.

    Attributes:
        program: its files.
        cells: the notebook that is its main file; None for a script.
    """

    program: Program
    cells: Notebook | None = None

    def place(self, where: Where) -> tuple[int | None, int]:
        """Return the cell that a line is in, None outside notebooks, and the line's number in it."""
        if self.cells is not None and where.file == self.program.sources[0].shown:
            return self.cells.place(where.line)
        return None, where.line


def found_at(path: str) -> Iterator[Found | Unread]:
    """Yield the programs at a path, and what could not be read there."""
    if not os.path.exists(path):
        yield Unread(path, "is not there")
    elif os.path.isdir(path):
        is_empty = True
        for each, program in scripts(path):
            is_empty = False
            yield _of_script(each, program)
        for each in sorted(files(path, _NOTEBOOK)):
            is_empty = False
            yield _of_notebook(each)
        if is_empty:
            yield Unread(path, "has no Python source in it")
    elif path.endswith(_NOTEBOOK):
        yield _of_notebook(path)
    else:
        yield _of_script(path, script(path))


def _of_script(path: str, program: Program) -> Found | Unread:
    if program.sources:
        return Found(program)
    reasons = [reason for _, reason in program.unread]
    return Unread(path, reasons[0] if reasons else "cannot be read")


def _of_notebook(path: str) -> Found | Unread:
    try:
        if not os.path.isfile(path):
            raise ValueError("is no file")
        with open(path, "rb") as file:
            content = file.read(MAX_NOTEBOOK_BYTES + 1)
        if len(content) > MAX_NOTEBOOK_BYTES:
            raise ValueError(f"is larger than {MAX_NOTEBOOK_BYTES} bytes")
        cells = notebook(content)
    except OSError as error:
        return Unread(path, f"cannot be read: {error.strerror}")
    except ValueError as error:
        return Unread(path, str(error))
    program = beside(path, cells.text)
    if not program.sources:
        return _of_script(path, program)
    shown = program.sources[0].shown
    program.unread.extend((f"{shown}:cell {cell}", reason) for cell, reason in cells.unread)
    return Found(program, cells)
