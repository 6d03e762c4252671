"""Slices of partitioned variables in a checkpoint, and their keys."""

from __future__ import annotations

from collections.abc import Sequence

from mpls.saved.memory_limits import Budget
from mpls.saved.protobuf import as_bytes, as_signed, fields

# The start and the length of a slice in each dimension; the length -1 stands for the whole dimension.
Extents = Sequence[tuple[int, int]]


def extents_of(data: memoryview, budget: Budget) -> Extents:
    """Return the slice that a TensorSliceProto describes.

    Raises:
        ValueError: it is broken.
    """
    found = []
    for number, value in fields(data, budget):
        if number == 1:
            extent = dict(fields(as_bytes(value), budget))
            found.append((as_signed(extent.get(1, 0)), as_signed(extent.get(2, -1 % 2**64))))
    return found


def place_of(extents: Extents, shape: tuple[int, ...]) -> tuple[slice, ...]:
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


def slice_key(name: str, extents: Extents) -> bytes:
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
