"""The heaps of H5 files, where texts are, read before HDF5 itself does: over some broken ones it never ends."""

from __future__ import annotations

from mpls.saved.errors import broken
from mpls.saved.h5_bytes import Bytes

_START = b"GCOL\x01"
_HEADER = 16


def heap_at(path: str, file: Bytes, start: int) -> dict[int, int]:
    """Return the sizes of the objects in a heap by their numbers.

    Args:
        path: what errors call the file.
        file: the file.
        start: where the heap is.

    Raises:
        SavedStateError: the objects in it do not follow each other to its end, or that is after the end of the file.
    """
    key = f"the heap at byte {start}"
    end = start + file.number(start + 8, 8)
    if file.at(start, len(_START)) != _START or end > file.size:
        raise broken(path, key, "be whole", f"{file.size - start} bytes")
    sizes: dict[int, int] = {}
    position = start + _HEADER
    while position + _HEADER <= end:
        file.budget.spend()
        index, size = file.number(position, 2), file.number(position + 8, 8)
        # Object 0 is the free space, whose size includes its header; others fill up to the next eighth byte.
        needed = size if index == 0 else _HEADER + -(-size // 8) * 8
        if needed < _HEADER or position + needed > end or index in sizes:
            raise broken(path, key, "be whole", f"an object of {size} bytes at {position}")
        sizes[index] = size
        position += needed
    return sizes
