"""TensorFlow's checkpoint files: an index, which is a sorted table, and shards of raw tensors.

They are read without TensorFlow: its reader trusts sizes that a file declares, and can end the process over a broken
one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpls.saved.checksums import masked_crc32c
from mpls.saved.files import read_bytes, read_range, size_of
from mpls.saved.validity import broken, reading_foreign_bytes
from mpls.saved.wire import Value, as_bytes, as_int, as_signed, fields, read_varint

_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
_TRAILER = 5
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


@dataclass(frozen=True)
class Entry:
    """Where a tensor is.

    Attributes:
        dtype: its number in TensorFlow.
        shape: its shape.
        shard: the number of the data file.
        offset: where it starts there.
        size: its bytes there.
        crc: their checksum.
        is_sliced: whether it is saved in slices under other keys, as partitioned variables are.
    """

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    crc: int
    is_sliced: bool


class Bundle:
    """A checkpoint.

    Args:
        prefix: its path without `.index`.
        inside: the folder that its files must be in, links resolved; by default that of the prefix.

    Raises:
        SavedStateError: its index is broken, or a file is missing.
    """

    def __init__(self, prefix: str, inside: str | None = None) -> None:
        self.path = prefix
        self._folder = inside or os.path.dirname(prefix) or "."
        content = read_bytes(f"{prefix}.index", self._folder)
        with reading_foreign_bytes(f"{prefix}.index", "the table", "be a whole index of a TensorFlow checkpoint"):
            table = dict(_table(memoryview(content)))
            self._shards = _number_of_shards(table.pop(b"", b""))
            self.entries = {
                bytes(key).decode("utf-8"): _entry(value) for key, value in table.items() if not key.startswith(b"\0")
            }
        self._sizes: dict[int, int] = {}

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def shape(self, key: str) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return self.entries[key].shape

    def text(self, key: str) -> bytes:
        """Return a scalar of dtype string.

        Raises:
            SavedStateError: it is none, or broken.
        """
        entry = self._require(key)
        if entry.dtype != _STRING or entry.shape != ():
            raise broken(self.path, key, "be a scalar string", f"dtype {entry.dtype} and shape {entry.shape}")
        content = self._content(key, entry)
        with reading_foreign_bytes(self.path, key, "be a whole string"):
            length, start = read_varint(content, 0)
            lengths = length.to_bytes(4 if length < 2**32 else 8, "little")
            text = content[start + 4 :]
            crc = masked_crc32c(lengths).to_bytes(4, "little")
            if len(text) != length or content[start : start + 4] != crc:
                raise ValueError("its length is another one")
            self._check_crc(key, entry, lengths, crc, text)
        return text

    def tensor(self, key: str) -> Any:
        """Return a tensor as a NumPy array.

        Raises:
            SavedStateError: it is missing, of a dtype that is no number, or broken.
        """
        entry = self._require(key)
        if entry.is_sliced:
            return self._sliced(key)
        dtype = self._dtype(key, entry)
        if math.prod(entry.shape) * dtype.itemsize != entry.size:
            declared = f"{entry.size} bytes for shape {entry.shape} of dtype {dtype}"
            raise broken(self.path, key, "have as many bytes as its shape needs", declared)
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
        path = f"{self.path}.data-{entry.shard:05d}-of-{self._shards:05d}"
        if entry.shard not in self._sizes:
            self._sizes[entry.shard] = size_of(path, self._folder)
        if entry.offset + entry.size > self._sizes[entry.shard]:
            got = f"{self._sizes[entry.shard]} bytes"
            raise broken(path, key, f"end at byte {entry.offset + entry.size} of the file", got)
        return read_range(path, entry.offset, entry.size)

    def _check_crc(self, key: str, entry: Entry, *chunks: bytes) -> None:
        if masked_crc32c(*chunks) != entry.crc:
            raise broken(self.path, key, f"have the checksum {entry.crc:#010x}", f"{masked_crc32c(*chunks):#010x}")

    def _sliced(self, key: str) -> Any:
        """Have TensorFlow put slices together; their sizes are checked here."""
        available = sum(
            size_of(f"{self.path}.data-{shard:05d}-of-{self._shards:05d}", self._folder)
            for shard in range(self._shards)
        )
        entry = self.entries[key]
        if math.prod(entry.shape) * self._dtype(key, entry).itemsize > available:
            raise broken(self.path, key, f"fit into the {available} bytes of the data files", f"shape {entry.shape}")
        import tensorflow as tf

        with reading_foreign_bytes(self.path, key, "be whole in all its slices"):
            try:
                return tf.train.load_checkpoint(self.path).get_tensor(key)
            except tf.errors.OpError as error:
                raise ValueError(error.message) from error


def _table(data: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    """Yield keys and values of a sorted table."""
    if len(data) < _FOOTER or int.from_bytes(data[-8:], "little") != _MAGIC:
        raise ValueError("the end of the table is missing")
    footer = data[-_FOOTER:]
    position = 0
    for _ in range(2):
        _, position = read_varint(footer, position)
        _, position = read_varint(footer, position)
    _, position = read_varint(footer, 0)
    _, position = read_varint(footer, position)
    # Keys share prefixes, with which a small file could ask for much memory.
    budget = 64 * len(data) + (1 << 20)
    for _, value in _block(data, footer[position:]):
        for inner_key, inner_value in _block(data, value):
            budget -= len(inner_key)
            if budget < 0:
                raise ValueError("the keys are absurdly long")
            yield inner_key, inner_value


def _block(data: memoryview, handle: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    offset, position = read_varint(handle, 0)
    size, _ = read_varint(handle, position)
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
        shared, position = read_varint(block, position)
        own, position = read_varint(block, position)
        length, position = read_varint(block, position)
        if shared > len(key) or position + own + length > end:
            raise ValueError("an entry ends after its block")
        key = key[:shared] + bytes(block[position : position + own])
        position += own
        yield key, block[position : position + length]
        position += length


def _number_of_shards(header: bytes | memoryview) -> int:
    values = dict(fields(header))
    if values.get(2, 0) != 0:
        raise ValueError("the tensors are big-endian")
    shards = as_int(values.get(1, 1))
    if not 1 <= shards <= 99999:
        raise ValueError(f"the checkpoint has {shards} data files")
    return shards


def _entry(data: memoryview) -> Entry:
    values: dict[int, Value] = dict(fields(data))
    shape = _shape(as_bytes(values.get(2, memoryview(b""))))
    return Entry(
        dtype=as_int(values.get(1, 0)),
        shape=shape,
        shard=as_int(values.get(3, 0)),
        offset=as_int(values.get(4, 0)),
        size=as_int(values.get(5, 0)),
        crc=as_int(values.get(6, 0)),
        is_sliced=7 in values,
    )


def _shape(data: memoryview) -> tuple[int, ...]:
    sizes = []
    for number, value in fields(data):
        if number == 3 and value:
            raise ValueError("a tensor has no known rank")
        if number == 2:
            sizes.append(as_signed(dict(fields(as_bytes(value))).get(1, 0)))
    if len(sizes) > 254 or any(not 0 <= size < 2**62 for size in sizes):
        raise ValueError(f"a tensor has the shape {sizes}")
    return tuple(sizes)
