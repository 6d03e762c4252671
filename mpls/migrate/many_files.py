"""Migrates files, in several processes: finds them, reads each once, and writes each at once."""

from __future__ import annotations

import contextlib
import errno
import itertools
import multiprocessing
import os
import re
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import connection

from mpls.errors import printable
from mpls.migrate.analysis import Analysis, Finding, Outcome, Settings
from mpls.migrate.plan import decide
from mpls.migrate.rewriting import rewritten
from mpls.migrate.rules import NAMES_IN_STRINGS, RULES, names_in_notebook
from mpls.migrate.source_text import Edit, Encoded, NotebookText, SourceText, UnreadableError
from mpls.migrate.tree_facts import API_WORDS, NO_FACTS, Facts, facts_of, together
from mpls.program.files import files, missing, without_collector
from mpls.program.meaning import NOTHING, Meaning, Neighbours
from mpls.program.notebooks import MAX_NOTEBOOK_BYTES

_MAX_BYTES = 1_000_000
_ENDINGS = (".py", ".pyi", ".pyw", ".ipynb")
_NOTEBOOK = ".ipynb"
# Fewer files take less time than a process needs to start.
_FEW = 64
_CHUNK = 16


# Which files.


def collected(paths: Sequence[str]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return the files at some paths: of folders, all programs and notebooks in them and their subfolders.

    Hidden folders, installed packages and environments are left out, unless they are given themselves.

    Returns:
        The files, each once and in a fixed order, with the folder that it was found in, or ""; and paths that are not
        there, cannot be read, or have nothing in them, with the reasons.
    """
    found: dict[str, str] = {}
    unread: list[tuple[str, str]] = []
    known: set[str] = set()

    def note(error: OSError) -> None:
        unread.append((error.filename or path, f"cannot be read: {error.strerror}"))

    for path in paths:
        if os.path.isdir(path):
            number = len(unread)
            # A link may lead out of the folder.
            every = files(path, _ENDINGS, note)
            candidates = sorted(each for each in every if os.path.isfile(each) and not os.path.islink(each))
            if not candidates and len(unread) == number:
                unread.append((path, "has no Python source in it"))
        elif os.path.exists(path):
            candidates = [path]
        else:
            unread.append((path, missing(path)))
            continue
        for each in candidates:
            # One file may be given twice, also by links.
            real = os.path.realpath(each)
            if real not in known:
                known.add(real)
                found[each] = path if each != path else ""
    return found, unread


# One file.


class Reader:
    """The user's files, as far as they are needed.

    Args:
        settings: what the user has chosen.
        top: the folder that is migrated, or "".
        facts: what all files that are migrated say.

    Attributes:
        collected: files that are among these.
    """

    def __init__(self, settings: Settings, top: str = "", facts: Facts = NO_FACTS) -> None:
        self.settings = settings
        self._top = top
        self._facts = facts
        self.collected: set[str] = set()
        names = facts.passed_on
        self._words = re.compile(b"|".join([API_WORDS, *(rb"\b%s\b" % name for name in sorted(names))]))
        self._known: dict[str, Analysis | None] = {}

    def concerns(self, content: bytes) -> bool:
        """Return whether a file may have something that a rule looks at."""
        return self._words.search(content) is not None

    def analyse(self, text: SourceText, file: str | None) -> Analysis:
        """Return the analysis of a text that is in a file, or beside one."""
        # Those of standard input, and of a module outside, are not among all.
        facts = self._facts
        if file not in self.collected:
            facts = together((facts, facts_of(text.utf8)._replace(has_wrappers=False)))
        analysis = Analysis(text, Neighbours(file, self._top), self, RULES, self.settings, facts)
        if not self._top and self.settings.as_of is not None:
            # A module that is not migrated may call `compile`.
            analysis.facts = facts._replace(compiles=facts.compiles or analysis.imports_own)
        return analysis

    def analysis(self, file: str) -> Analysis | None:
        """Return what is known of a module of the user's, with what becomes of it; None if it cannot be read."""
        found = self._found(file)
        return None if found is None else decide(found)

    def exported(self, file: str, name: str, depth: int) -> Meaning:
        """Return what a name at the top of a module of the user's stands for; NOTHING if it is unknown."""
        found = self._found(file)
        return NOTHING if found is None else found.meanings.name(name, found.survey.module, depth)

    def submodule(self, file: str, name: str) -> str | None:
        """Return the file of a module in the package that a file is; None or "" if there is none."""
        return Neighbours(file).module(name, 1)

    def _found(self, file: str) -> Analysis | None:
        if file not in self._known:
            self._known[file] = None
            try:
                with open(file, "rb") as opened:
                    content = opened.read(_MAX_BYTES + 1)
                if len(content) <= _MAX_BYTES:
                    self._known[file] = self.analyse(SourceText(Encoded(content).text), file)
            except (OSError, UnreadableError):
                # The error is reported when this file is migrated; here its names are just unknown.
                pass
        return self._known[file]


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
    kind: Outcome


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
    limit = MAX_NOTEBOOK_BYTES if path.endswith(_NOTEBOOK) else _MAX_BYTES
    try:
        if not os.path.isfile(path):
            return Result(path, unread=("is not a file",))
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


def _rewritten(reader: Reader, text: SourceText, file: str | None) -> tuple[tuple[Edit, ...], tuple[Finding, ...]]:
    analysis = reader.analyse(text, file)
    try:
        return rewritten(analysis)
    finally:
        analysis.forget()


def _program(content: bytes, path: str, reader: Reader, file: str | None) -> Result:
    encoded = Encoded(content)
    text = SourceText(encoded.text)
    edits, findings = _rewritten(reader, text, file)
    messages = _messages(findings, lambda line: (None, line))
    after = text.edited(edits)
    if after == encoded.text:
        return Result(path, messages=messages)
    return Result(path, content, encoded.encode(after), (Part(path, encoded.text, after),), messages)


def _notebook(content: bytes, path: str, reader: Reader, file: str | None) -> Result:
    text = NotebookText(content)
    edits, findings = _rewritten(reader, text.source, file)
    unread = tuple(f"cell {number} {reason}" for number, reason in text.unread)
    messages = (*_messages(findings, text.place), *_of_unread_lines(text, reader))
    messages = tuple(sorted(messages, key=lambda each: (each.cell or 0, each.line)))
    after, changed = text.edited(edits)
    if not changed:
        return Result(path, messages=messages, unread=unread)
    parts = tuple(Part(f"{path}:cell {number}", text.cell(number), cell) for number, cell in changed.items())
    return Result(path, content, after, parts, messages, unread)


def _of_unread_lines(text: NotebookText, reader: Reader) -> Iterator[Message]:
    rule = NAMES_IN_STRINGS.name
    for number, place, line in text.unread_lines() if rule in reader.settings.rules else ():
        for what in names_in_notebook(line):
            yield Message(number, place, rule, what, Outcome.LEFT)


def _messages(findings: Iterable[Finding], place: Callable[[int], tuple[int | None, int]]) -> tuple[Message, ...]:
    return tuple(Message(*place(each.node.lineno), each.rule, each.text, each.kind) for each in findings)


# Many files, in several processes: the results come in the order of the files, however many there are.


def default_jobs() -> int:
    """Return how many processes are used: as many as there are cores for this one."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def results_of(files: dict[str, str], settings: Settings, jobs: int) -> Iterator[Result]:
    """Yield what becomes of each file, in their order; nothing is written.

    Args:
        files: the files, each with the folder that is migrated, or "".
        settings: what the user has chosen.
        jobs: how many processes may be used.
    """
    facts = _facts(files)
    every = [*files.items()]
    chunks = [every[start : start + _CHUNK] for start in range(0, len(every), _CHUNK)]
    if jobs == 1 or len(files) <= _FEW:
        readers: dict[str, Reader] = {}
        for chunk in chunks:
            yield from _results(chunk, settings, facts, readers)
        return
    with ProcessPoolExecutor(min(jobs, len(chunks)), initializer=_end_with_parent) as pool:
        for results in pool.map(_chunk_results, chunks, itertools.repeat(settings), itertools.repeat(facts)):
            yield from results


def _end_with_parent() -> None:
    """Have this process end when the one that started it does, which a signal may end before it can tell.

    Ctrl-C goes to all of them; only the one that started it says so.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_wait_and_end, args=(parent.sentinel,), daemon=True).start()


def _wait_and_end(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)


def _facts(files: dict[str, str]) -> Facts:
    found: set[Facts] = set()
    # Reading a pipe would take its data away.
    for file in filter(os.path.isfile, files):
        with contextlib.suppress(OSError), open(file, "rb") as opened:
            found.add(facts_of(opened.read(_MAX_BYTES)))
    return together(found)


# What a process has read; chunks beside each other import the same modules.
_readers: dict[str, Reader] = {}


def _chunk_results(chunk: Sequence[tuple[str, str]], settings: Settings, facts: Facts) -> list[Result]:
    return _results(chunk, settings, facts, _readers)


def _results(
    chunk: Sequence[tuple[str, str]], settings: Settings, facts: Facts, readers: dict[str, Reader]
) -> list[Result]:
    for file, top in chunk:
        if top not in readers:
            readers[top] = Reader(settings, top, facts)
        readers[top].collected.add(file)
    with without_collector():
        return [migrate_file(file, readers[top]) for file, top in chunk]


# Writing, such that a file has its old or its new contents at any moment.


class ChangedMeanwhileError(Exception):
    """A file has other contents than those that were read."""


def write_atomically(path: str, before: bytes, after: bytes) -> None:
    """Replace the contents of a file; of a link, those of the file that it points to.

    Args:
        path: the file.
        before: the contents that it has.
        after: those that it gets.

    Raises:
        ChangedMeanwhileError: it has other contents by now.
        OSError: it cannot be written, or is read-only; it is as it was.
    """
    path = os.path.realpath(path)
    with open(path, "rb") as file:
        if file.read(len(before) + 1) != before:
            raise ChangedMeanwhileError("has changed while it was migrated")
    mode = os.stat(path).st_mode
    # A folder in which one may write would let a file be replaced that is kept from changes.
    if not (mode & 0o222 and os.access(path, os.W_OK)):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=f".{os.path.basename(path)}.", suffix=".tmp")
    try:
        with open(handle, "wb") as file:
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode & 0o7777)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
