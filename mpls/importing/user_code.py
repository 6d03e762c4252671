"""Tells the program's own code from installed packages and frameworks, by its files and by its frames."""

from __future__ import annotations

import dis
import os
import re
import sys
import sysconfig
from functools import cache, lru_cache
from types import CodeType, FrameType

from mpls.errors import NOT_THE_USERS
from mpls.upstream.modules import MAKERS

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


# Where packages are installed, also those of other environments that a `.pth` file or PYTHONPATH adds.
_PACKAGES = re.compile(r"[\\/](?:site|dist)-packages[\\/]")


def is_users_file(file: str) -> bool:
    """Return whether a file belongs to the program, not to Python or an installed package."""
    path = os.path.abspath(file)
    return not (path.startswith(_library_directories()) or _PACKAGES.search(path))


@cache
def _library_directories() -> tuple[str, ...]:
    return tuple(os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib"))


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
