"""Plain access to what is in an H5 file, once its structure has been looked at: it follows no link."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from mpls.saved.arrays import StoredArray, read_values
from mpls.saved.errors import broken, reading_foreign_bytes
from mpls.saved.files import Window
from mpls.saved.h5_data import Dataset
from mpls.saved.h5_vetting import Structure


def _h5py() -> Any:
    return import_module("h5py")


class Content:
    """Datasets and attributes of an H5 file.

    Args:
        path: what errors call the file.
        file: the file, open.
        structure: what is in it.
        source: its bytes.
        lazily: whether arrays are read when they are asked for their numbers, while the file is open.

    Attributes:
        file: the file, open.
        datasets: the datasets by name.
    """

    def __init__(self, path: str, file: Any, structure: Structure, source: Window, lazily: bool) -> None:
        self._path = path
        self.file = file
        self._structure = structure
        self._source = source
        self._lazily = lazily
        self.datasets = structure.datasets

    def _guard(self, key: str) -> Any:
        return reading_foreign_bytes(self._path, key, "be whole")

    def has_group(self, name: str) -> bool:
        """Return whether there is a group of that name."""
        return name in self._structure.groups

    def name_of(self, group: str) -> str | None:
        """Return the name that Keras 3 has given to a group, if it has."""
        with self._guard(group):
            item = self.file[group] if self.has_group(group) else None
            value = None if item is None or "name" not in item.attrs else item.attrs["name"]
            return value if isinstance(value, str) else None

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a dataset.

        Raises:
            SavedStateError: it is missing.
        """
        return self._require(name).shape

    def _require(self, name: str) -> Dataset:
        if name not in self.datasets:
            raise broken(self._path, name, "be a dataset in the file", "nothing")
        return self.datasets[name]

    def array(self, name: str) -> Any:
        """Return a dataset.

        Raises:
            SavedStateError: it is missing, broken, or of no numeric dtype.
        """
        known = self._require(name)
        with self._guard(name):
            dataset = self.file[name]
            if dataset.dtype.kind not in "iufb":
                raise broken(self._path, name, "be of a numeric dtype", str(dataset.dtype))
        if self._lazily and known.shape:
            return StoredArray(known.shape, dataset.dtype, functools.partial(self._read, name, dataset, known.offset))
        return self._read(name, dataset, known.offset)

    def _read(self, name: str, dataset: Any, offset: int | None) -> Any:
        with self._guard(name):
            if offset is None:
                return np.asarray(dataset[()])
            return read_values(self._source, offset, dataset.shape, dataset.dtype)

    def text(self, name: str) -> str | None:
        """Return a text attribute of the file, or None.

        Raises:
            SavedStateError: it is no text.
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
        """Return an attribute that is a list of different names; long ones are saved in chunks."""
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


@contextmanager
def content_of(path: str, source: Window, structure: Structure, *, lazily: bool) -> Iterator[Content]:
    """Open an H5 file for reading, once its structure has been looked at.

    Args:
        path: what errors call it.
        source: the file.
        structure: what `check_h5` has returned.
        lazily: whether arrays are read when they are asked for their numbers, while the file is open.
    """
    with reading_foreign_bytes(path, "the file", "be a whole H5 file"):
        file = _h5py().File(source, "r")
    try:
        yield Content(path, file, structure, source, lazily)
    finally:
        with reading_foreign_bytes(path, "the file", "be a whole H5 file"):
            file.close()
