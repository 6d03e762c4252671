"""Finds the user's own modules that a file imports: what they are called decides what names mean."""

from __future__ import annotations

import functools
import os

__all__ = ["Neighbours"]


class Neighbours:
    """The modules that a file can import from the folders around it.

    Looked at are the file's own folder and those above it, up to the current folder, or to the one that is migrated if
    it is further up: any of them may be where Python looks for modules.

    Args:
        file: the path of the file; None for standard input, around which nothing is looked at.
        top: the folder that is migrated, or "".
    """

    def __init__(self, file: str | None, top: str = "") -> None:
        self._folder = None if file is None else os.path.dirname(os.path.abspath(file))
        self._roots = [] if self._folder is None else _roots(self._folder, top)

    def module(self, name: str, level: int) -> str | None:
        """Return the file of a module; "" if a package of that name is here but the module is not; None if neither is.

        Args:
            name: its dotted name; "" for a package that is imported by dots alone.
            level: the number of dots before it.
        """
        if level:
            folder = self._folder
            for _ in range(level - 1):
                folder = None if folder is None else os.path.dirname(folder)
            return "" if folder is None else _file_of(folder, name) or ""
        for root in self._roots:
            file = _file_of(root, name)
            if file is not None or _file_of(root, name.partition(".")[0]) is not None:
                return file or ""
        return None


def _roots(folder: str, top: str) -> list[str]:
    roots = [folder]
    ends = [each for each in (os.path.abspath(top) if top else "", os.getcwd()) if each and _is_inside(folder, each)]
    end = min(ends, key=len, default=folder)
    while folder != end:
        folder = os.path.dirname(folder)
        roots.append(folder)
    return roots


def _is_inside(folder: str, other: str) -> bool:
    return folder == other or folder.startswith(os.path.join(other, ""))


@functools.lru_cache(maxsize=100_000)
def _file_of(folder: str, name: str) -> str | None:
    base = os.path.join(folder, *name.split(".")) if name else folder
    candidates = [os.path.join(base, "__init__.py")]
    if name:
        candidates.append(f"{base}.py")
    return next((path for path in candidates if os.path.isfile(path)), None)
