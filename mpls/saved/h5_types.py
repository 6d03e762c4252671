"""Shapes and dtypes in H5 files, attributes and the texts in them, and the global heaps that hold those texts."""

from __future__ import annotations

import math

from mpls.saved.errors import broken
from mpls.saved.h5_bytes import UNDEFINED, Bytes, number

# Datatype classes.
_INTEGER, _FLOAT, _STRING, _OPAQUE, _COMPOUND, _ENUM, _VARIABLE = 0, 1, 3, 5, 6, 8, 9
# In bytes.
_LARGEST_NUMBER = 16


def shape_of(data: bytes) -> tuple[int, ...] | None:
    """Return the shape in a dataspace message; None if it is a null dataspace, without values.

    Raises:
        ValueError: it is of an unknown version, or has more than 32 dimensions.
    """
    version, rank, kind = data[0], number(data, 1, 1), number(data, 3, 1)
    if version not in (1, 2) or rank > 32:
        raise ValueError(f"a shape is of the unknown version {version}, or has {rank} dimensions")
    if version == 2 and kind == 2:
        return None
    start = 8 if version == 1 else 4
    return tuple(number(data, start + 8 * position, 8) for position in range(rank))


def item_size(data: bytes) -> int:
    """Return the size in bytes of one item of a datatype message.

    Raises:
        ValueError: the datatype is of a kind that Keras does not write.
    """
    kind, size = _kind(data), number(data, 4, 4)
    if kind in (_INTEGER, _FLOAT, _ENUM):
        # h5py stores bools as an enumeration.
        is_known = 0 < size <= _LARGEST_NUMBER and (kind != _ENUM or _kind(data[8:]) == _INTEGER)
    elif kind == _OPAQUE:
        # bfloat16 and float8, which HDF5 does not know.
        is_known = 0 < size <= 2
    else:
        is_known = size > 0 and (kind == _STRING or (kind == _COMPOUND and _is_complex(data, size)))
    if not is_known:
        raise ValueError(f"it has values of HDF5's kind {kind} and {size} bytes, which Keras does not write")
    return size


def _kind(data: bytes) -> int:
    return number(data, 0, 1) & 0xF


def _is_complex(data: bytes, size: int) -> bool:
    """Return whether a compound is the pair of floats, `r` and `i`, as which h5py stores a complex number."""
    starts = (8, 68)
    members = [(data[start : start + 2], number(data, start + 40, 1)) for start in starts]
    return (
        data[0] >> 4 == 1
        and size in (8, 16)
        and number(data, 1, 2) == 2
        and members == [(b"r\0", 0x11), (b"i\0", 0x11)]
    )


class Texts:
    """Checks attributes one by one, and that their texts are together no longer than the file.

    Args:
        path: the path, for errors.
        file: the file.
    """

    def __init__(self, path: str, file: Bytes) -> None:
        self._path = path
        self._file = file
        self._left = file.size
        self._heaps: dict[int, dict[int, int]] = {}

    def check(self, data: bytes) -> str:
        """Check an attribute, and return its name.

        Args:
            data: the attribute message.

        Raises:
            SavedStateError: a text of it is not in its heap, or the heap is broken.
            ValueError: it is broken, of a kind that Keras does not write, or claims more bytes than it has.
        """
        # An attribute takes as long as several other parts.
        self._file.budget.spend(4)
        version, flags = number(data, 0, 1), number(data, 1, 1)
        sizes = [number(data, position, 2) for position in (2, 4, 6)]
        if version not in (1, 2, 3) or (version > 1 and flags & 3):
            raise ValueError("an attribute refers to another object, or is of an unknown version")
        position, parts = 9 if version == 3 else 8, []
        for size in sizes:
            parts.append(data[position : position + size])
            position += -(-size // 8) * 8 if version == 1 else size
        name, kind, space = parts
        shape = shape_of(space)
        count, size = 0 if shape is None else math.prod(shape), number(kind, 4, 4)
        if count * size > len(data) - position:
            raise ValueError(f"an attribute claims {count * size} bytes")
        self._check_values(kind, size, data[position : position + count * size])
        return name.rstrip(b"\0").decode("utf-8")

    def _check_values(self, kind: bytes, size: int, values: bytes) -> None:
        if _kind(kind) in (_INTEGER, _FLOAT, _STRING, _ENUM) and size > 0:
            return
        if _kind(kind) != _VARIABLE or number(kind, 1, 1) & 0xF != 1 or size != 16:
            raise ValueError(f"an attribute is of HDF5's kind {_kind(kind)}, which Keras does not write")
        self._file.budget.spend(len(values) // 16)
        for position in range(0, len(values), 16):
            length, heap, index = (number(values, position + at, width) for at, width in ((0, 4), (4, 8), (12, 4)))
            if heap not in (0, UNDEFINED):
                self._check_text(length, heap, index)
            elif length:
                raise ValueError(f"a text of {length} bytes is nowhere")

    def _check_text(self, length: int, heap: int, index: int) -> None:
        if heap not in self._heaps:
            self._heaps[heap] = heap_at(self._path, self._file, heap)
        if length > self._heaps[heap].get(index, -1):
            raise broken(self._path, f"the heap at byte {heap}", f"hold a text of {length} bytes as {index}", "less")
        self._left -= length
        if self._left < 0:
            raise ValueError("its texts are longer together than the file")


_START = b"GCOL\x01"
_HEADER = 16


def heap_at(path: str, file: Bytes, start: int) -> dict[int, int]:
    """Return the sizes in bytes of the objects in a global heap, by their numbers.

    Args:
        path: the path, for errors.
        file: the file.
        start: the address of the heap.

    Raises:
        SavedStateError: its end is after the end of the file, or its objects do not fill it one after the other.
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
        # Object 0 is the free space, whose size includes its header. The others are padded to multiples of 8 bytes.
        needed = size if index == 0 else _HEADER + -(-size // 8) * 8
        if needed < _HEADER or position + needed > end or index in sizes:
            raise broken(path, key, "be whole", f"an object of {size} bytes at {position}")
        sizes[index] = size
        position += needed
    return sizes
