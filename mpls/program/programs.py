"""A program's files, as the way `python` is called to run it finds them; each is read once for all programs."""

from __future__ import annotations

import ast
import itertools
import os
import re
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from mpls.errors import printable
from mpls.program.choices import Decision, decide, pins_of
from mpls.program.files import (
    MAX_BYTES,
    MAX_FILE_BYTES,
    MAX_FILES,
    UNREADABLE,
    Folder,
    absolute,
    current_folder,
    files,
    folders_added,
    missing,
    parse,
    parser_message,
)
from mpls.program.meaning import NOTHING, Meaning
from mpls.program.notebooks import MAX_NOTEBOOK_BYTES, Notebook, notebook
from mpls.program.releases import Releases, arm_of_every_release
from mpls.program.scopes import Statement, Survey
from mpls.program.signs import signs_of
from mpls.program.uses import FileUses, Sign, Uses, Where, modules_of, uses_in

_MAIN = "__main__.py"
_NOTEBOOK = ".ipynb"
_SCRIPTS = (".py", ".pyw")
_RUNS_AS_MAIN = re.compile(rb"^if\b.*__name__", re.MULTILINE)
_LIBRARIES = ("site-packages", "dist-packages")
_WORDS = re.compile(rb"\w+")
# Ways to find functions by names that are computed at run time.
_LOOKUPS = {b"globals", b"locals", b"vars", b"eval", b"exec", b"fire", b"Fire", b"run_module", b"run_path"}
_LOOKUP = re.compile(rb"""getattr\(\s*[\w.\[\]]+\s*,\s*(?!["'])""")
# Prefixes of functions that Python, tf.app.run and test tools call by name.
_CALLED = ("main", "test", "setup", "setUp", "teardown", "tearDown", "__")
_DEFINING = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
# Syntax trees of so many bytes of source are kept; others are parsed again when they are asked for.
_KEPT_BYTES = 1_200_000


class _Imported(NamedTuple):
    """A module that a file imports, or one that it imports a name from."""

    module: str
    level: int
    name: str | None


class _File:
    """A file, without its syntax tree.

    Args:
        folder: the folder that it was found in.
        relative: its path in the folder.
        package: the dotted name of the package that contains it.
        content: its text.

    Attributes:
        key: its path, or how code without a file is called.
        package: as given.
        shown: its path as shown to users.
        size: the number of its bytes.
        reason: why it cannot be read; "" if it can.
        imported: what it imports, in the order of the text.
        added: folders that it adds to the search path.
        links: the modules that it imports, by absolute names, with their keys, in the first program that it is in.
        uses: what it uses; None until it is asked for.
    """

    def __init__(self, folder: Folder | None, relative: str, package: str, content: bytes) -> None:
        self.key: str = relative if folder is None else os.path.join(folder.path, relative)
        self.package = package
        self.shown: str = printable(relative) if folder is None else folder.shown(relative)
        self.size: int = len(content)
        self.reason: str = f"is larger than {MAX_FILE_BYTES} bytes" if len(content) > MAX_FILE_BYTES else ""
        self.imported: list[_Imported] = []
        self.added: list[str] = []
        self.links: dict[str, str] | None = None
        self.uses: FileUses | None = None
        self.words: frozenset[bytes] = frozenset()
        self.once: frozenset[bytes] = frozenset()
        self.has_lookups = False
        self.does_something = False
        self._source = (folder, relative)
        self._content = content if folder is None else b""

    def read(self) -> bytes:
        """Read it again."""
        folder, relative = self._source
        return self._content if folder is None else folder.read(relative) or b""


@dataclass
class Source:
    """A file in a program.

    Attributes:
        file: the file.
        roots: the folders in which its imports are looked for.
        links: the modules that it imports, by absolute names, with their keys.
    """

    file: _File
    roots: tuple[Folder, ...]
    links: dict[str, str] = field(default_factory=dict)


class Tree:
    """The files of all programs that are asked about, each read once.

    Args:
        contents: what files have in place of what is on disk, by their real paths.
    """

    def __init__(self, contents: Mapping[str, bytes] = MappingProxyType({})) -> None:
        self.contents = contents
        self.files: dict[tuple[str, str], _File] = {}
        # Surveys of the files that were asked for last; the first is the oldest.
        self._surveys: dict[str, tuple[Survey, int]] = {}
        self._absent: set[tuple[str, str]] = set()
        self.linked: weakref.WeakSet[_Linked] = weakref.WeakSet()
        self.shared: _Linked = _Linked(self, {}, {}, None)

    # Files.

    def file(self, folder: Folder | None, relative: str, package: str, content: bytes | None = None) -> _File | None:
        """Return a file; None if it is not there.

        Args:
            folder: the folder that it is in; None for code that has no file.
            relative: its path in the folder.
            package: the dotted name of the package that contains it.
            content: its text, if it has no file.
        """
        where = "" if folder is None else folder.path
        if folder is not None and (where, relative) in self._absent:
            return None
        key = (os.path.join(where, relative), package)
        if folder is None or key not in self.files:
            read = content if folder is None else folder.read(relative)
            if read is None:
                self._absent.add((where, relative))
                return None
            self.files[key] = self._new(_File(folder, relative, package, read), read)
        return self.files[key]

    def _new(self, file: _File, content: bytes) -> _File:
        if file.reason:
            return file
        try:
            tree = parse(content)
            survey = Survey(tree, may_be_cut=True)
        except UNREADABLE as error:
            file.reason = parser_message(error)
            return file
        self._keep(file, survey)
        file.imported = list(_imported(survey))
        file.added = folders_added(tree, file.key)
        file.does_something = _does_something(tree)
        words = Counter(_WORDS.findall(content))
        file.words = frozenset(words)
        file.has_lookups = not _LOOKUPS.isdisjoint(file.words) or _LOOKUP.search(content) is not None
        names = {name.encode() for name in (*survey.functions, *(each.name for each in survey.classes))}
        names = {name for name in names if not name.decode().startswith(_CALLED)}
        file.once = frozenset(name for name in names if words[name] == 1)
        return file

    def survey(self, file: _File) -> Survey:
        """Return the survey of a file, which is parsed again if it was forgotten."""
        if file.key not in self._surveys:
            self._keep(file, Survey(parse(file.read()), may_be_cut=True))
        found = self._surveys[file.key] = self._surveys.pop(file.key)
        return found[0]

    def _keep(self, file: _File, survey: Survey) -> None:
        self._surveys[file.key] = survey, file.size

    def trim(self) -> None:
        """Forget the surveys that were asked for least lately."""
        size = sum(size for _, size in self._surveys.values())
        while size > _KEPT_BYTES and len(self._surveys) > 1:
            key = next(iter(self._surveys))
            survey, own = self._surveys.pop(key)
            survey.forget()
            for linked in self.linked:
                linked.forget(key)
            size -= own

    # Programs.

    def script(self, path: str, *, max_bytes: int = MAX_BYTES) -> Program:
        """Return the program that `python PATH` runs: a file, or a folder with a `__main__`."""
        program = Program(self, max_bytes)
        # Python resolves a link, and looks for modules beside the file that it points to.
        path = os.path.realpath(path)
        if os.path.isdir(path):
            folder = Folder(path, self.contents)
            program.add_file(folder, _MAIN, "", (folder,))
            return program
        where, name = os.path.split(path)
        folder = Folder(where, self.contents)
        roots = folders_of(folder)
        # The dotted name of the package that the folder is, if the last holds the outermost one.
        package = os.path.relpath(where, roots[-1].path).replace(os.sep, ".").lstrip(".")
        program.add_file(folder, name, package, roots)
        return program

    def module(self, name: str, *, max_bytes: int = MAX_BYTES) -> Program:
        """Return the program that `python -m NAME` runs, if it is in the current directory."""
        program, folder = Program(self, max_bytes), Folder(current_folder())
        path = name.replace(".", "/")
        is_package = os.path.isfile(os.path.join(folder.path, path, _MAIN))
        package = name if is_package else name.rpartition(".")[0]
        program.add_file(folder, f"{path}/{_MAIN}" if is_package else f"{path}.py", package, (folder,))
        # The `__init__.py` files of its packages run before it.
        for outer in itertools.accumulate(filter(None, package.split(".")), "{}.{}".format):
            program.add_file(folder, f"{outer.replace('.', '/')}/__init__.py", outer, (folder,))
        return program

    def code(self, text: bytes | str, shown: str, *, folder: str = "", max_bytes: int = MAX_BYTES) -> Program:
        """Return the program that `python -c TEXT` runs.

        Args:
            text: the code.
            shown: how the code is called in messages.
            folder: where its imports are looked for; by default the current directory.
            max_bytes: how much of the program is read at most.
        """
        program = Program(self, max_bytes)
        folder = folder or current_folder()
        program.add_code(text, shown, (Folder(folder, self.contents),) if folder else ())
        return program

    def found_at(self, path: str, watched: Callable[[list[str]], Iterable[str]] = iter) -> Iterator[Found | Unread]:
        """Yield the programs at a path, and what could not be read there.

        Args:
            path: a script, a notebook, or a folder of them.
            watched: gets the scripts of a folder, and yields them.
        """
        if not os.path.exists(path):
            yield Unread(path, missing(path))
        elif os.path.isdir(path):
            is_empty, errors = True, list[OSError]()
            for each, program in self._scripts(path, watched):
                is_empty = False
                yield _of_script(each, program)
            for each in _without_links(sorted(files(path, _NOTEBOOK, errors.append))):
                is_empty = False
                yield self.notebook(each)
            unread = [Unread(each.filename, f"cannot be read: {each.strerror}") for each in errors]
            yield from unread or ([Unread(path, "has no Python source in it")] if is_empty else [])
        elif path.endswith(_NOTEBOOK):
            yield self.notebook(path)
        else:
            yield _of_script(path, self.script(path))

    def _scripts(self, folder: str, watched: Callable[[list[str]], Iterable[str]]) -> Iterator[tuple[str, Program]]:
        """Yield the programs in a folder and its subfolders: files that test for `__main__`, or that no other imports.

        Args:
            folder: a path.
            watched: as for `found_at`.
        """
        # Outer folders first: their files import those further down, which then need not be read as programs.
        paths = _without_links(sorted(files(folder, _SCRIPTS), key=lambda path: (path.count(os.sep), path)))
        mains = {path for path in paths if _is_main(path)}
        imported: set[str] = set()
        found: dict[str, tuple[str, Program]] = {}
        for path in watched(sorted(paths, key=lambda path: path not in mains)):
            where, name = os.path.split(absolute(path))
            shown = Folder(where).shown(name)
            if shown in imported and path not in mains:
                continue
            program = self.script(path)
            # While the syntax trees are kept.
            program.look()
            if name == "__init__.py" and not any(source.file.imported for source in program.sources[:1]):
                continue
            # A file does not count as imported because modules that it imports import it back.
            imported.update(source.file.shown for source in program.sources[1:] if source.file.shown != shown)
            found[shown] = path, program
        for shown, (path, program) in sorted(found.items()):
            if shown not in imported or path in mains:
                yield path, program

    def notebook(self, path: str, *, max_bytes: int = MAX_BYTES) -> Found | Unread:
        """Return the program in a notebook."""
        content = self.contents.get(path, self.contents.get(os.path.realpath(path)))
        try:
            if content is None and not os.path.isfile(path):
                raise ValueError("is not a file")
            if content is None:
                with open(path, "rb") as file:
                    content = file.read(MAX_NOTEBOOK_BYTES + 1)
            if len(content) > MAX_NOTEBOOK_BYTES:
                raise ValueError(f"is larger than {MAX_NOTEBOOK_BYTES} bytes")
            cells = notebook(content)
        except OSError as error:
            return Unread(path, f"cannot be read: {error.strerror}")
        except ValueError as error:
            return Unread(path, str(error))
        where, name = os.path.split(absolute(path))
        shown = Folder(where).shown(name)
        program = self.code(cells.text, shown, folder=where, max_bytes=max_bytes)
        if not program.sources:
            return _of_script(path, program)
        program.unread.extend((f"{shown}:cell {cell}", reason) for cell, reason in cells.unread)
        return Found(program, cells)


class _Linked:
    """Files whose imports lead to certain others, and so what their names stand for.

    Args:
        tree: all files.
        files: those that belong to it; empty for those of the tree itself, which all programs share.
        links: the modules that each imports.
        shared: the files of the tree.
    """

    def __init__(
        self, tree: Tree, files: dict[str, _File], links: dict[str, dict[str, str]], shared: _Linked | None
    ) -> None:
        self.files = files
        self.links = links
        self._tree = tree
        self._shared = shared
        self._releases: dict[str, tuple[Survey, Releases]] = {}
        self._answers: dict[tuple[Any, ...], Any] = {}
        tree.linked.add(self)

    def forget(self, key: str) -> None:
        """Forget what depends on the survey of a file."""
        self._releases.pop(key, None)

    def uses(self, key: str) -> FileUses:
        """Return what one of its files uses."""
        file = self.files[key]
        if self._shared is None and file.uses is not None:
            return file.uses
        self._tree.trim()
        found = uses_in(self._of(key), file.shown, file.package)
        if self._shared is None:
            file.uses = found
        return found

    def _of(self, key: str) -> Releases:
        survey = self._tree.survey(self.files[key])
        known = self._releases.get(key)
        if known is None or known[0] is not survey:
            file = self.files[key]
            known = self._releases[key] = survey, Releases(survey, _Modules(file.package, self.links[key]), self)
        return known[1]

    def _ask(self, question: str, file: str, name: Any, unknown: Any, ask: Callable[[Releases], Any]) -> Any:
        """Return the answer to a question about a name in a file, which is asked once; of other files it is unknown."""
        if file not in self.files:
            return unknown if self._shared is None else self._shared._ask(question, file, name, unknown, ask)
        key = (question, file, name)
        if key not in self._answers:
            # Set first, because modules may import names from each other in a circle.
            self._answers[key] = unknown
            self._answers[key] = ask(self._of(file))
        return self._answers[key]

    def exported(self, file: str, name: str, depth: int) -> Meaning:
        """Return what a name at the top of a file stands for; NOTHING if it is unknown."""
        found: Meaning = self._ask(
            "exported", file, name, NOTHING, lambda its: its.name(name, its.survey.module, depth)
        )
        return found

    def is_answer(self, file: str, name: str) -> bool:
        """Return whether a name at the top of a file holds or returns the result of a test for the release."""
        found: bool = self._ask("is_answer", file, name, False, lambda its: its.is_answer(name, its.survey.module))
        return found

    def submodule(self, file: str, name: str) -> str | None:
        """Return the file of a module in the package that a file is; None if it is not among the programs' files."""
        folder = os.path.dirname(file)
        for path in (os.path.join(folder, f"{name}.py"), os.path.join(folder, name, "__init__.py")):
            if path in self.files or (self._shared is not None and path in self._shared.files):
                return path
        return None


class _Modules:
    """The modules that a file imports."""

    def __init__(self, package: str, links: dict[str, str]) -> None:
        self._package = package
        self._links = links

    def module(self, name: str, level: int) -> str | None:
        """Return the key of a module; "" if only a package that it is in is the user's; None if neither is."""
        if level:
            parts = self._package.split(".")
            name = ".".join(filter(None, [*parts[: len(parts) - level + 1], name]))
            return self._links.get(name, "")
        found = self._links.get(name)
        return found or ("" if name.partition(".")[0] in self._links else None)


class Program:
    """A program: its files, and what they show that it needs.

    Args:
        tree: the files of all programs.
        max_bytes: how many bytes are read at most.

    Attributes:
        sources: the files that were read, the main one first.
        unread: the paths of files that are not valid Python or too large, each with the reason.
        is_whole: whether all other files were read; false if the program exceeds the limits.
        bytes_read: how many bytes have been read.
    """

    def __init__(self, tree: Tree, max_bytes: int = MAX_BYTES) -> None:
        self.sources: list[Source] = []
        self.unread: list[tuple[str, str]] = []
        self.is_whole: bool = True
        self.bytes_read: int = 0
        self._tree = tree
        self._max_bytes = max_bytes
        self._known: dict[tuple[str, str], Source | None] = {}
        self._queue: deque[Source] = deque()
        self._mains: set[str] = set()

    def add_file(self, root: Folder, relative: str, package: str, roots: tuple[Folder, ...]) -> None:
        """Add a main file and the files that it imports, if there is one."""
        known = (root.path, relative) in self._known
        file = None if known else self._tree.file(root, relative, package)
        if file is not None:
            self._mains.add(file.key)
            self._add(file, (root.path, relative), roots)
            self._follow()

    def add_code(self, content: bytes | str, shown: str, roots: tuple[Folder, ...]) -> None:
        """Add code that has no file of its own, and the files that it imports."""
        content = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        file = self._tree.file(None, shown, "", content)
        assert file is not None
        self._mains.add(file.key)
        self._add(file, ("", shown), roots)
        self._follow()

    def _add(self, file: _File, key: tuple[str, str], roots: tuple[Folder, ...]) -> Source | None:
        self._known[key] = None
        if file.size <= MAX_FILE_BYTES:
            if len(self.sources) >= MAX_FILES or self.bytes_read + file.size > self._max_bytes:
                self.is_whole = False
                return None
            self.bytes_read += file.size
        if file.reason:
            self.unread.append((file.shown, file.reason))
            return None
        known = {root.path for root in roots}
        contents = self._tree.contents
        added = tuple(Folder(each, contents) for each in dict.fromkeys(file.added) if each not in known)
        source = self._known[key] = Source(file, (*roots, *added))
        self.sources.append(source)
        self._queue.append(source)
        return source

    def _follow(self) -> None:
        while self._queue:
            source = self._queue.popleft()
            for module, level, imported in source.file.imported:
                for name in modules_of(source.file.package, module, level, imported):
                    if name not in source.links:
                        found = self._find(source, name)
                        if found is not None:
                            source.links[name] = found.file.key

    def _find(self, source: Source, name: str) -> Source | None:
        path = name.replace(".", "/")
        for root in source.roots:
            for relative, package in ((f"{path}.py", name.rpartition(".")[0]), (f"{path}/__init__.py", name)):
                key = (root.path, relative)
                if key in self._known:
                    return self._known[key]
                is_library = os.path.basename(os.path.normpath(root.path)) in _LIBRARIES
                file = None if is_library else self._tree.file(root, relative, package)
                if file is not None:
                    return self._add(file, key, source.roots)
        return None

    # What it needs.

    def look(self) -> None:
        """Find out what those of its files use that other programs use alike."""
        for key, linked in self._linked().items():
            if linked is self._tree.shared:
                linked.uses(key)

    def uses(self, *, are_switches_on: bool = False) -> Uses:
        """Return what its files use.

        Args:
            are_switches_on: whether code counts that a constant of the program keeps from running, if nothing else
                runs in its place.
        """
        linked = self._linked()
        found = {source.file.key: linked[source.file.key].uses(source.file.key) for source in self.sources}
        cut = [source.file.shown for source in self.sources if found[source.file.key].is_cut]
        deep = [(shown, "is nested too deeply to be read to the end") for shown in cut]
        self.unread += [each for each in deep if each not in self.unread]
        off: frozenset[str] = frozenset().union(*(each.switches for each in found.values()))
        if are_switches_on:
            off = frozenset(each for each in off if each.startswith("or "))
        certain = self._certain(found, off)
        return Uses(files=[(found[key], key in certain, unused | off) for key, unused in self._unused()])

    def _linked(self) -> dict[str, _Linked]:
        """Return for each file what its names are resolved by: what all programs share, if they link it alike."""
        shared = self._tree.shared
        others: set[str] = set()
        importers: dict[str, list[str]] = {}
        for source in self.sources:
            file = source.file
            if shared.files.setdefault(file.key, file) is file:
                if file.links is None:
                    file.links = shared.links[file.key] = source.links
                if file.links == source.links:
                    for target in source.links.values():
                        importers.setdefault(target, []).append(file.key)
                    continue
            others.add(file.key)
        queue = [*others]
        while queue:
            for importer in importers.get(queue.pop(), ()):
                if importer not in others:
                    others.add(importer)
                    queue.append(importer)
        own = [source for source in self.sources if source.file.key in others]
        linked = _Linked(
            self._tree,
            {source.file.key: source.file for source in own},
            {source.file.key: source.links for source in own},
            shared,
        )
        return {source.file.key: linked if source.file.key in others else shared for source in self.sources}

    def _certain(self, uses: dict[str, FileUses], off: frozenset[str]) -> set[str]:
        """Return the files that are imported on every release, with some conditions that are false."""
        links = {source.file.key: source.links for source in self.sources}
        certain = {key for key in self._mains if key in links}
        queue = [*certain]
        while queue:
            key = queue.pop()
            for name, target in links[key].items():
                is_certain = name in uses[key].modules and off.isdisjoint(uses[key].modules[name])
                if target in links and target not in certain and is_certain:
                    certain.add(target)
                    queue.append(target)
        return certain

    def _unused(self) -> Iterable[tuple[str, frozenset[str]]]:
        """Return for each file the functions and classes that nothing but their definitions mentions."""
        sources = self.sources
        is_known = bool(sources) and sources[0].file.does_something
        if not is_known or any(source.file.has_lookups for source in sources):
            return [(source.file.key, frozenset()) for source in sources]
        found = []
        for source in sources:
            others = [each.file.words for each in sources if each is not source] if source.file.once else []
            names = {name for name in source.file.once if not any(name in words for words in others)}
            found.append((source.file.key, frozenset(name.decode() for name in names)))
        return found


class Reading:
    """What a program shows that it needs.

    Attributes:
        program: its files.
        uses: the names and attributes that it uses.
        signs: the lines that show which options it needs.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.uses: Uses = program.uses()
        self._pins = pins_of(program.sources[0].roots if program.sources else ())
        self.signs: list[Sign] = [*signs_of(self.uses), *self._pins]

    def decide(self, keras: int | None = None) -> Decision:
        """Decide which options the source shows that the program needs; none if it was too large to be read as a whole.

        Args:
            keras: the generation of Keras that the user asked for; None to decide that too.
        """
        if not self.program.is_whole or not self.program.sources:
            return Decision()
        main = self.program.sources[0].file.shown
        found = decide(self.uses, self.signs, main, keras)
        if not any(file.switches for file, _, _ in self.uses.files):
            return found
        # What a constant keeps from running decides too, where nothing contradicts it; but not the behaviour of TF 1,
        # with which the rest of a program for TF 2 fails.
        uses = self.program.uses(are_switches_on=True)
        more = decide(uses, [*signs_of(uses), *self._pins], main, keras)
        return more if more.extends(found) and more.value("v1") == found.value("v1") else found


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
        if self.cells is not None and where.file == self.program.sources[0].file.shown:
            return self.cells.place(where.line)
        return None, where.line


def _of_script(path: str, program: Program) -> Found | Unread:
    if program.sources:
        return Found(program)
    reasons = [reason for _, reason in program.unread]
    return Unread(path, reasons[0] if reasons else "cannot be read")


def _imported(survey: Survey) -> Iterator[_Imported]:
    for node, statement, _ in survey.imports:
        for alias in node.names if not _is_dead(statement) else ():
            if isinstance(node, ast.ImportFrom):
                yield _Imported(node.module or "", node.level, alias.name)
            else:
                yield _Imported(alias.name, 0, None)


def _is_dead(statement: Statement) -> bool:
    """Return whether the text alone tells that a statement never runs."""
    inner, outer = statement, statement.parent
    while outer is not None:
        if isinstance(outer.node, ast.If):
            arm = arm_of_every_release(outer.node.test)
            if arm is not None and (inner.block is outer.node.body) is not arm:
                return True
        inner, outer = outer, outer.parent
    return False


def _does_something(tree: ast.Module) -> bool:
    """Return whether a file has statements other than definitions, so that it is a program and not a library."""
    return any(
        not isinstance(each, _DEFINING) and not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
        for each in tree.body
    )


def _without_links(paths: Sequence[str]) -> list[str]:
    """Return each file once, by a path that is no link if it has one."""
    chosen = {os.path.realpath(path): path for path in sorted(paths, key=os.path.islink, reverse=True)}
    return [path for path in paths if chosen[os.path.realpath(path)] == path]


def _is_main(path: str) -> bool:
    where, name = os.path.split(path)
    return name == _MAIN or _RUNS_AS_MAIN.search(Folder(where).read(name) or b"") is not None


def folders_of(folder: Folder) -> tuple[Folder, ...]:
    """Return the folders in which a script's imports are looked for: its own, and the one that holds its package."""
    top = folder.path
    while os.path.isfile(os.path.join(top, "__init__.py")) and os.path.dirname(top) != top:
        top = os.path.dirname(top)
    return (folder,) if top == folder.path else (folder, Folder(top, folder.contents))
