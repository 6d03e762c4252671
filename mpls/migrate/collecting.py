"""Finds the files that are migrated."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from mpls.program.files import files

__all__ = ["ENDINGS", "Found", "collected"]

ENDINGS = (".py", ".pyi", ".pyw", ".ipynb")


class Found:
    """What is at the paths that were given.

    Attributes:
        files: the files, each once and in a fixed order, with the folder that it was found in, or "".
        missing: paths that are not there, cannot be read, or have nothing in them, with the reasons.
    """

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.missing: list[tuple[str, str]] = []


def collected(paths: Sequence[str]) -> Found:
    """Return the files at some paths: of folders, all programs and notebooks in them and their subfolders.

    Hidden folders, installed packages and environments are left out, unless they are given themselves.
    """
    found = Found()
    known: set[str] = set()
    for path in paths:
        if os.path.isdir(path):
            known_missing = len(found.missing)
            inner = sorted(_in_folder(path, found))
            if not inner and len(found.missing) == known_missing:
                found.missing.append((path, "has no Python source in it"))
            candidates = [(each, path) for each in inner]
        elif os.path.exists(path):
            candidates = [(path, "")]
        else:
            found.missing.append((path, "is not there"))
            continue
        for each, top in candidates:
            # One file may be given twice, also by links.
            real = os.path.realpath(each)
            if real not in known:
                known.add(real)
                found.files[each] = top
    return found


def _in_folder(folder: str, found: Found) -> Iterator[str]:
    def note(error: OSError) -> None:
        found.missing.append((error.filename or folder, f"cannot be read: {error.strerror}"))

    for path in files(folder, ENDINGS, note):
        # A link may lead out of the folder.
        if os.path.isfile(path) and not os.path.islink(path):
            yield path
