"""TensorFlow's checkpoint files: an index, which is a sorted table, and data files with the bytes of the tensors.

They are read without TensorFlow, whose reader trusts the sizes that a file declares, and can end the process if the
file is broken.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mpls.formats.file_kinds import INDEX, data_file
from mpls.saved.containers import stored
from mpls.saved.foreign_files import broken, read_bytes, reading_foreign_bytes, size_of
from mpls.saved.messages import parse

# Dtypes by their numbers in TensorFlow's DataType; NumPy's names.
_STRING = 7
_BFLOAT16 = 14
_DTYPES: dict[int, str] = {
    1: "<f4",
    2: "<f8",
    3: "<i4",
    4: "u1",
    5: "<i2",
    6: "i1",
    8: "<c8",
    9: "<i8",
    10: "?",
    17: "<u2",
    18: "<c16",
    19: "<f2",
    22: "<u4",
    23: "<u8",
}


# The index is a sorted string table of LevelDB: the number at its end, and the sizes of its end and of a block's.
_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
_TRAILER = 5

# The start and the length of a slice in each dimension; the length -1 stands for the whole dimension.
Extents = Sequence[tuple[int, int]]


class Entry(NamedTuple):
    """The index entry of a tensor; `crc` is the masked CRC-32C of its bytes.

    A partitioned variable has no bytes of its own, but slices, each of which is saved under a key of its own.
    """

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    crc: int
    slices: Sequence[Extents]


class Bundle:
    """A checkpoint: its index is read at once, its tensors on request.

    Args:
        prefix: the path of the checkpoint, without `.index`.
        inside: the folder that must hold its files, links resolved; by default the folder of the prefix.
    """

    def __init__(self, prefix: str, inside: str | None = None) -> None:
        self.path = prefix
        self._folder = inside or os.path.dirname(prefix) or "."
        content = read_bytes(prefix + INDEX, self._folder)
        with reading_foreign_bytes(prefix + INDEX, "the table", "be a whole index of a TensorFlow checkpoint"):
            table = _read_table(memoryview(content))
            self._shards = _number_of_shards(table.pop(b"", b""))
            found = {key: _entry(value) for key, value in table.items()}
            self._slices = {key: each for key, each in found.items() if key.startswith(b"\0")}
            self.entries: dict[str, Entry] = {
                key.decode("utf-8"): each for key, each in found.items() if key not in self._slices
            }
        self._sizes: dict[int, int] = {}
        self._check_places(found)

    def _check_places(self, entries: Mapping[bytes, Entry]) -> None:
        """Refuse tensors that end after their data file, or that are together larger than it."""
        used: dict[int, int] = {}
        for raw, entry in entries.items():
            if entry.slices:
                continue
            key = raw.decode("utf-8", "backslashreplace")
            path = self._require_place(key, entry)
            used[entry.shard] = used.get(entry.shard, 0) + entry.size
            if used[entry.shard] > self._sizes[entry.shard]:
                raise broken(path, key, "have bytes of its own", "bytes of other tensors")

    def _require_place(self, key: str, entry: Entry) -> str:
        path = data_file(self.path, entry.shard, self._shards)
        if entry.shard not in self._sizes:
            self._sizes[entry.shard] = size_of(path, self._folder)
        if entry.offset + entry.size > self._sizes[entry.shard]:
            got = f"{self._sizes[entry.shard]} bytes"
            raise broken(path, key, f"end at byte {entry.offset + entry.size} of the file", got)
        return path

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def shape(self, key: str) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return self.entries[key].shape

    def text(self, key: str) -> bytes:
        """Return the bytes of a scalar string tensor."""
        entry = self._require(key)
        if entry.dtype != _STRING or entry.shape != ():
            raise broken(self.path, key, "be a scalar string", f"dtype {entry.dtype} and shape {entry.shape}")
        content = self._content(key, entry)
        with reading_foreign_bytes(self.path, key, "be a whole string"):
            length, start = _read_varint(content, 0)
            lengths = length.to_bytes(4 if length < 2**32 else 8, "little")
            text = content[start + 4 :]
            crc = masked_crc32c(lengths).to_bytes(4, "little")
            if len(text) != length or content[start : start + 4] != crc:
                raise ValueError("its length is another one")
            self._check_crc(key, entry, lengths, crc, text)
        return text

    def tensor(self, key: str) -> Any:
        """Return a tensor of a numeric or bool dtype as a `StoredArray`; a scalar as a NumPy array.

        A `StoredArray` reads the file, and checks the checksum, each time that its numbers are needed.
        """
        entry = self._require(key)
        dtype = self._dtype(key, entry)
        if entry.slices:
            return self._sliced(key, entry, dtype)
        if math.prod(entry.shape) * dtype.itemsize != entry.size:
            declared = f"{entry.size} bytes for shape {entry.shape} of dtype {dtype}"
            raise broken(self.path, key, "have as many bytes as its shape needs", declared)
        return stored(entry.shape, dtype, functools.partial(self._read, key, entry, dtype))

    def _read(self, key: str, entry: Entry, dtype: Any) -> Any:
        content = self._content(key, entry)
        self._check_crc(key, entry, content)
        return np.frombuffer(content, dtype).reshape(entry.shape)

    def _require(self, key: str) -> Entry:
        if key not in self.entries:
            raise broken(self.path, key, "be in the checkpoint, since its object graph names it", "nothing")
        return self.entries[key]

    def _dtype(self, key: str, entry: Entry) -> Any:
        if entry.dtype == _BFLOAT16:
            import ml_dtypes

            return np.dtype(ml_dtypes.bfloat16)
        if entry.dtype not in _DTYPES:
            raise broken(self.path, key, "be of a numeric dtype", f"TensorFlow's dtype number {entry.dtype}")
        return np.dtype(_DTYPES[entry.dtype])

    def _content(self, key: str, entry: Entry) -> bytes:
        with open(self._require_place(key, entry), "rb") as file:
            file.seek(entry.offset)
            return file.read(entry.size)

    def _check_crc(self, key: str, entry: Entry, *chunks: bytes) -> None:
        if masked_crc32c(*chunks) != entry.crc:
            raise broken(self.path, key, f"have the checksum {entry.crc:#010x}", f"{masked_crc32c(*chunks):#010x}")

    def _sliced(self, key: str, entry: Entry, dtype: Any) -> Any:
        with reading_foreign_bytes(self.path, key, "be whole in all its slices"):
            parts = [self._slices[_slice_key(key, extents)] for extents in entry.slices]
            # The slices, which are in the data files, are as large as the tensor that is made.
            if sum(part.size for part in parts) != math.prod(entry.shape) * dtype.itemsize:
                raise ValueError("they are not the whole tensor")
            result, is_there = np.zeros(entry.shape, dtype), np.zeros(entry.shape, bool)
            for extents, part in zip(entry.slices, parts, strict=True):
                place = _place_of(extents, entry.shape)
                size = result[place].shape
                if (part.dtype, part.shape, part.size) != (entry.dtype, size, math.prod(size) * dtype.itemsize):
                    raise ValueError("one is of another dtype or shape")
                if is_there[place].any():
                    raise ValueError("two of them overlap")
                is_there[place] = True
                content = self._content(key, part)
                if masked_crc32c(content) != part.crc:
                    raise ValueError("one has another checksum")
                result[place] = np.frombuffer(content, dtype).reshape(size)
        return result


def _number_of_shards(content: bytes | memoryview) -> int:
    header = parse("BundleHeader", content)
    if header.endianness:
        raise ValueError("the tensors are big-endian")
    shards = header.num_shards or 1
    if not 1 <= shards <= 99999:
        raise ValueError(f"the checkpoint has {shards} data files")
    return int(shards)


def _entry(content: memoryview) -> Entry:
    message = parse("BundleEntry", content)
    if message.shape.unknown_rank:
        raise ValueError("a tensor has no known rank")
    shape = tuple(each.size for each in message.shape.dim)
    if len(shape) > 254 or any(not 0 <= size < 2**62 for size in shape):
        raise ValueError(f"a tensor has the shape {shape}")
    if min(message.shard_id, message.offset, message.size) < 0:
        raise ValueError("a tensor has a negative place or size")
    return Entry(
        message.dtype,
        shape,
        message.shard_id,
        message.offset,
        message.size,
        message.crc32c,
        [_extents_of(each) for each in message.slices],
    )


def _extents_of(message: Any) -> Extents:
    """Return the slice that a message describes."""
    return [(each.start, each.length if each.HasField("length") else -1) for each in message.extent]


def _place_of(extents: Extents, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the index of a slice in a tensor of a shape.

    Raises:
        ValueError: the slice is of another rank, or not inside the tensor.
    """
    places = []
    for (start, length), side in zip(extents, shape, strict=True):
        stop = side if length == -1 else start + length
        if not 0 <= start <= stop <= side:
            raise ValueError(f"a slice ends at {stop} of {side}")
        places.append(slice(start, stop))
    return tuple(places)


def _slice_key(name: str, extents: Extents) -> bytes:
    """Return the key of a slice: name and numbers in TensorFlow's OrderedCode, whose bytes sort as the values do."""
    text = name.encode("utf-8").replace(b"\xff", b"\xff\1").replace(b"\0", b"\0\xff").replace(b"\xff\1", b"\xff\0")
    key = b"\0" + text + b"\0\1" + _number(len(extents))
    return key + b"".join(_signed(start) + _signed(length) for start, length in extents)


def _number(value: int) -> bytes:
    size = -(-value.bit_length() // 8)
    return bytes([size]) + value.to_bytes(size, "big")


def _signed(value: int) -> bytes:
    """Return a signed number in OrderedCode: the count of leading ones, or zeros if negative, tells its length."""
    size = 1
    while not -(1 << 7 * size - 1) <= value < 1 << 7 * size - 1:
        size += 1
    mark = ((1 << size) - 1) << 7 * size
    return ((value % (1 << 8 * size)) ^ mark).to_bytes(size, "big")


def _read_varint(data: memoryview | bytes, position: int) -> tuple[int, int]:
    """Return the varint at a position, modulo 2**64, and the position after it.

    Raises:
        ValueError: it has more than ten bytes, or ends after the data.
    """
    result = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & (2**64 - 1), position
    raise ValueError("a varint does not end")


def _read_table(data: memoryview) -> dict[bytes, memoryview]:
    """Return the values of a sorted table, the content of a file, by their keys.

    Raises:
        ValueError: it is broken.
    """
    if len(data) < _FOOTER or int.from_bytes(data[-8:], "little") != _MAGIC:
        raise ValueError("the end of the table is missing")
    footer = data[-_FOOTER:]
    position = 0
    for _ in range(2):
        _, position = _read_varint(footer, position)
    table: dict[bytes, memoryview] = {}
    for _, handle in _block(data, footer[position:]):
        for key, value in _block(data, handle):
            if key in table:
                raise ValueError(f"a key is there twice: {key[:100]!r}")
            table[key] = value
    return table


def _block(data: memoryview, handle: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    offset, position = _read_varint(handle, 0)
    size, _ = _read_varint(handle, position)
    if offset + size + _TRAILER > len(data):
        raise ValueError("a block ends after the file")
    block, trailer = data[offset : offset + size], data[offset + size : offset + size + _TRAILER]
    if masked_crc32c(bytes(block), bytes(trailer[:1])) != int.from_bytes(trailer[1:], "little"):
        raise ValueError("a block has another checksum")
    if trailer[0] != 0:
        raise ValueError(f"a block is compressed in the way {trailer[0]}, which TensorFlow does not use")
    restarts = int.from_bytes(block[-4:], "little")
    end = size - 4 * (restarts + 1)
    if end < 0:
        raise ValueError("a block is too short")
    key, position = b"", 0
    while position < end:
        shared, position = _read_varint(block, position)
        own, position = _read_varint(block, position)
        length, position = _read_varint(block, position)
        if shared > len(key) or position + own + length > end:
            raise ValueError("an entry ends after its block")
        key = key[:shared] + bytes(block[position : position + own])
        position += own
        yield key, block[position : position + length]
        position += length


# CRC-32C, the checksum in TensorFlow's files, computed with NumPy: Python has no function for it.
# The polynomial of CRC-32C, bits reversed.
_POLYNOMIAL = 0x82F63B78
_ALL_ONES = 0xFFFFFFFF
# Words of four bytes that are processed at once. Less data than one such row is processed byte by byte.
_LANES = 1 << 12
_SMALL = 4 * _LANES
_HALF, _HALF_BITS = np.uint32(0xFFFF), np.uint32(16)


def _make_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _make_table()
_TABLE_ARRAY = np.array(_TABLE, np.uint32)


def masked_crc32c(*chunks: bytes) -> int:
    """Return the CRC-32C of the concatenated chunks, masked as LevelDB's formats store it: rotated, plus a constant."""
    state = _ALL_ONES
    for chunk in chunks:
        state = _advance(state, chunk)
    crc = state ^ _ALL_ONES
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & _ALL_ONES


def _advance(state: int, data: bytes) -> int:
    if len(data) >= _SMALL:
        rows = len(data) // (4 * _LANES)
        state = _advance_rows(state, np.frombuffer(data, "<u4", rows * _LANES).reshape(rows, _LANES))
        data = data[4 * rows * _LANES :]
    for byte in data:
        state = _TABLE[(state ^ byte) & 0xFF] ^ state >> 8
    return state


def _advance_rows(state: int, rows: Any) -> int:
    """Return the state after whole rows of 32-bit words, given the state before them.

    A CRC is linear in the bits of state and data. So each column of words is reduced to one word first, all columns at
    once, and the columns are combined pairwise afterwards. The step from one row to the next is a table lookup for each
    half of a word.
    """
    low, high = _row_tables()
    columns = rows[0].copy()
    columns[0] ^= np.uint32(state)
    for row in rows[1:]:
        columns = low[columns & _HALF] ^ high[columns >> _HALF_BITS] ^ row
    shift = word = _shift_by(4)
    while len(columns) > 1:
        columns = _apply(shift, columns[0::2]) ^ columns[1::2]
        shift = _apply(shift, shift)
    return int(_apply(word, columns)[0])


@functools.cache
def _row_tables() -> tuple[Any, Any]:
    """Return, for each lower and each upper half of a state, the state after a row of zero bytes."""
    halves, shift = np.arange(1 << 16, dtype=np.uint32), _shift_by(4 * _LANES)
    return _apply(shift, halves), _apply(shift, halves << _HALF_BITS)


def _shift_by(length: int) -> Any:
    """Return the matrix of `length` zero bytes: for each bit of a state, the state after them. 32 uint32 numbers."""
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    power = _TABLE_ARRAY[bits & np.uint32(0xFF)] ^ bits >> np.uint32(8)
    result = bits
    while length:
        if length & 1:
            result = _apply(power, result)
        power = _apply(power, power)
        length >>= 1
    return result


def _apply(matrix: Any, states: Any) -> Any:
    result = np.zeros_like(states)
    for bit in range(32):
        result ^= (states >> np.uint32(bit) & np.uint32(1)) * matrix[bit]
    return result
