"""A look at the heaps of H5 files, where texts are, before HDF5 itself looks: over some broken ones it never ends."""

from __future__ import annotations

import mmap
from typing import Any

from mpls.saved.files import size_of
from mpls.saved.validity import broken

_START = b"GCOL\x01\x00\x00\x00"
_HEADER = 16


def check_heaps(path: str, source: str | bytes) -> None:
    """Refuse a file with a heap in which the objects do not follow each other to its end.

    Args:
        path: what errors call the file.
        source: the file's path, or its content.

    Raises:
        SavedStateError: there is one.
    """
    if isinstance(source, bytes):
        _check(path, source)
    elif size_of(source) > 0:
        with open(source, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            _check(path, content)


def _check(path: str, content: Any) -> None:
    start = content.find(_START)
    while start >= 0:
        end = start + int.from_bytes(content[start + 8 : start + 16], "little")
        position = start + _HEADER
        while position + _HEADER <= min(end, len(content)):
            index = int.from_bytes(content[position : position + 2], "little")
            size = int.from_bytes(content[position + 8 : position + 16], "little")
            # Object 0 is the free space, whose size includes its header; others fill up to the next eighth byte.
            needed = size if index == 0 else _HEADER + -(-size // 8) * 8
            if needed == 0 or position + needed > end:
                raise broken(path, f"the heap at byte {start}", "be whole", f"an object of {size} bytes at {position}")
            position += needed
        start = content.find(_START, start + 1)
