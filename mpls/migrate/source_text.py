"""The text of a source file as bytes that can be edited: what no edit touches is written back as it was."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from bisect import bisect
from collections.abc import Iterable
from typing import NamedTuple

from mpls.program.files import BROKEN, parse

__all__ = ["Edit", "Encoded", "SourceText", "UnreadableError"]

# The line ends of Python's tokenizer; `str.splitlines` knows more.
_LINE_END = re.compile(rb"\r\n|\r|\n")


class UnreadableError(Exception):
    """A file cannot be read as Python; the message says why, to follow the file's name."""


class Edit(NamedTuple):
    """A replacement of the bytes from `start` to `end` of a text in UTF-8."""

    start: int
    end: int
    new: str


class Encoded:
    """The contents of a file, decoded as Python does.

    Args:
        content: the bytes.

    Attributes:
        text: the text, without a byte order mark, its line ends as they are.

    Raises:
        UnreadableError: the encoding is unknown, or the contents are not in it.
    """

    def __init__(self, content: bytes) -> None:
        try:
            self._encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
            self.text = content.decode(self._encoding)
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

    Raises:
        UnreadableError: it is no Python 3.
    """

    def __init__(self, text: str) -> None:
        self.utf8 = text.encode("utf-8", "surrogatepass")
        try:
            self.tree = parse(text)
        except BROKEN as error:
            raise UnreadableError(f"is no Python 3: {error}") from None
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(self.utf8))]

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

    def has_comments(self, start: int, end: int) -> bool:
        """Return whether there are comments in an expression between two offsets."""
        return bool(self.comments(start, end))

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
        parts, position = [], 0
        for edit in sorted(set(edits), key=lambda each: (each.start, each.end)):
            assert edit.start >= position, f"edits overlap: {edit}"
            parts += [self.utf8[position : edit.start], edit.new.encode()]
            position = edit.end
        return b"".join([*parts, self.utf8[position:]]).decode("utf-8", "surrogatepass")
