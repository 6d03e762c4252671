"""Runs `mpls migrate` on sources and folders: what it writes and what it says."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import re
import sys
import tempfile
from collections.abc import Mapping
from typing import Any, NamedTuple
from unittest import mock

from mpls.cli import main

_LEFT = re.compile(r"[^:]*:(?:cell (\d+):)?(\d+): (.*) \[([\w-]+)\]")


class Left(NamedTuple):
    """What a line of the command leaves to the user."""

    cell: int | None
    line: int
    rule: str
    text: str


class Migrated(NamedTuple):
    """What became of a source."""

    status: int
    after: bytes
    said: str

    @property
    def left(self) -> list[Left]:
        found = map(_LEFT.fullmatch, self.said.splitlines())
        return [Left(each[1] and int(each[1]), int(each[2]), each[4], each[3]) for each in found if each]

    @property
    def rules(self) -> tuple[str, ...]:
        return tuple(each.rule for each in self.left)

    @property
    def unread(self) -> list[str]:
        return re.findall(r"^mpls migrate: (?:<stdin>|\S+\.ipynb) (?!still |runs with )(.*)$", self.said, re.MULTILINE)


def command(*arguments: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
    """Run `mpls migrate`, and return its exit status and what it printed on standard output and error."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    given = io.TextIOWrapper(io.BytesIO(stdin))
    with mock.patch.object(sys, "stdin", given), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(["migrate", *arguments])
    out.flush()
    return status, out.buffer.getvalue(), unwrapped(err.getvalue())


def unwrapped(text: str) -> str:
    """Return what the command printed with each of its lines whole."""
    return text.replace("\n    ", " ")


def migrated(source: str | bytes, *options: str) -> Migrated:
    """Migrate the text of a program."""
    return Migrated(*command("-", "--write", *options, stdin=source.encode() if isinstance(source, str) else source))


def migrated_notebook(content: bytes) -> Migrated:
    """Migrate a notebook in a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "old.ipynb")
        path.write_bytes(content)
        status, _, said = command(str(path), "--write")
        return Migrated(status, path.read_bytes(), said)


def after(source: str, *options: str) -> str:
    """Return what becomes of the text of a program, of which all is read."""
    found = migrated(source, *options)
    assert found.unread == []
    return found.after.decode()


def messages(source: str, *options: str) -> list[dict[str, Any]]:
    """Return the messages about the text of a program: what is changed, worth knowing and left."""
    files = json.loads(command("-", "--report", "json", *options, stdin=source.encode())[1])["files"]
    return files[0]["messages"] if files else []


class Tree(NamedTuple):
    """What became of a folder."""

    changed: dict[str, str]
    left: list[tuple[str, str]]


def migrated_tree(folder: pathlib.Path, files: Mapping[str, str], *options: str) -> Tree:
    """Write files, migrate the folder, and return the texts that changed, and the names of files with a rule that left something."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    status, out, err = command(str(folder), "--write", "--jobs", "1", "--report", "json", *options)
    assert (status, err) == (0, "")
    found = json.loads(out)["files"]
    paths = {each["path"]: pathlib.Path(each["path"]) for each in found}
    return Tree(
        {
            paths[each["path"]].relative_to(folder).as_posix(): paths[each["path"]].read_text()
            for each in found
            if each["is_changed"]
        },
        [
            (paths[each["path"]].name, one["rule"])
            for each in found
            for one in each["messages"]
            if one["kind"] == "left"
        ],
    )
