"""Tells the program's own code from installed packages."""

from __future__ import annotations

import linecache
import os
import re
import site
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from functools import cache

__all__ = ["is_users_file", "may_mention"]


def is_users_file(file: str) -> bool:
    """Return whether a file belongs to the program, not to Python or an installed package."""
    return not os.path.abspath(file).startswith(_library_directories())


def may_mention(
    words: Iterable[str], *, where_unknown: bool = True, also_in: Sequence[str] = (), source: str | None = None
) -> bool:
    """Return whether any of some words is in the source of a module of the program.

    Args:
        words: the words.
        where_unknown: the answer if the source of the main module is not available.
        also_in: further files to look in.
        source: the source of the main module, if it is in no file.
    """
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b")
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if source is not None and pattern.search(source):
        return True
    modules = [(name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items())]
    loaded = [file for name, file in modules if file and _is_users(name) and is_users_file(file)]
    if any(pattern.search(line) for file in (*loaded, *also_in) for line in linecache.getlines(file)):
        return True
    return where_unknown and source is None and (main is None or not linecache.getlines(main))


def _is_users(module: str) -> bool:
    return module.partition(".")[0] not in ("mpls", "tensorflow", "keras", "tf_keras")


@cache
def _library_directories() -> tuple[str, ...]:
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths |= {*site.getsitepackages(), site.getusersitepackages()}
    return tuple(os.path.join(path, "") for path in paths if path)
