"""Which code is the program's own."""

from __future__ import annotations

import linecache
import os
import re
import site
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache

__all__ = ["is_users_file", "may_mention"]


def is_users_file(file: str) -> bool:
    """Return whether a file is of the program, and of no installed package."""
    return not os.path.abspath(file).startswith(_library_directories())


def may_mention(words: Iterable[str]) -> bool:
    """Return whether a word is in the source of any module of the program; True too where that is not known."""
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b")
    main = sys.modules.get("__main__")
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if module is main and (file is None or not linecache.getlines(file)):
            return True
        if file is None or name.partition(".")[0] == "mpls" or not is_users_file(file):
            continue
        if any(map(pattern.search, linecache.getlines(file))):
            return True
    return False


@cache
def _library_directories() -> tuple[str, ...]:
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths |= {*site.getsitepackages(), site.getusersitepackages()}
    return tuple(os.path.join(path, "") for path in paths if path)
