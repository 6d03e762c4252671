"""Norms of arrays in float64, digests of their bits, and how many of their elements are not finite."""

from __future__ import annotations

import math
import struct
import zlib
from typing import Any

__all__ = ["LARGE", "Measured", "digest_of", "groups_of", "is_large", "measured"]

# An array with at least this many elements is measured by itself; smaller ones are measured together.
LARGE = 1 << 14


class Measured:
    """What was measured of a list of arrays.

    Attributes:
        norms: the Euclidean norm of each, in float64.
        digest: eight hexadecimal digits, which are the same for the same bits.
        nonfinite: the number of elements that are infinite or NaN, in all.
    """

    def __init__(self, norms: list[float], digest: str, nonfinite: int) -> None:
        self.norms = norms
        self.digest = digest
        self.nonfinite = nonfinite


def groups_of(kinds: Any) -> list[list[int]]:
    """Return the positions of arrays that are measured together: small ones of one dtype and shape.

    Args:
        kinds: dtype and shape of each; the shape, or a size in it, is None where it is another in each step.
    """
    small: dict[Any, list[int]] = {}
    groups: list[list[int]] = []
    for at, (dtype, shape) in enumerate(kinds):
        if shape is None or is_large(shape):
            groups.append([at])
        else:
            small.setdefault((dtype, tuple(shape)), []).append(at)
    return groups + list(small.values())


def is_large(shape: Any) -> bool:
    """Return whether an array is measured by itself: it is large, or its size, with a None in it, is not known."""
    size = 1
    for each in shape:
        size *= LARGE if each is None else each
    return size >= LARGE


def measured(arrays: Any, groups: list[list[int]], count: int) -> Measured:
    """Measure arrays.

    Args:
        arrays: NumPy arrays of float dtypes, one for each group: the array, or those of the group stacked.
        groups: what `groups_of` returned.
        count: the number of arrays that are in the groups.
    """
    import numpy as np

    norms = [0.0] * count
    sums = []
    nonfinite = 0
    for array, positions in zip(arrays, groups):
        rows = np.ascontiguousarray(array).reshape(len(positions), -1)
        squares = _sums_of_squares(rows)
        for position, square in zip(positions, squares):
            norms[position] = math.sqrt(square)
        if not math.isfinite(sum(squares)):
            nonfinite += int(np.count_nonzero(~np.isfinite(rows)))
        sums.append(zlib.crc32(rows.reshape(-1).view(np.uint8).data))
    return Measured(norms, digest_of(sums), nonfinite)


def digest_of(sums: Any) -> str:
    """Return one digest of several CRC-32 sums."""
    return f"{zlib.crc32(struct.pack(f'<{len(sums)}I', *sums)):08x}"


def _sums_of_squares(rows: Any) -> list[float]:
    import numpy as np

    with np.errstate(all="ignore"):
        if rows.size < LARGE or len(rows) > 1:
            wide = rows.astype(np.float64)
            squares: list[float] = np.add.reduce(wide * wide, axis=1).tolist()
            return squares
        # In pieces that stay in the processor's cache.
        total = 0.0
        for start in range(0, rows.size, LARGE):
            piece = rows[0, start : start + LARGE].astype(np.float64)
            # Not `np.dot`, for which NumPy may start threads.
            total += float(np.add.reduce(piece * piece))
        return [total]
