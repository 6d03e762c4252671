"""Sorted tables, the format of the index of a checkpoint, and the checksums that are in all of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mpls.saved.limits import Budget
from mpls.saved.protobuf import read_varint

_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
_TRAILER = 5
# The part of the index for each tensor; keys share their beginnings.
_LARGEST_ENTRY = 256


def read_table(data: memoryview, limit: int) -> dict[bytes, memoryview]:
    """Return keys and values of a sorted table.

    Args:
        data: the file.
        limit: how many there may be.

    Raises:
        ValueError: it is broken, or has more.
    """
    if len(data) < _FOOTER or int.from_bytes(data[-8:], "little") != _MAGIC:
        raise ValueError("the end of the table is missing")
    if len(data) > _LARGEST_ENTRY * limit:
        raise ValueError(f"it has {len(data)} bytes, far more than the tensors in the data files need")
    footer = data[-_FOOTER:]
    position = 0
    for _ in range(2):
        _, position = read_varint(footer, position)
        _, position = read_varint(footer, position)
    _, position = read_varint(footer, 0)
    _, position = read_varint(footer, position)
    # Keys share prefixes, and blocks could lie over each other, with which a small file could ask for much memory.
    blocks = Budget(2 * len(data), "blocks")
    entries, letters = Budget(limit, "tensors"), Budget(64 * len(data) + (1 << 20), "letters in its keys")
    table: dict[bytes, memoryview] = {}
    for _, handle in _block(data, footer[position:], blocks, Budget(limit, "blocks")):
        for key, value in _block(data, handle, blocks, entries):
            letters.spend(len(key))
            if key in table:
                raise ValueError(f"a key is there twice: {key[:100]!r}")
            table[key] = value
    return table


def _block(data: memoryview, handle: memoryview, blocks: Budget, entries: Budget) -> Iterator[tuple[bytes, memoryview]]:
    offset, position = read_varint(handle, 0)
    size, _ = read_varint(handle, position)
    if offset + size + _TRAILER > len(data):
        raise ValueError("a block ends after the file")
    # The checksum takes that long.
    blocks.spend(size + _TRAILER)
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
        entries.spend()
        shared, position = read_varint(block, position)
        own, position = read_varint(block, position)
        length, position = read_varint(block, position)
        if shared > len(key) or position + own + length > end:
            raise ValueError("an entry ends after its block")
        key = key[:shared] + bytes(block[position : position + own])
        position += own
        yield key, block[position : position + length]
        position += length


_POLYNOMIAL = 0x82F63B78
_ALL_ONES = 0xFFFFFFFF
# Below this, one byte after another is as fast.
_SMALL = 1 << 14
_LANES = 1 << 12


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
    """Return the checksum of the chunks, one after the other, rotated and shifted as LevelDB's formats store it."""
    state = _ALL_ONES
    for chunk in chunks:
        state = _advance(state, chunk)
    crc = state ^ _ALL_ONES
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & _ALL_ONES


def _advance(state: int, data: bytes) -> int:
    if len(data) >= _SMALL:
        length = len(data) // _LANES
        state = _advance_lanes(state, data, length)
        data = data[length * _LANES :]
    for byte in data:
        state = _TABLE[(state ^ byte) & 0xFF] ^ state >> 8
    return state


def _advance_lanes(state: int, data: bytes, length: int) -> int:
    """Treat the data as lanes of equal length side by side, and join their states, which are linear in the bits."""
    columns = np.ascontiguousarray(np.frombuffer(data, np.uint8, _LANES * length).reshape(_LANES, length).T)
    states = np.zeros(_LANES, np.uint32)
    states[0] = state
    for column in columns:
        states = _TABLE_ARRAY[(states ^ column) & np.uint32(0xFF)] ^ states >> np.uint32(8)
    shift = _shift_by(length)
    while len(states) > 1:
        states = _apply(shift, states[0::2]) ^ states[1::2]
        shift = _apply(shift, shift)
    return int(states[0])


def _shift_by(length: int) -> Any:
    """Return what `length` zero bytes do to each of the 32 bits of a state."""
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
