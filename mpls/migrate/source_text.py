"""The texts of programs and notebooks, which can be edited: what no edit touches is written back as it was."""

from __future__ import annotations

import ast
import io
import itertools
import json
import re
import tokenize
from bisect import bisect
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from mpls.program.files import BROKEN, parse, parser_message
from mpls.program.notebooks import notebook, sources_of

# The line ends of Python's tokenizer; `str.splitlines` knows more.
_LINE_END = re.compile(rb"\r\n|\r|\n")
# Notebooks.
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]|[^\s\[\]{},:"]+')
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$")


class UnreadableError(Exception):
    """A file cannot be read as Python; the message says why, to follow the file's name."""


class Edit(NamedTuple):
    """A replacement of the bytes from `start` to `end` of a text in UTF-8."""

    start: int
    end: int
    new: str


class Encoded:
    """The contents of a file, decoded as Python does.

    Attributes:
        text: the text, without a byte order mark, its line ends as they are.

    Raises:
        UnreadableError: the encoding is unknown, or the contents are not in it.
    """

    def __init__(self, content: bytes) -> None:
        try:
            self._encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
            self.text: str = content.decode(self._encoding)
        except (SyntaxError, UnicodeError, LookupError) as error:
            raise UnreadableError(f"cannot be decoded: {error}") from None
        if self.encode(self.text) != content:
            raise UnreadableError(f"cannot be written back in {self._encoding} as it was")

    def encode(self, text: str) -> bytes:
        """Return a text as the contents of the file."""
        return text.encode(self._encoding)


class SourceText:
    """A text that is parsed and edited.

    Args:
        text: Python code.
        shown: its name, for messages.

    Attributes:
        utf8: the text in UTF-8, in whose bytes edits count.
        tree: the syntax tree.
        unread: code beside it that is not read as Python, such as magics.

    Raises:
        UnreadableError: it is not Python 3.
    """

    def __init__(self, text: str) -> None:
        self.utf8: bytes = text.encode("utf-8", "surrogatepass")
        self.unread: str = ""
        try:
            self.tree: ast.Module = parse(text)
        except BROKEN as error:
            raise UnreadableError(parser_message(error)) from None
        lines = self.utf8.splitlines(keepends=True)
        self._starts = [0, *itertools.accumulate(map(len, lines if self.utf8.endswith((b"\n", b"\r")) else lines[:-1]))]

    @property
    def newline(self) -> str:
        """The line end of the first line."""
        match = _LINE_END.search(self.utf8)
        return match[0].decode() if match else "\n"

    def offset(self, line: int, column: int) -> int:
        """Return the offset in bytes of a place as the syntax tree gives it."""
        return self._starts[line - 1] + column

    def span(self, node: ast.expr | ast.stmt | ast.alias | ast.keyword) -> tuple[int, int]:
        """Return where a node starts and ends."""
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self.offset(node.lineno, node.col_offset), self.offset(end_line, end_column)

    def source(self, node: ast.expr) -> str:
        """Return the source of an expression."""
        start, end = self.span(node)
        return self.between(start, end)

    def comments(self, start: int, end: int) -> list[str]:
        """Return the comments in an expression between two offsets."""
        source = self.between(start, end)
        if "#" not in source:
            return []
        tokens = tokenize.generate_tokens(io.StringIO(f"({source})", newline=None).readline)
        return [token.string for token in tokens if token.type == tokenize.COMMENT]

    def between(self, start: int, end: int) -> str:
        """Return the text between two offsets."""
        return self.utf8[start:end].decode("utf-8", "surrogatepass")

    def line_of(self, offset: int) -> int:
        """Return the number of the line that has an offset, from 1."""
        return bisect(self._starts, offset)

    def line_span(self, line: int) -> tuple[int, int]:
        """Return where a line starts, and where its line end starts."""
        start = self._starts[line - 1]
        match = _LINE_END.search(self.utf8, start)
        return start, len(self.utf8) if match is None else match.start()

    def edited(self, edits: Iterable[Edit]) -> str:
        """Return the text with edits, which do not overlap; several insertions at one place stay in their order."""
        return self._edited(edits, 0, len(self.utf8))

    def _edited(self, edits: Iterable[Edit], start: int, end: int) -> str:
        """Return a part of the text with the edits in it."""
        parts, position = [], start
        for edit in sorted(set(edits), key=lambda each: (each.start, each.end)):
            assert edit.start >= position, f"edits overlap: {edit}"
            parts += [self.utf8[position : edit.start], edit.new.encode()]
            position = edit.end
        return b"".join([*parts, self.utf8[position:end]]).decode("utf-8", "surrogatepass")

    def check(self, edits: Iterable[Edit]) -> None:
        """Parse the statements that edits change, as small ones as have whole lines; or else the whole text.

        Raises:
            SyntaxError, ValueError, RecursionError, MemoryError: with the edits, the text is no Python.
        """
        changed: dict[tuple[int, int], list[Edit]] = {}
        for edit in edits:
            changed.setdefault(self._lines_around(edit), []).append(edit)
        try:
            parts = [self._edited(inner, *lines) for lines, inner in changed.items()]
            parse("\n".join(f"if 1:\n{each}" if each.startswith((" ", "\t")) else each for each in parts))
        except BROKEN:
            # Its message has the line of the whole.
            parse(self.edited(edits))

    def _lines_around(self, edit: Edit) -> tuple[int, int]:
        """Return where the lines of the innermost statement that an edit changes start and end."""
        start, end, inside = 0, len(self.utf8), self.tree.body
        while place := bisect(inside, edit.start, key=self._start_of_lines):
            node = inside[place - 1]
            _, end_of_lines = self.line_span(node.end_lineno or node.lineno)
            start, end, inside = self._start_of_lines(node), end_of_lines, _inside(node)
        return start, end

    def _start_of_lines(self, node: ast.stmt) -> int:
        decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        return self._starts[min([node.lineno, *(each.lineno for each in decorators)]) - 1]


def _inside(node: ast.stmt) -> list[ast.stmt]:
    """Return the statements in the blocks of a statement, in the order of the text."""
    blocks = [node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())]
    inner = [each for block in blocks for each in getattr(block, "body", ())]
    return [*inner, *getattr(node, "orelse", ()), *getattr(node, "finalbody", ())]


class _String(str):
    """A string of a JSON text, and where its quotes are."""

    start: int
    end: int


class NotebookText:
    """The code cells of a notebook.

    Args:
        content: the bytes of the file.

    Attributes:
        source: the code of all cells, with no-ops in place of magics.
        unread: the numbers of cells that are not Python, with the reasons.

    Raises:
        UnreadableError: it is not a notebook, or not one in Python.
    """

    def __init__(self, content: bytes) -> None:
        try:
            self._cells = notebook(content)
            self._bom = content[:3] if content.startswith(b"\xef\xbb\xbf") else b""
            self._json = content.decode("utf-8-sig")
            tokens = _TOKEN.finditer(self._json)
            whole = _value(next(tokens), tokens)
        except (ValueError, RecursionError) as error:
            raise UnreadableError(str(error)) from None
        self.source: SourceText = SourceText(self._cells.text)
        self.unread: tuple[tuple[int, str], ...] = self._cells.unread
        self._pieces: list[list[_String]] = sources_of(whole)
        # The lines of the original cells: magics are in them as they were.
        self._lines = [_LINE.findall("".join(pieces)) for pieces in self._pieces]
        self.source.unread = "".join(line for _, _, line in self.unread_lines())

    def place(self, line: int) -> tuple[int, int]:
        """Return the number of the code cell that a line of the source is in, and the line in it, both from 1."""
        return self._cells.place(line)

    def cell(self, number: int) -> str:
        """Return the source of a code cell, counted from 1."""
        return "".join(self._lines[number - 1])

    def unread_lines(self) -> Iterator[tuple[int, int, str]]:
        """Yield the lines that are not read as Python, such as magics, each with its cell and place in it, from 1.

        Cells that are no Python at all, although they should be, are left out.
        """
        lines = self._cells.text.split("\n")
        broken = {number for number, _ in self.unread}
        for number, start in enumerate(self._cells.starts, 1):
            for place, line in enumerate(self._lines[number - 1] if number not in broken else [], 1):
                if line.rstrip("\r\n") != lines[start + place - 2]:
                    yield number, place, line

    def edited(self, edits: Iterable[Edit]) -> tuple[bytes, dict[int, str]]:
        """Return the contents of the file with edits, and the new sources of the cells that they change."""
        of_cell: dict[int, list[tuple[int, int, str]]] = {}
        for edit in edits:
            number, start = self._in_cell(edit.start)
            end = self._in_cell(edit.end)[1] if edit.end > edit.start else start
            of_cell.setdefault(number, []).append((start, end, edit.new))
        parts, position, changed = [], 0, {}
        is_ascii = self._json.isascii()
        for number in sorted(of_cell):
            changed[number] = _replaced(self.cell(number), of_cell[number])
            pieces = self._pieces[number - 1]
            parts += [self._json[position : pieces[0].start], self._lines_of(changed[number], pieces, is_ascii)]
            position = pieces[-1].end
        return self._encoded("".join([*parts, self._json[position:]])), changed

    def _encoded(self, text: str) -> bytes:
        return self._bom + text.encode("utf-8", "surrogatepass")

    def _in_cell(self, offset: int) -> tuple[int, int]:
        """Return the number of the cell that an offset is in, and the offset in its source, in characters."""
        line = self.source.line_of(offset)
        number, within = self._cells.place(line)
        start, _ = self.source.line_span(line)
        column = len(self.source.between(start, offset))
        return number, sum(map(len, self._lines[number - 1][: within - 1])) + column

    def _lines_of(self, cell: str, pieces: list[_String], is_ascii: bool) -> str:
        """Return the source of a cell as JSON, its lines written as before if they were there before."""
        written = {str(piece): self._json[piece.start : piece.end] for piece in pieces}
        lines = (_LINE.findall(cell) or [""]) if self._is_list(pieces[0]) else [cell]
        encoded = [written.get(line) or json.dumps(line, ensure_ascii=is_ascii) for line in lines]
        return self._separator(pieces).join(encoded)

    def _is_list(self, piece: _String) -> bool:
        return self._json[: piece.start].rstrip().endswith(("[", ","))

    def _separator(self, pieces: list[_String]) -> str:
        """Return what is between the lines of a cell."""
        if len(pieces) > 1:
            return self._json[pieces[0].end : pieces[1].start]
        before = self._json[: pieces[0].start]
        space = before[len(before.rstrip()) :]
        return f",{space or ' '}"


def _replaced(text: str, edits: list[tuple[int, int, str]]) -> str:
    parts, position = [], 0
    for start, end, new in sorted(edits, key=lambda each: each[:2]):
        parts += [text[position:start], new]
        position = end
    return "".join([*parts, text[position:]])


def _value(token: re.Match[str], tokens: Iterator[re.Match[str]]) -> Any:
    """Return a value of a JSON text: strings with their places, None for numbers and the like.

    Args:
        token: its first token.
        tokens: those that follow; those of the value are taken away. The text is known to be valid.
    """
    if token[0] == "[":
        return [_value(each, tokens) for each in _until("]", tokens)]
    if token[0] == "{":
        inner = [_value(each, tokens) for each in _until("}", tokens)]
        return dict(zip(inner[::2], inner[1::2], strict=True))
    if token[0][0] != '"':
        return None
    found = _String(json.loads(token[0]))
    found.start, found.end = token.span()
    return found


def _until(end: str, tokens: Iterator[re.Match[str]]) -> Iterator[re.Match[str]]:
    within = itertools.takewhile(lambda token: token[0] != end, tokens)
    return (token for token in within if token[0] not in ",:")
