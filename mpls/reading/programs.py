"""Finds a program's files from the way `python` is called to run it."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator

from mpls.program.files import MAX_BYTES, Folder, ZipFolder, files
from mpls.reading.sources import Program

__all__ = ["beside", "code", "module", "script", "scripts"]

_MAIN = "__main__.py"
_RUNS_AS_MAIN = re.compile(rb"^if\b.*__name__", re.MULTILINE)


def script(path: str, *, max_bytes: int = MAX_BYTES) -> Program:
    """Return the program that `python PATH` runs: a file, or a folder or zip file with a `__main__`."""
    program = Program(max_bytes=max_bytes)
    # Python resolves a link, and looks for modules beside the file that it points to.
    path = os.path.realpath(path)
    if os.path.isdir(path):
        folder = Folder(path)
        program.add_file(folder, _MAIN, "", (folder,))
        return program
    where, name = os.path.split(path)
    folder, archive = Folder(where), ZipFolder(path)
    if not _is_archive(path) or not program.add_file(archive, _MAIN, "", (archive,)):
        roots = _roots(folder)
        program.add_file(folder, name, _package_of(folder, roots[-1]), roots)
    return program


def module(name: str, *, max_bytes: int = MAX_BYTES) -> Program:
    """Return the program that `python -m NAME` runs, if it is in the current directory."""
    program, folder = Program(max_bytes=max_bytes), Folder(os.getcwd())
    path = name.replace(".", "/")
    package = name.rpartition(".")[0]
    if os.path.isfile(os.path.join(folder.path, path, _MAIN)):
        program.add_file(folder, f"{path}/{_MAIN}", name, (folder,))
    else:
        program.add_file(folder, f"{path}.py", package, (folder,))
    # The `__init__.py` files of its packages run before it.
    parts = path.split("/")
    for count in range(1, len(parts)):
        program.add_file(folder, f"{'/'.join(parts[:count])}/__init__.py", ".".join(parts[:count]), (folder,))
    return program


def code(text: bytes | str, shown: str, *, max_bytes: int = MAX_BYTES) -> Program:
    """Return the program that `python -c TEXT` runs.

    Args:
        text: the code.
        shown: how the code is called in messages.
        max_bytes: how much of the program is read at most.
    """
    program, folder = Program(max_bytes=max_bytes), Folder(os.getcwd())
    program.add_code(text, shown, (folder,))
    return program


def beside(path: str, text: str) -> Program:
    """Return the program for code that was extracted from a file, such as a notebook, and runs in its folder."""
    where, name = os.path.split(os.path.abspath(path))
    program, folder = Program(), Folder(where)
    program.add_code(text, folder.shown(name), (folder,))
    return program


def scripts(folder: str) -> Iterator[tuple[str, Program]]:
    """Yield the programs in a folder and its subfolders: files that test for `__main__`, or that no other imports.

    Args:
        folder: a path.
    """
    # Outer folders first: their files import those further down, which then need not be read as programs.
    paths = sorted(files(folder, ".py"), key=lambda path: (path.count(os.sep), path))
    mains = [path for path in paths if _is_main(path)]
    imported: set[str] = set()
    found: dict[str, tuple[str, Program]] = {}
    for path in [*mains, *(each for each in paths if each not in set(mains))]:
        where, name = os.path.split(os.path.abspath(path))
        shown = Folder(where).shown(name)
        if shown in imported and path not in mains:
            continue
        program = script(path)
        if name == "__init__.py" and not any(source.scopes.imports for source in program.sources[:1]):
            continue
        # A file does not count as imported because modules that it imports import it back.
        imported.update(source.shown for source in program.sources[1:] if source.shown != shown)
        found[shown] = path, program
    for shown, (path, program) in sorted(found.items()):
        if shown not in imported or path in mains:
            yield path, program


def _is_main(path: str) -> bool:
    where, name = os.path.split(path)
    return name == _MAIN or _RUNS_AS_MAIN.search(Folder(where).read(name) or b"") is not None


def _is_archive(path: str) -> bool:
    # Opening a pipe would consume the data that the program wants to read.
    if not os.path.isfile(path):
        return False
    # Look at the end of the file, as Python does: a zip file may begin with lines of shell.
    return zipfile.is_zipfile(path)


def _package_of(folder: Folder, top: Folder) -> str:
    """Return the dotted name of the package that a folder is, given the folder that holds the outermost package."""
    relative = os.path.relpath(folder.path, top.path)
    return "" if relative == os.curdir else relative.replace(os.sep, ".")


def _roots(folder: Folder) -> tuple[Folder, ...]:
    """Return the folders in which a script's imports are looked for: its own, and the one that holds its package."""
    top = folder.path
    while os.path.isfile(os.path.join(top, "__init__.py")) and os.path.dirname(top) != top:
        top = os.path.dirname(top)
    return (folder,) if top == folder.path else (folder, Folder(top))
