"""Extracts the Python code of a notebook: its code cells in order, with line numbers kept."""

from __future__ import annotations

import json
import re
from bisect import bisect
from dataclasses import dataclass
from typing import Any

from mpls.errors import printable
from mpls.program.files import BROKEN, parse, parser_message

# Large, since notebooks contain the images that their cells have shown.
MAX_NOTEBOOK_BYTES = 100_000_000

_MAGIC = re.compile(r"(\s*)(?:%{1,2}[A-Za-z]|!|\?|[\w.]+\?{1,2}\s*$)")
_ASSIGNED = re.compile(r"(\s*[\w., ]+=\s*)(?:%[A-Za-z]|!)")
# Cell magics that run the rest of the cell as Python.
_AROUND_PYTHON = re.compile(r"%%(?:time|timeit|capture|prun)\b")


@dataclass(frozen=True)
class Notebook:
    """The code of a notebook.

    Attributes:
        text: the code cells, with no-ops in place of shell commands and magics.
        starts: the line of the text on which each code cell starts.
        unread: the numbers of cells that are still not Python, with the reasons; the text has blank lines for them.
    """

    text: str
    starts: tuple[int, ...]
    unread: tuple[tuple[int, str], ...]

    def place(self, line: int) -> tuple[int, int]:
        """Return the number of the code cell that a line of the text is in, and its line in that cell, both from 1."""
        cell = bisect(self.starts, line)
        return cell, line - self.starts[cell - 1] + 1


def notebook(content: bytes) -> Notebook:
    """Read a notebook, of any version of the format.

    Args:
        content: the bytes of the file.

    Raises:
        ValueError: it is not a notebook, or not one in Python; the message says why.
    """
    try:
        whole = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError, MemoryError):
        raise ValueError("is not a notebook: it is not JSON") from None
    cells = ["".join(lines).replace("\r\n", "\n").replace("\r", "\n") for lines in sources_of(whole)]
    language = _language_of(whole)
    if not re.match(r"i?python", language, re.IGNORECASE):
        raise ValueError(f"is a notebook in {printable(language)}")
    texts, starts, unread, line = [], [], [], 1
    for number, cell in enumerate(cells, 1):
        text, reason = _python(cell)
        if reason is not None:
            unread.append((number, reason))
        texts.append(text)
        starts.append(line)
        line += text.count("\n") + 1
    return Notebook("\n".join(texts), tuple(starts), tuple(unread))


def sources_of(whole: Any) -> list[list[Any]]:
    """Return the strings of the source of each code cell.

    Args:
        whole: the JSON of the notebook.

    Raises:
        ValueError: it is no notebook.
    """
    # Up to version 3 of the format, cells were in worksheets, and their source was called `input`.
    sheets = whole.get("worksheets", [whole]) if isinstance(whole, dict) else None
    cells: list[list[Any]] = []
    for sheet in sheets if isinstance(sheets, list) else [None]:
        of_sheet = sheet.get("cells") if isinstance(sheet, dict) else None
        if not isinstance(of_sheet, list):
            raise ValueError("is not a notebook: it has no cells")
        for cell in of_sheet:
            if isinstance(cell, dict) and cell.get("cell_type") == "code":
                source = cell.get("source", cell.get("input", ""))
                lines = source if isinstance(source, list) else [source]
                cells.append([line for line in lines if isinstance(line, str)])
    return cells


def _language_of(whole: dict[str, Any]) -> str:
    metadata = whole.get("metadata")
    for key, name in (("language_info", "name"), ("kernelspec", "language")):
        described = metadata.get(key) if isinstance(metadata, dict) else None
        language = described.get(name) if isinstance(described, dict) else None
        if isinstance(language, str) and language:
            return language
    return "python"


def _python(cell: str) -> tuple[str, str | None]:
    """Return a cell as Python with the same number of lines, and None; blank lines and the reason if it is not Python.

    Cells that a cell magic hands to something else than Python become blank lines without a reason.
    """
    if _why_broken(cell) is None:
        return cell, None
    nothing = "\n" * cell.count("\n")
    first = next((line for line in cell.split("\n") if line.strip() and not line.startswith("#")), "")
    if first.startswith("%%") and not _AROUND_PYTHON.match(first):
        return nothing, None
    text = _without_magics(cell)
    reason = _why_broken(text)
    return (text, None) if reason is None else (nothing, reason)


def _why_broken(text: str) -> str | None:
    try:
        parse(text)
    except BROKEN as error:
        return parser_message(error)
    return None


def _without_magics(cell: str) -> str:
    lines, goes_on = [], False
    for line in cell.split("\n"):
        magic, assigned = _MAGIC.match(line), _ASSIGNED.match(line)
        is_magic = goes_on or magic is not None or assigned is not None
        if goes_on:
            lines.append("")
        elif magic is not None:
            lines.append(f"{magic[1]}pass")
        elif assigned is not None:
            lines.append(f"{assigned[1]}None")
        else:
            lines.append(line)
        goes_on = is_magic and line.endswith("\\")
    return "\n".join(lines)
