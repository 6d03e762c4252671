"""Arrays that stay in an open file until their numbers are needed, and the arrays in `.npz` files of NumPy."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mpls.saved.errors import broken, reading_foreign_bytes
from mpls.saved.files import Window
from mpls.saved.zips import Archive


class StoredArray:
    """An array in an open file. `np.asarray` reads the numbers from the file, each time anew.

    Args:
        shape: its shape.
        dtype: its NumPy dtype.
        read: reads and returns the array.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any, read: Callable[[], Any]) -> None:
        self.shape = shape
        self.dtype = dtype
        self._read = read

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return the numbers in a new array."""
        array = self._read()
        return array if dtype is None else array.astype(dtype, copy=False)


def read_arrays(path: str, source: Window, limit: int, *, lazily: bool = False) -> dict[str, Any]:
    """Return the arrays of an `.npz` file by name.

    Args:
        path: the path, for errors.
        source: the file.
        limit: the most bytes that the arrays may have together.
        lazily: whether arrays other than scalars are `StoredArray`s, which need the file to stay open.

    Raises:
        SavedStateError: it is broken, or holds something else than arrays of numbers or bools in C order.
    """
    archive = Archive(path, source, limit)
    return {name.removesuffix(".npy"): _array(path, name, archive, lazily) for name in archive.names}


def in_order(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays that `np.savez` has named `arr_0`, `arr_1` and so on, in this order.

    Raises:
        KeyError: they have other names.
    """
    names = [f"arr_{number}" for number in range(len(arrays))]
    return {name: arrays[name] for name in names}


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
        return read_array_at(source, start, shape, dtype)


def read_array_at(source: Window, start: int, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return an array whose bytes are in one piece in a file, in C order.

    Args:
        source: the file.
        start: the position of its first byte.
        shape: its shape.
        dtype: its NumPy dtype.

    Raises:
        ValueError: the file has become too short.
    """
    array = np.empty(shape, dtype)
    source.seek(start)
    if source.readinto(array.reshape(-1).view(np.uint8)) != array.nbytes:
        raise ValueError("the file has become shorter")
    return array
