"""Storage of datasets in H5 files: where the values are, and whether they have the size that the dataset declares."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from mpls.saved.errors import broken
from mpls.saved.h5_bytes import FILTERS, LAYOUT, SPACE, TYPE, UNDEFINED, Bytes, Message, leaves, number
from mpls.saved.h5_types import item_size, shape_of
from mpls.saved.memory_limits import PACK_AGAIN, Budget

# Layout classes, and filters.
_COMPACT, _CONTIGUOUS, _CHUNKED, _VIRTUAL = 0, 1, 2, 3
_GZIP, _SHUFFLE, _CHECKSUM = 1, 2, 3
_CHECKSUM_SIZE = 4
# The most bytes that a byte of gzip can stand for, rounded up: gzip packs zeros to 1 / 1032.
_BEST_COMPRESSION = 1100
_SLACK = 1 << 20
_PIECE = 1 << 20


@dataclass(frozen=True)
class Dataset:
    """A dataset.

    Attributes:
        shape: its shape; `()` for a dataset without values.
        offset: the position of its values in the file; None if they are not in one piece, or there are none.
        size: the size of its values in bytes, unpacked.
    """

    shape: tuple[int, ...]
    offset: int | None
    size: int


class Values:
    """Checks datasets one by one, and that all of them together stay within limits.

    Args:
        path: the path, for errors.
        file: the file.
        limit: the most bytes that chunked datasets may have together, unpacked. The
            contiguous ones may have as many as the file.
    """

    def __init__(self, path: str, file: Bytes, limit: int) -> None:
        self._path = path
        self._file = file
        self._limit = limit
        self._unpacked = Budget(limit, "compressed values")
        self._plain = Budget(file.size, "values")

    def check(self, name: str, messages: Sequence[Message]) -> Dataset:
        """Check a dataset, and return what is known of it.

        Args:
            name: its name.
            messages: the messages of its object header.

        Raises:
            SavedStateError: its values are in another file, it declares more of them than are stored, or chunked
                datasets are together too large.
            ValueError: it is broken, or stored in a way that Keras does not use.
        """
        parts = {message.kind: message.data for message in messages}
        if SPACE not in parts or TYPE not in parts:
            raise ValueError("a dataset has no shape, or no dtype")
        shape, item, layout = shape_of(parts[SPACE]), item_size(parts[TYPE]), parts[LAYOUT]
        size = 0 if shape is None else math.prod(shape) * item
        version, kind = number(layout, 0, 1), number(layout, 1, 1)
        if kind == _VIRTUAL:
            raise broken(self._path, name, "have its values in the file itself", "a reference to another file")
        if version not in (3, 4) or (version == 4 and kind == _CHUNKED):
            raise ValueError("a dataset is stored as h5py does with libver='latest' only")
        offset = None
        if kind == _CHUNKED:
            self._check_chunks(name, shape or (), item, size, layout, parts.get(FILTERS))
        elif kind == _COMPACT:
            self._require(name, size, number(layout, 2, 2))
        else:
            offset, stored = number(layout, 2, 8), number(layout, 10, 8)
            self._check_piece(name, size, offset, stored)
        return Dataset(shape or (), offset if size else None, size)

    def _require(self, name: str, size: int, stored: int) -> None:
        if size > stored:
            raise broken(self._path, name, f"fit into the {stored} bytes that it has", f"{size} bytes")

    def _check_piece(self, name: str, size: int, offset: int, stored: int) -> None:
        self._require(name, size, 0 if offset == UNDEFINED else stored)
        if size and offset + size > self._file.size:
            raise ValueError("its values are after the end")
        self._plain.spend(size)

    def _check_chunks(
        self, name: str, shape: tuple[int, ...], item: int, size: int, layout: bytes, filters: bytes | None
    ) -> None:
        dimensions = number(layout, 2, 1)
        sides = [number(layout, 11 + 4 * position, 4) for position in range(dimensions)]
        if dimensions != len(shape) + 1 or sides[-1] != item or 0 in sides:
            raise ValueError("its chunks are of another shape or dtype")
        kinds = _filters(filters)
        chunk = math.prod(sides)
        tree = number(layout, 3, 8)
        found = [] if tree == UNDEFINED else list(leaves(self._file, tree, 1, 8 + 8 * dimensions))
        stored = sum(number(key, 0, 4) for key, _ in found)
        self._require(name, size, stored * (_BEST_COMPRESSION if _GZIP in kinds else 1) + _SLACK * bool(stored))
        claimed = max(size, chunk * max(len(found), 1))
        if claimed > self._unpacked.left:
            constraint = f"leave all compressed datasets at most {self._limit} bytes unpacked"
            raise broken(self._path, name, constraint, f"{claimed} bytes", PACK_AGAIN)
        self._unpacked.spend(claimed)
        for key, offset in found:
            self._check_chunk(chunk, kinds, number(key, 0, 4), number(key, 4, 4), offset)

    def _check_chunk(self, size: int, kinds: Sequence[int], stored: int, mask: int, offset: int) -> None:
        """Check that a chunk unpacks to `size` bytes; HDF5 would allocate whatever it unpacks to."""
        if offset + stored > self._file.size:
            raise ValueError("a chunk is after the end")
        used = [kind for position, kind in enumerate(kinds) if not mask >> position & 1]
        wanted, packed, is_packed = size, stored, False
        for kind in used:
            if kind == _GZIP:
                is_packed = True
            elif kind == _CHECKSUM and is_packed:
                packed -= _CHECKSUM_SIZE
            elif kind == _CHECKSUM:
                wanted += _CHECKSUM_SIZE
        self._file.budget.spend(1 + (stored >> 10))
        if (_inflated_size(self._file, offset, packed, wanted) if is_packed else packed) != wanted:
            raise ValueError(f"a chunk does not have {size} bytes")


def _inflated_size(file: Bytes, offset: int, packed: int, wanted: int) -> int:
    """Return the unpacked size of zlib data; -1 if the data are cut off, or unpack to more than `wanted` bytes."""
    stream = zlib.decompressobj()
    size, start, rest = 0, 0, b""
    while size <= wanted and not stream.eof:
        if not rest:
            rest = file.at(offset + start, max(min(_PIECE, packed - start), 0))
            start += _PIECE
            if not rest:
                break
        size += len(stream.decompress(rest, min(wanted + 1 - size, _PIECE)))
        rest = stream.unconsumed_tail
    return size if stream.eof else -1


def _filters(data: bytes | None) -> list[int]:
    """Return the filters of a chunked dataset, in the order in which a writer applies them.

    Raises:
        ValueError: there are others than gzip, shuffle and checksum, or one is there twice.
    """
    if data is None:
        return []
    version, count = number(data, 0, 1), number(data, 1, 1)
    kinds, position = [], 8 if version == 1 else 2
    for _ in range(count):
        kind = number(data, position, 2)
        named = version == 1 or kind >= 256
        name = number(data, position + 2, 2) if named else 0
        position += 4 if named else 2
        values = number(data, position + 2, 2)
        position += 4 + (-(-name // 8) * 8 if version == 1 else name)
        position += 4 * (values + (values % 2 if version == 1 else 0))
        kinds.append(kind)
    if version not in (1, 2) or len(set(kinds)) != count or not set(kinds) <= {_GZIP, _SHUFFLE, _CHECKSUM}:
        raise ValueError("it is compressed otherwise than with gzip; pack it again")
    return kinds
