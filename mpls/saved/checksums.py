"""CRC-32C, with which checkpoints are protected, fast enough in NumPy for large ones."""

from __future__ import annotations

from typing import Any

import numpy as np

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
