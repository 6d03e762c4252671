"""Where a program's files are, by what `python` is given to run it."""

from __future__ import annotations

import os

from mpls.reading.sources import Archive, Folder, Program

__all__ = ["code", "module", "script"]

_MAIN = "__main__.py"


def script(path: str) -> Program:
    """Return the program that `python PATH` runs: a file, or a folder or zip file with a `__main__`."""
    program = Program()
    if os.path.isdir(path):
        folder = Folder(os.path.abspath(path))
        program.add_file(folder, _MAIN, "", (folder,))
        return program
    where, name = os.path.split(os.path.abspath(path))
    folder = Folder(where)
    archive = Archive(os.path.abspath(path))
    if not _is_archive(path) or not program.add_file(archive, _MAIN, "", (archive,)):
        program.add_file(folder, name, "", _roots(folder))
    return program


def module(name: str) -> Program:
    """Return the program that `python -m NAME` runs, if it is in the current directory."""
    program, folder = Program(), Folder(os.getcwd())
    path = name.replace(".", "/")
    package = name.rpartition(".")[0]
    if os.path.isfile(os.path.join(folder.path, path, _MAIN)):
        program.add_file(folder, f"{path}/{_MAIN}", name, (folder,))
    else:
        program.add_file(folder, f"{path}.py", package, (folder,))
    # They run before it.
    parts = path.split("/")
    for count in range(1, len(parts)):
        program.add_file(folder, f"{'/'.join(parts[:count])}/__init__.py", ".".join(parts[:count]), (folder,))
    return program


def code(text: bytes | str, shown: str) -> Program:
    """Return the program that `python -c TEXT` runs, or a notebook with that code."""
    program, folder = Program(), Folder(os.getcwd())
    program.add_code(text, shown, (folder,))
    return program


def _is_archive(path: str) -> bool:
    # To open a pipe would take from the program what is in it.
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"PK"
    except OSError:
        return False


def _roots(folder: Folder) -> tuple[Folder, ...]:
    """Return where a script's imports are looked for: beside it, and beside the package that it is in."""
    top = folder.path
    while os.path.isfile(os.path.join(top, "__init__.py")) and os.path.dirname(top) != top:
        top = os.path.dirname(top)
    return (folder,) if top == folder.path else (folder, Folder(top))
