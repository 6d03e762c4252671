"""Arrays in files that are read when somebody asks for their numbers, and NumPy's `.npz` files of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from mpls.saved.errors import broken, reading_foreign_bytes
from mpls.saved.files import Window
from mpls.saved.zips import Archive


class StoredArray:
    """An array in an open file: NumPy reads it each time that it asks for the numbers, and nobody keeps them.

    Args:
        shape: its shape.
        dtype: its dtype.
        read: returns it.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any, read: Callable[[], Any]) -> None:
        self.shape = shape
        self.dtype = dtype
        self._read = read

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return the numbers, in an array that nobody else has."""
        array = self._read()
        return array if dtype is None else array.astype(dtype, copy=False)


def read_arrays(path: str, source: Window, limit: int, *, lazily: bool = False) -> dict[str, Any]:
    """Return the arrays of an `.npz` file by their names.

    Args:
        path: what errors call the file.
        source: the file.
        limit: how many bytes they may have.
        lazily: whether they are read when they are asked for their numbers, while the file is open.

    Raises:
        SavedStateError: it is broken, or holds anything else than plain arrays of numbers.
    """
    archive = Archive(path, source, limit)
    return {name.removesuffix(".npy"): _array(path, name, archive, lazily) for name in archive.names}


def _array(path: str, name: str, archive: Archive, lazily: bool) -> Any:
    source = archive.open(name)
    with reading_foreign_bytes(path, name, "be a whole array"):
        if np.lib.format.read_magic(source) != (1, 0):
            raise broken(path, name, "be an array of NumPy's format 1.0", "another")
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(source)
        start = source.tell()
        size = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if dtype.kind not in "iufb" or is_fortran or size != source.size - start:
            raise broken(path, name, "be a plain array of numbers", f"dtype {dtype} and shape {shape}")
    read = functools.partial(_values, path, name, source, start, shape, dtype)
    return StoredArray(shape, dtype, read) if lazily and shape else read()


def _values(path: str, name: str, source: Window, start: int, shape: tuple[int, ...], dtype: Any) -> Any:
    with reading_foreign_bytes(path, name, "be a whole array"):
        return read_values(source, start, shape, dtype)


def read_values(source: Window, start: int, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return an array that lies in a file in one piece.

    Raises:
        ValueError: the file has become shorter.
    """
    array = np.empty(shape, dtype)
    source.seek(start)
    if source.readinto(array.reshape(-1).view(np.uint8)) != array.nbytes:
        raise ValueError("the file has become shorter")
    return array
