"""The check of an H5 file's whole structure, before HDF5 itself opens the file."""

from __future__ import annotations

from dataclasses import dataclass, field

from mpls.saved.errors import broken, reading_foreign_bytes
from mpls.saved.files import Window
from mpls.saved.h5_bytes import (
    ATTRIBUTE,
    ATTRIBUTE_INFO,
    EXTERNAL,
    LAYOUT,
    LINK_INFO,
    TABLE,
    TYPE,
    UNDEFINED,
    Bytes,
    Message,
    links_in,
    messages_at,
    number,
    root_of,
)
from mpls.saved.h5_data import Dataset, Values
from mpls.saved.h5_types import Texts
from mpls.saved.memory_limits import Budget, object_limit, unpacked_limit

# The most links, header messages, texts and blocks of 1 KiB for each object, on average. Keras has about ten.
_PARTS = 16
LONGEST_NAME = 2048


@dataclass(frozen=True)
class Structure:
    """The names of the groups and datasets in an H5 file. An object with several names has only the one found first."""

    groups: set[str] = field(default_factory=set)
    datasets: dict[str, Dataset] = field(default_factory=dict)


def check_h5(path: str, source: Window, limit: int | None = None, size: int | None = None) -> Structure:
    """Refuse an H5 file that HDF5 cannot open safely.

    Refused are soft and external links, external and virtual datasets; sizes that the file could not hold; B-trees
    with cycles; and dtypes and ways of storing values that Keras does not use.

    Args:
        path: the path, for errors.
        source: the file.
        limit: the most bytes that its chunked datasets may have together; by default what its size allows.
        size: the bytes that the file takes in an archive, if it is packed in one; by default its size.

    Returns:
        The names of the groups and datasets in it.

    Raises:
        SavedStateError: it is refused, or broken.
    """
    size = source.size if size is None else size
    with reading_foreign_bytes(path, "the file", "be a whole H5 file"):
        return _Walk(path, source, unpacked_limit(size) if limit is None else limit, object_limit(size)).structure()


class _Walk:
    """A walk over all objects of an H5 file that can be reached from the root group."""

    def __init__(self, path: str, source: Window, limit: int, items: int) -> None:
        self._path = path
        self._file = Bytes(source, Budget(_PARTS * items, "parts"))
        self._objects = Budget(items, "objects")
        self._texts = Texts(path, self._file)
        self._values = Values(path, self._file, limit)
        self._found = Structure()

    def structure(self) -> Structure:
        root, noted = root_of(self._file)
        seen = {root}
        stack = [("", root, noted)]
        while stack:
            name, position, noted = stack.pop()
            with reading_foreign_bytes(self._path, name or "the root", "be whole, and of what Keras writes"):
                links = self._visit(name, position, noted)
            for link, target, target_noted in links:
                # A seen target is a second name of an object, or the end of a cycle.
                if target not in seen:
                    seen.add(target)
                    stack.append((link, target, target_noted))
        return self._found

    def _visit(self, name: str, position: int, noted: bytes) -> list[tuple[str, int, bytes]]:
        """Check an object, and return its links: name, address of the target, symbol table entry."""
        self._objects.spend()
        messages = messages_at(self._file, position)
        kinds = {message.kind for message in messages}
        self._check_attributes(messages)
        if EXTERNAL in kinds:
            raise broken(self._path, name, "have its values in the file itself", "a reference to another file")
        if LAYOUT in kinds:
            if kinds & {TABLE, LINK_INFO}:
                raise ValueError("it is a dataset and a group")
            self._found.datasets[name] = self._values.check(name, messages)
            return []
        if TYPE in kinds:
            raise ValueError("it is neither a group nor a dataset")
        self._found.groups.add(name)
        return self._links(name, messages, noted)

    def _check_attributes(self, messages: list[Message]) -> None:
        names = []
        for message in messages:
            if message.kind == ATTRIBUTE:
                names.append(self._texts.check(message.data))
            elif message.kind == ATTRIBUTE_INFO:
                start = 4 if number(message.data, 1, 1) & 1 else 2
                if number(message.data, start, 8) != UNDEFINED:
                    raise ValueError("its attributes are stored as h5py does with libver='latest' only")
        if len(set(names)) != len(names):
            raise ValueError("two attributes have the same name")

    def _links(self, group: str, messages: list[Message], noted: bytes) -> list[tuple[str, int, bytes]]:
        found: dict[bytes, tuple[str, int, bytes]] = {}
        for raw, target, target_noted in links_in(self._file, messages, noted):
            name = f"{group}/{raw.decode('utf-8')}".lstrip("/")
            if raw in found or raw in (b"", b".", b"..") or b"/" in raw or len(name) > LONGEST_NAME:
                raise ValueError(f"{raw[:100]!r} is no name, or that of two members")
            if target is None:
                raise broken(self._path, name, "be a dataset in the file, or a group in it", "a link")
            found[raw] = name, target, target_noted
        return list(found.values())
