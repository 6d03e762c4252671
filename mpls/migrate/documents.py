"""Rewrites one file, a program or a notebook, in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from mpls.errors import printable
from mpls.migrate.notebook_text import NotebookText
from mpls.migrate.reader import MAX_BYTES, Reader
from mpls.migrate.rewriting import Rewritten, rewritten
from mpls.migrate.rules import names_in_strings
from mpls.migrate.ruling import Finding, Kind
from mpls.migrate.source_text import Encoded, SourceText, UnreadableError
from mpls.program.notebooks import MAX_NOTEBOOK_BYTES

__all__ = ["Message", "Part", "Result", "migrate_content", "migrate_file"]

_NOTEBOOK = ".ipynb"


@dataclass(frozen=True)
class Message:
    """What was done or is left at a place.

    Attributes:
        cell: the number of the code cell, from 1; None outside notebooks.
        line: the number of the line, in the cell if there is one, from 1.
        rule: the rule that says so.
        text: the message.
        kind: whether it was done, is only to be known, or is left to the user.
    """

    cell: int | None
    line: int
    rule: str
    text: str
    kind: Kind


@dataclass(frozen=True)
class Part:
    """A changed text, for a diff: a file, or a cell of a notebook."""

    shown: str
    before: str
    after: str


@dataclass(frozen=True)
class Result:
    """What became of a file.

    Attributes:
        path: the path, as it was given.
        before: its contents, if they change.
        after: its new contents; None if they stay.
        parts: what changes, as text.
        messages: what was done and what is left, in the order of the file.
        unread: why it, or a cell of it, could not be read.
    """

    path: str
    before: bytes = b""
    after: bytes | None = None
    parts: tuple[Part, ...] = ()
    messages: tuple[Message, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        """Whether it changes."""
        return self.after is not None


def migrate_file(path: str, reader: Reader) -> Result:
    """Return what becomes of a file; nothing is written.

    Args:
        path: a Python file, or a notebook.
        reader: reads it, and the modules that it imports.
    """
    limit = MAX_NOTEBOOK_BYTES if path.endswith(_NOTEBOOK) else MAX_BYTES
    try:
        if not os.path.isfile(path):
            return Result(path, unread=("is no file",))
        with open(path, "rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        return Result(path, unread=(f"cannot be read: {error.strerror}",))
    if len(content) > limit:
        return Result(path, unread=(f"is larger than {limit} bytes",)) if reader.concerns(content) else Result(path)
    return migrate_content(content, path, reader)


def migrate_content(content: bytes, path: str, reader: Reader, *, has_folder: bool = True) -> Result:
    """Return what becomes of the contents of a file.

    Args:
        content: the bytes.
        path: where they are from; if it ends in `.ipynb`, they are a notebook.
        reader: reads the modules that it imports.
        has_folder: whether there are modules beside it.
    """
    if not reader.concerns(content):
        return Result(path)
    try:
        file = path if has_folder else None
        if path.endswith(_NOTEBOOK):
            return _notebook(content, path, reader, file)
        return _program(content, path, reader, file)
    except UnreadableError as error:
        return Result(path, unread=(printable(str(error)),))
    except RecursionError:
        return Result(path, unread=("is nested too deeply to be read to the end",))


def _rewritten(reader: Reader, text: SourceText, file: str | None) -> Rewritten:
    analysis = reader.analyse(text, file)
    try:
        return rewritten(analysis)
    finally:
        analysis.forget()


def _program(content: bytes, path: str, reader: Reader, file: str | None) -> Result:
    encoded = Encoded(content)
    text = SourceText(encoded.text)
    new = _rewritten(reader, text, file)
    messages = _messages(new.findings, lambda offset: (None, text.line_of(offset)))
    after = text.edited(new.edits)
    if after == encoded.text:
        return Result(path, messages=messages)
    return Result(path, content, encoded.encode(after), (Part(path, encoded.text, after),), messages)


def _notebook(content: bytes, path: str, reader: Reader, file: str | None) -> Result:
    text = NotebookText(content)
    new = _rewritten(reader, text.source, file)
    unread = tuple(f"cell {number} {reason}" for number, reason in text.unread)
    messages = (*_messages(new.findings, text.place), *_of_unread_lines(text, reader))
    messages = tuple(sorted(messages, key=lambda each: (each.cell or 0, each.line)))
    after, changed = text.edited(new.edits)
    if not changed:
        return Result(path, messages=messages, unread=unread)
    parts = tuple(Part(f"{path}:cell {number}", text.cell(number), cell) for number, cell in changed.items())
    return Result(path, content, after, parts, messages, unread)


def _of_unread_lines(text: NotebookText, reader: Reader) -> Iterator[Message]:
    rule = names_in_strings.RULE.name
    for number, place, line in text.unread_lines() if rule in reader.settings.rules else ():
        for what in names_in_strings.names_in_notebook(line):
            yield Message(number, place, rule, what, Kind.LEFT)


def _messages(findings: Iterable[Finding], place: Callable[[int], tuple[int | None, int]]) -> tuple[Message, ...]:
    messages = []
    for each in findings:
        cell, line = place(each.offset)
        messages.append(Message(cell, line, each.rule, each.text, each.kind))
    return tuple(messages)
