"""NumPy's `.npz` files, plain arrays of numbers only."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from mpls.saved.errors import broken, reading_foreign_bytes
from mpls.saved.zips import Archive


def read_arrays(path: str, content: bytes, limit: int) -> dict[str, Any]:
    """Return the arrays by their names.

    Args:
        path: what errors call the file.
        content: the file.
        limit: how many bytes they may have.

    Raises:
        SavedStateError: it is broken, or holds anything else.
    """
    with Archive(path, content, limit) as archive:
        return {name.removesuffix(".npy"): _array(path, name, archive.read(name)) for name in archive.names}


def check_arrays(path: str, content: bytes, limit: int) -> None:
    """Check a file as `read_arrays` does, one array after the other.

    Raises:
        SavedStateError: as `read_arrays`.
    """
    with Archive(path, content, limit) as archive:
        for name in archive.names:
            _array(path, name, archive.read(name))


def _array(path: str, name: str, content: bytes) -> Any:
    with reading_foreign_bytes(path, name, "be a whole array"):
        stream = io.BytesIO(content)
        if np.lib.format.read_magic(stream) != (1, 0):
            raise broken(path, name, "be an array of NumPy's format 1.0", "another")
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        start = stream.tell()
        size = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if dtype.kind not in "iufb" or is_fortran or size != len(content) - start:
            raise broken(path, name, "be a plain array of numbers", f"dtype {dtype} and shape {shape}")
        return np.frombuffer(content, dtype, offset=start).reshape(shape)
