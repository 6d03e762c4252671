"""Tells the program's own code from installed packages and frameworks, by its files and by its frames."""

from __future__ import annotations

import dis
import linecache
import os
import re
import site
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache, lru_cache
from types import CodeType, FrameType

from mpls.errors import NOT_THE_USERS
from mpls.upstream.modules import MAKERS

__all__ = ["goes_on_to", "is_users_file", "may_mention", "users_line"]

# Modules whose frames are between the code that reads an attribute and this one.
_BETWEEN = (
    "mpls.importing",
    "importlib",
    "inspect",
    *MAKERS,
)
_READS = ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM")
# Opcodes between the reads of `import a.b.c as d`.
_SHUFFLES = ("SWAP", "ROT_TWO", "POP_TOP", "CACHE", "EXTENDED_ARG")


def is_users_file(file: str) -> bool:
    """Return whether a file belongs to the program, not to Python or an installed package."""
    return not os.path.abspath(file).startswith(_library_directories())


def may_mention(words: Iterable[str], *, source: str | None = None) -> bool:
    """Return whether any of some words is in the source of a module of the program, or the main module has no source.

    Args:
        words: the words.
        source: the source of the main module, if it is in no file.
    """
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b")
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if source is not None and pattern.search(source):
        return True
    modules = [(name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items())]
    loaded = [file for name, file in modules if file and _is_users(name) and is_users_file(file)]
    if any(pattern.search(line) for file in loaded for line in linecache.getlines(file)):
        return True
    return source is None and (main is None or not linecache.getlines(main))


def _is_users(module: str) -> bool:
    return module.partition(".")[0] not in NOT_THE_USERS


@cache
def _library_directories() -> tuple[str, ...]:
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths |= {*site.getsitepackages(), site.getusersitepackages()}
    return tuple(os.path.join(path, "") for path in paths if path)


def goes_on_to(attribute: str, next_attribute: str) -> bool:
    """Return whether the calling code is evaluating `something.attribute.next_attribute`.

    False for `hasattr(something, "attribute")`, and if `something.attribute` is assigned to a name.
    """
    frame = _users_frame()
    return frame is not None and _reads_both(frame.f_code, frame.f_lasti, attribute, next_attribute)


def users_line() -> tuple[str, int] | None:
    """Return the file name and line of the code that reads an attribute; None if it belongs to a framework."""
    frame = _users_frame()
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _users_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_in(frame, _BETWEEN):
        frame = frame.f_back
    return None if frame is None or _is_in(frame, NOT_THE_USERS) else frame


def _is_in(frame: FrameType, packages: tuple[str, ...]) -> bool:
    name = frame.f_globals.get("__name__") or ""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


@lru_cache
def _reads_both(code: CodeType, offset: int, attribute: str, next_attribute: str) -> bool:
    instructions = [each for each in dis.get_instructions(code) if each.opname not in _SHUFFLES]
    offsets = [each.offset for each in instructions]
    if offset not in offsets:
        return False
    position = offsets.index(offset)
    pair = instructions[position : position + 2]
    return [each.argval for each in pair] == [attribute, next_attribute] and all(each.opname in _READS for each in pair)
