"""Datasets and attributes of an H5 file, read by h5py after `check_h5` has accepted the file."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from mpls.saved.arrays import StoredArray, read_array_at
from mpls.saved.errors import broken, reading_foreign_bytes
from mpls.saved.files import Window
from mpls.saved.h5_data import Dataset
from mpls.saved.h5_vetting import LONGEST_NAME, Structure
from mpls.saved.memory_limits import Budget


def _h5py() -> Any:
    return import_module("h5py")


class Content:
    """Datasets and attributes of an H5 file.

    Args:
        path: the path, for errors.
        file: the open `h5py.File`.
        structure: the structure that `check_h5` has returned.
        source: the bytes of the file.
        lazily: whether arrays other than scalars are `StoredArray`s, which need the file to stay open.

    Attributes:
        file: the open `h5py.File`.
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
        """Return whether there is a group with a name."""
        return name in self._structure.groups

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
        return self._require(name).shape

    def _require(self, name: str) -> Dataset:
        if name not in self.datasets:
            raise broken(self._path, name, "be a dataset in the file", "nothing")
        return self.datasets[name]

    def array(self, name: str) -> Any:
        """Return a dataset as a NumPy array or a `StoredArray`.

        Raises:
            SavedStateError: it is missing, broken, or not of a numeric or bool dtype.
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
            return read_array_at(self._source, offset, dataset.shape, dataset.dtype)

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
            if any(len(name) > LONGEST_NAME for name in names):
                raise ValueError(f"a name in it has more than {LONGEST_NAME} characters")
            return names

    def sizes_of_weights(self, group: str, budget: Budget) -> Iterator[int]:
        """Yield the bytes of each array that a framework reads for the weights of a group.

        Raises:
            SavedStateError: the list of their names is broken or too long, or a name is in it twice.
        """
        for name in self.names(group, "weight_names"):
            with self._guard(f"{group}/{name}"):
                budget.spend()
                # A name may be a path to anywhere in the file.
                size = int(getattr(self.file[group].get(name), "nbytes", 0))
            yield size


@contextmanager
def content_of(path: str, source: Window, structure: Structure, *, lazily: bool) -> Iterator[Content]:
    """Open an H5 file for reading in a block; `check_h5` must have accepted it.

    Args:
        path: the path, for errors.
        source: the file.
        structure: the structure that `check_h5` has returned.
        lazily: whether arrays other than scalars are `StoredArray`s, which need the block not to have ended.

    Raises:
        SavedStateError: h5py cannot open or close it.
    """
    with reading_foreign_bytes(path, "the file", "be a whole H5 file"):
        file = _h5py().File(source, "r")
    try:
        yield Content(path, file, structure, source, lazily)
    finally:
        with reading_foreign_bytes(path, "the file", "be a whole H5 file"):
            file.close()
