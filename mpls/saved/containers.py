"""What holds arrays: H5 files, zip archives and `.npz` files, read by h5py, `zipfile` and NumPy.

What refers to other files, claims bytes that it does not have, or would unpack to far more than its size, is refused.
"""

from __future__ import annotations

import functools
import io
import math
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np

from mpls.saved.foreign_files import IF_TRUSTED, broken, reading_foreign_bytes

# What a file may unpack to, in bytes: this much in any case, and so many times its size.
_ALWAYS, _TIMES = 256 << 20, 100
_PIECE = 1 << 20
# Of members that are unpacked into a file.
_LARGE = 16 << 20
# HDF5's own filters, from gzip to scale-offset, and LZF, which h5py brings. HDF5 loads others from the system.
_FILTERS = (1, 2, 3, 4, 5, 6, 32000)


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


def stored(shape: tuple[int, ...], dtype: Any, read: Callable[[], Any]) -> Any:
    """Return a `StoredArray`; or the array itself if it is a scalar."""
    return StoredArray(shape, dtype, read) if shape else read()


def unpacked_limit(source: Any) -> int:
    """Return the most bytes that the compressed parts of an open file may have unpacked."""
    return max(_ALWAYS, _TIMES * int(source.seek(0, os.SEEK_END)))


class Archive:
    """A zip file without two members of one name.

    Args:
        path: the path, for errors.
        source: the file, open; it stays open.
        limit: the most bytes that all members may have together, unpacked; by default what the file's size allows.

    Attributes:
        names: the names of the members, without folders.
        left: how many bytes more the limit would allow.
    """

    def __init__(self, path: str, source: Any, limit: int | None = None) -> None:
        self._path = path
        with reading_foreign_bytes(path, "the archive", "be a whole zip file"):
            limit = unpacked_limit(source) if limit is None else limit
            self._zip = zipfile.ZipFile(source)
            members = self._zip.infolist()
            self._members = {info.filename: info for info in members}
            if len(self._members) != len(members):
                raise ValueError("two members have the same name")
        self.left: int = limit - sum(info.file_size for info in members)
        if self.left < 0:
            got = f"{limit - self.left} bytes"
            raise broken(path, "the archive", f"unpack to at most {limit} bytes", got, IF_TRUSTED)
        self.names: tuple[str, ...] = tuple(name for name in self._members if not name.endswith("/"))

    def read(self, name: str) -> bytes:
        """Return the content of a member, after checking it."""
        content = io.BytesIO()
        self.check(name, content)
        return content.getvalue()

    def open(self, name: str) -> Any:
        """Return a member as a file, after checking it: in memory, or in a temporary file if it is large."""
        is_large = self._members[name].file_size >= _LARGE
        unpacked: Any = TemporaryFile() if is_large else io.BytesIO()  # noqa: SIM115 - the caller closes it
        self.check(name, unpacked)
        return unpacked

    def check(self, name: str, target: IO[bytes] | None = None) -> None:
        """Check the checksum of a member, and write its content to a target."""
        with reading_foreign_bytes(self._path, name, "be whole"), self._zip.open(self._members[name]) as file:
            # zipfile compares the checksum at the end.
            while piece := file.read(_PIECE):
                if target is not None:
                    target.write(piece)


def read_arrays(path: str, content: bytes, limit: int) -> dict[str, Any]:
    """Return the arrays of an `.npz` file by name, which must be plain numbers or bools.

    Args:
        path: the path, for errors.
        content: the bytes of the file.
        limit: the most bytes that the arrays may have together.
    """
    archive = Archive(path, io.BytesIO(content), limit)
    return {name.removesuffix(".npy"): _array(path, name, archive.read(name)) for name in archive.names}


def _array(path: str, name: str, content: bytes) -> Any:
    with reading_foreign_bytes(path, name, "be a whole array"):
        source = io.BytesIO(content)
        if np.lib.format.read_magic(source) != (1, 0):
            raise ValueError("it is not of NumPy's format 1.0")
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(source)
        if dtype.kind not in "iufb" or is_fortran:
            raise ValueError(f"it is no plain array of numbers, but of dtype {dtype}")
        return np.frombuffer(source.read(), dtype).reshape(shape)


def in_order(path: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays that `np.savez` has named `arr_0`, `arr_1` and so on, in this order."""
    with reading_foreign_bytes(path, "the arrays", "be numbered"):
        return {name: arrays[name] for name in (f"arr_{number}" for number in range(len(arrays)))}


class H5Content:
    """Datasets and attributes of an open H5 file.

    Args:
        path: the path, for errors.
        file: the open `h5py.File`; arrays other than scalars need it to stay open.
        limit: the most bytes that its chunked datasets may have together.

    Attributes:
        file: the open `h5py.File`.
        datasets: the datasets by name. An object with several names has only the one found first.
        groups: the names of the groups.
    """

    def __init__(self, path: str, file: Any, limit: int) -> None:
        self._path = path
        self.file = file
        self._left = limit
        self.groups: set[str] = set()
        self.datasets: dict[str, Any] = {}
        self._walk()

    def _walk(self) -> None:
        # By h5py's lower level, which takes half of the time.
        h5py = import_module("h5py")
        with self._guard("the root"):
            stack = [("", self.file["/"].id)]
            seen = {h5py.h5o.get_info(stack[0][1]).addr}
        while stack:
            name, item = stack.pop()
            with self._guard(name or "the root"):
                if isinstance(item, h5py.h5d.DatasetID):
                    self.datasets[name] = h5py.Dataset(item)
                    self._check_dataset(name, self.datasets[name])
                    continue
                if not isinstance(item, h5py.h5g.GroupID):
                    raise ValueError("it is neither a group nor a dataset")
                self.groups.add(name)
                for key in item:
                    path = f"{name}/{key.decode()}".lstrip("/")
                    if item.links.get_info(key).type != h5py.h5l.TYPE_HARD:
                        raise broken(self._path, path, "be a dataset in the file, or a group in it", "a link")
                    child = h5py.h5o.open(item, key)
                    if (address := h5py.h5o.get_info(child).addr) not in seen:
                        seen.add(address)
                        stack.append((path, child))

    def _check_dataset(self, name: str, dataset: Any) -> None:
        settings, dtype, shape = dataset.id.get_create_plist(), dataset.dtype, dataset.shape
        if dataset.external or dataset.is_virtual:
            raise broken(self._path, name, "have its values in the file itself", "a reference to another file")
        filters = [settings.get_filter(number)[0] for number in range(settings.get_nfilters())]
        if not set(filters) <= set(_FILTERS):
            raise broken(self._path, name, "be packed by HDF5's own filters", f"filters {filters}")
        if dtype.hasobject:
            raise broken(self._path, name, "hold numbers", f"dtype {dtype}")
        claimed = math.prod(shape or ()) * dtype.itemsize
        if dataset.chunks is None:
            held = dataset.id.get_storage_size()
            if claimed > held and shape is not None:
                raise broken(self._path, name, f"have the {claimed} bytes that it claims", f"{held} bytes")
        else:
            self._left -= claimed
            if self._left < 0:
                raise broken(self._path, name, "be of a size in proportion to the file", f"{claimed} bytes", IF_TRUSTED)

    def _guard(self, key: str) -> Any:
        return reading_foreign_bytes(self._path, key, "be whole")

    def array(self, name: str) -> Any:
        """Return a dataset of a numeric or bool dtype as a `StoredArray`; a scalar as a NumPy array."""
        if name not in self.datasets:
            raise broken(self._path, name, "be a dataset in the file", "nothing")
        dataset = self.datasets[name]
        with self._guard(name):
            dtype, shape = dataset.dtype, dataset.shape
            if shape is None:
                raise broken(self._path, name, "hold numbers", "nothing")
            if dtype.kind not in "iufb":
                raise broken(self._path, name, "be of a numeric dtype", str(dtype))
        return stored(shape, dtype, functools.partial(self._read, name, dataset))

    def _read(self, name: str, dataset: Any) -> Any:
        with self._guard(name):
            return np.asarray(dataset[()])

    def has(self, attribute: str, group: str = "/") -> bool:
        """Return whether there is an attribute of a group."""
        with self._guard(attribute):
            return group in self.file and attribute in self.file[group].attrs

    def text(self, attribute: str, group: str = "/") -> str | None:
        """Return an attribute of a group that is a text; None if the group or the attribute is missing."""
        if not self.has(attribute, group):
            return None
        with self._guard(attribute):
            value = self.file[group].attrs[attribute]
            value = value.decode("utf-8") if isinstance(value, bytes) else value
            if not isinstance(value, str):
                raise broken(self._path, attribute, "be text", value)
            return value

    def names(self, group: str, attribute: str) -> list[str]:
        """Return an attribute of a group that is a list of names; Keras saves a long list in several attributes."""
        with self._guard(f"{group}/{attribute}"):
            held = self.file[group].attrs
            found = [attribute] if attribute in held else []
            while found != [attribute] and (chunk := f"{attribute}{len(found)}") in held:
                found.append(chunk)
            values = [value for name in found for value in np.asarray(held[name]).ravel().tolist()]
            names = [value.decode("utf-8") if isinstance(value, bytes) else str(value) for value in values]
            if len(set(names)) != len(names):
                raise ValueError("a name is in it twice")
            return names


@contextmanager
def h5_content(path: str, source: Any, limit: int | None = None) -> Iterator[H5Content]:
    """Open an H5 file for reading in a block.

    Args:
        path: the path, for errors.
        source: the file, open, or a part of one.
        limit: the most bytes that its chunked datasets may have together; by default what its size allows.
    """
    with reading_foreign_bytes(path, "the file", "be a whole H5 file"):
        file = import_module("h5py").File(source, "r")
        limit = unpacked_limit(source) if limit is None else limit
    try:
        yield H5Content(path, file, limit)
    finally:
        with reading_foreign_bytes(path, "the file", "be a whole H5 file"):
            file.close()
