"""Datasets and attributes of an H5 file, read by h5py; a file that refers to other files is refused."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from mpls.saved.arrays import StoredArray
from mpls.saved.errors import IF_TRUSTED, broken, reading_foreign_bytes
from mpls.saved.zips import unpacked_limit

# HDF5's own filters, from gzip to scale-offset, and LZF, which h5py brings. HDF5 loads others from the system.
_FILTERS = (1, 2, 3, 4, 5, 6, 32000)


# The start of a heap with texts; the index and the size of an object in it. Free space has the index 0.
_HEAP, _OBJECT = b"GCOL\1\0\0\0", struct.Struct("<H6xQ")
_PIECE = 1 << 20


def _h5py() -> Any:
    return import_module("h5py")


class Content:
    """Datasets and attributes of an H5 file.

    Args:
        path: the path, for errors.
        file: the open `h5py.File`.
        limit: the most bytes that its chunked datasets may have together.
        lazily: whether arrays other than scalars are `StoredArray`s, which need the file to stay open.

    Attributes:
        file: the open `h5py.File`.
        datasets: the datasets by name. An object with several names has only the one found first.

    Raises:
        SavedStateError: it is broken, refers to another file, or claims more bytes than it has.
    """

    def __init__(self, path: str, file: Any, limit: int, lazily: bool) -> None:
        self._path = path
        self.file = file
        self._lazily = lazily
        self._left = limit
        self._groups: set[str] = set()
        self.datasets: dict[str, Any] = {}
        self._walk()

    def _walk(self) -> None:
        h5py = _h5py()
        with self._guard("the root"):
            seen = {_address(self.file)}
        stack = [("", self.file)]
        while stack:
            name, item = stack.pop()
            with self._guard(name or "the root"):
                if isinstance(item, h5py.Dataset):
                    self._check_dataset(name, item)
                    self.datasets[name] = item
                    continue
                if not isinstance(item, h5py.Group):
                    raise ValueError("it is neither a group nor a dataset")
                self._groups.add(name)
                for key in item:
                    path = f"{name}/{key}".lstrip("/")
                    if not isinstance(item.get(key, getlink=True), h5py.HardLink):
                        raise broken(self._path, path, "be a dataset in the file, or a group in it", "a link")
                    child = item[key]
                    if (address := _address(child)) not in seen:
                        seen.add(address)
                        stack.append((path, child))

    def _check_dataset(self, name: str, dataset: Any) -> None:
        if dataset.external or dataset.is_virtual:
            raise broken(self._path, name, "have its values in the file itself", "a reference to another file")
        settings = dataset.id.get_create_plist()
        filters = [settings.get_filter(number)[0] for number in range(settings.get_nfilters())]
        if not set(filters) <= set(_FILTERS):
            raise broken(self._path, name, "be packed by HDF5's own filters", f"filters {filters}")
        if dataset.dtype.hasobject:
            raise broken(self._path, name, "hold numbers", f"dtype {dataset.dtype}")
        claimed = math.prod(dataset.shape or ()) * dataset.dtype.itemsize
        if dataset.chunks is None:
            held = dataset.id.get_storage_size()
            if claimed > held and dataset.shape is not None:
                raise broken(self._path, name, f"have the {claimed} bytes that it claims", f"{held} bytes")
        else:
            self._left -= claimed
            if self._left < 0:
                raise broken(self._path, name, "be of a size in proportion to the file", f"{claimed} bytes", IF_TRUSTED)

    def _guard(self, key: str) -> Any:
        return reading_foreign_bytes(self._path, key, "be whole")

    def has_group(self, name: str) -> bool:
        """Return whether there is a group with a name."""
        return name in self._groups

    def name_of(self, group: str) -> str | None:
        """Return the attribute `name` of a group, which Keras 3 writes; None if it is missing or no text."""
        with self._guard(group):
            item = self.file[group] if self.has_group(group) else None
            value = None if item is None or "name" not in item.attrs else item.attrs["name"]
            return value if isinstance(value, str) else None

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a dataset.

        Raises:
            SavedStateError: there is no such dataset.
        """
        return tuple(self._require(name).shape or ())

    def _require(self, name: str) -> Any:
        if name not in self.datasets:
            raise broken(self._path, name, "be a dataset in the file", "nothing")
        return self.datasets[name]

    def array(self, name: str) -> Any:
        """Return a dataset as a NumPy array or a `StoredArray`.

        Raises:
            SavedStateError: it is missing, broken, or not of a numeric or bool dtype.
        """
        dataset = self._require(name)
        with self._guard(name):
            dtype = dataset.dtype
            if dtype.kind not in "iufb":
                raise broken(self._path, name, "be of a numeric dtype", str(dtype))
        if self._lazily and dataset.shape:
            return StoredArray(dataset.shape, dtype, functools.partial(self._read, name, dataset))
        return self._read(name, dataset)

    def _read(self, name: str, dataset: Any) -> Any:
        with self._guard(name):
            return np.asarray(dataset[()])

    def text(self, name: str) -> str | None:
        """Return a text attribute of the file; None if it is missing.

        Raises:
            SavedStateError: it is not text, or broken.
        """
        with self._guard(name):
            if name not in self.file.attrs:
                return None
            value = self.file.attrs[name]
            if isinstance(value, bytes):
                value = value.decode("utf-8")
            if not isinstance(value, str):
                raise broken(self._path, name, "be text", value)
            return value

    def names(self, group: str, attribute: str) -> list[str]:
        """Return an attribute of a group that is a list of names; Keras saves a long list in several attributes.

        Raises:
            SavedStateError: it is broken, or a name is in it twice.
        """
        with self._guard(f"{group}/{attribute}"):
            item = self.file[group]
            found = [attribute] if attribute in item.attrs else []
            while not found or found != [attribute]:
                chunk = f"{attribute}{len(found)}"
                if chunk not in item.attrs:
                    break
                found.append(chunk)
            values = [value for name in found for value in np.asarray(item.attrs[name]).ravel().tolist()]
            names = [value.decode("utf-8") if isinstance(value, bytes) else str(value) for value in values]
            if len(set(names)) != len(names):
                raise ValueError("a name is in it twice")
            return names


def _refuse_endless_heaps(source: Any) -> None:
    """Refuse a file with free space of no bytes in a heap: HDF5 would read it for ever, and no signal ends that."""
    position = 0
    while piece := _read_at(source, position, _PIECE):
        start = -1
        while (start := piece.find(_HEAP, start + 1)) >= 0:
            end = int.from_bytes(_read_at(source, position + start + 8, 8), "little")
            heap = _read_at(source, position + start, min(end, _PIECE))
            place = 16
            while place + _OBJECT.size <= len(heap):
                index, size = _OBJECT.unpack_from(heap, place)
                if not index and not size:
                    raise ValueError(f"the heap at byte {position + start} has free space of no bytes")
                place += -(-size // 8) * 8 + (_OBJECT.size if index else 0)
        position += max(len(piece) - len(_HEAP), 1)


def _read_at(source: Any, position: int, size: int) -> bytes:
    source.seek(position)
    return bytes(source.read(size))


def _address(item: Any) -> Any:
    return _h5py().h5o.get_info(item.id).addr


@contextmanager
def content_of(path: str, source: Any, limit: int | None = None, *, lazily: bool) -> Iterator[Content]:
    """Open an H5 file for reading in a block.

    Args:
        path: the path, for errors.
        source: the file, open, or a part of one.
        limit: the most bytes that its chunked datasets may have together; by default what its size allows.
        lazily: whether arrays other than scalars are `StoredArray`s, which need the block not to have ended.

    Raises:
        SavedStateError: h5py cannot open or close it, it refers to another file, or claims more bytes than it has.
    """
    with reading_foreign_bytes(path, "the file", "be a whole H5 file"):
        _refuse_endless_heaps(source)
        file = _h5py().File(source, "r")
        limit = unpacked_limit(source.seek(0, 2)) if limit is None else limit
    try:
        yield Content(path, file, limit, lazily)
    finally:
        with reading_foreign_bytes(path, "the file", "be a whole H5 file"):
            file.close()
