"""The program's own files, found by its imports and parsed: nothing runs, and installed packages are not read."""

from __future__ import annotations

import ast
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from mpls.errors import printable
from mpls.program.files import MAX_BYTES, MAX_FILE_BYTES, MAX_FILES, UNREADABLE, Folder, folders_added, parse
from mpls.reading.scopes import Import, Scopes

__all__ = ["Program", "Source"]

_LIBRARIES = ("site-packages", "dist-packages")


@dataclass
class Source:
    """A file of the program.

    Attributes:
        shown: its path as shown to users.
        content: its text, in bytes.
        tree: its syntax tree.
        package: the dotted name of the package that contains it.
        roots: the folders in which its imports are looked for.
        is_certain: whether it is imported on every release.
        modules: the program's own files that it imports, by absolute module name.
    """

    shown: str
    content: bytes
    tree: ast.Module
    package: str
    roots: tuple[Folder, ...]
    is_certain: bool
    modules: dict[str, Source] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.scopes = Scopes(self.tree)

    def absolute(self, module: str) -> str:
        """Return the absolute name of a module that this file imports by a possibly relative name."""
        level = len(module) - len(module.lstrip("."))
        if level == 0:
            return module
        package = self.package.split(".")[: len(self.package.split(".")) - level + 1]
        return ".".join(filter(None, [*package, module[level:]]))


@dataclass
class Program:
    """The files of a program.

    Attributes:
        sources: the files that were read, the main one first.
        unread: the paths of files that are not valid Python or too large, each with the reason.
        is_whole: whether all other files were read; false if the program exceeds the limits.
        max_bytes: how many bytes are read at most.
        bytes_read: how many bytes have been read.
    """

    sources: list[Source] = field(default_factory=list)
    unread: list[tuple[str, str]] = field(default_factory=list)
    is_whole: bool = True
    max_bytes: int = MAX_BYTES
    bytes_read: int = 0

    def __post_init__(self) -> None:
        self._known: dict[tuple[str, str], Source | None] = {}
        self._absent: set[tuple[str, str]] = set()
        self._queue: deque[Source] = deque()

    def add_file(self, root: Folder, relative: str, package: str, roots: tuple[Folder, ...]) -> bool:
        """Add a main file and the files that it imports; return whether the main file exists."""
        content = root.read(relative)
        if content is None or (root.path, relative) in self._known:
            return content is not None
        self._add(content, root.path, relative, package, roots, True)
        self._follow()
        return True

    def add_code(self, content: bytes | str, shown: str, roots: tuple[Folder, ...]) -> None:
        """Add code that has no file of its own, and the files that it imports."""
        content = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        self._add(content, "", shown, "", roots, True)
        self._follow()

    def _add(
        self, content: bytes, folder: str, relative: str, package: str, roots: tuple[Folder, ...], is_certain: bool
    ) -> Source | None:
        shown = Folder(folder).shown(relative) if folder else printable(relative)
        self._known[folder, relative] = None
        if len(content) > MAX_FILE_BYTES:
            self.unread.append((shown, f"is larger than {MAX_FILE_BYTES} bytes"))
            return None
        if len(self.sources) >= MAX_FILES or self.bytes_read + len(content) > self.max_bytes:
            self.is_whole = False
            return None
        self.bytes_read += len(content)
        try:
            source = Source(shown, content, parse(content), package, roots, is_certain)
        except UNREADABLE as error:
            self.unread.append((shown, f"is no Python 3: {printable(str(error))}"))
            return None
        if folder:
            added = folders_added(source.tree, os.path.join(folder, relative))
            source.roots = (*roots, *(Folder(each) for each in added if each not in {root.path for root in roots}))
        self._known[folder, relative] = source
        self.sources.append(source)
        self._queue.append(source)
        return source

    def _follow(self) -> None:
        while self._queue:
            source = self._queue.popleft()
            for each in source.scopes.imports:
                for name in _modules_of(source, each):
                    found = self._find(source, name, source.is_certain and each.is_certain)
                    if found is not None:
                        source.modules[name] = found

    def _find(self, source: Source, name: str, is_certain: bool) -> Source | None:
        path = name.replace(".", "/")
        for root in source.roots:
            for relative, package in ((f"{path}.py", name.rpartition(".")[0]), (f"{path}/__init__.py", name)):
                key = (root.path, relative)
                if key in self._absent:
                    continue
                if key not in self._known:
                    content = None if _is_library(root) else root.read(relative)
                    if content is None:
                        self._absent.add(key)
                        continue
                    return self._add(content, *key, package, source.roots, is_certain)
                found = self._known[key]
                if found is not None and is_certain and not found.is_certain:
                    # This import is certain, unlike earlier ones; so are those in the file, which is followed again.
                    found.is_certain = True
                    self._queue.append(found)
                return found
        return None


def _is_library(root: Folder) -> bool:
    return os.path.basename(os.path.normpath(root.path)) in _LIBRARIES


def _modules_of(source: Source, imported: Import) -> Iterator[str]:
    """Yield the names of the modules that an import loads or may load."""
    name = source.absolute(imported.module)
    parts = name.split(".")
    if parts[0] == "mpls":
        # mpls is not part of the program, even if it runs from a source tree.
        return
    for count in range(1, len(parts) + 1 if name else 1):
        yield ".".join(parts[:count])
    if imported.name not in (None, "*"):
        yield f"{name}.{imported.name}" if name else str(imported.name)
