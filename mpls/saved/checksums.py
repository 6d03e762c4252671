"""CRC-32C, the checksum in TensorFlow's checkpoints, computed with NumPy: Python has no function for it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

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
