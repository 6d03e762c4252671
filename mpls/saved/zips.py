"""Zip files: `zipfile` reads them, as the frameworks do; what is unpacked is in proportion to the file's size."""

from __future__ import annotations

import io
import os
import struct
import zipfile

from mpls.saved.errors import IF_TRUSTED, broken, reading_foreign_bytes
from mpls.saved.files import Window

# What a file may unpack to, in bytes: this much in any case, and so many times its size.
_ALWAYS, _TIMES = 256 << 20, 100
_LOCAL_HEADER = struct.Struct("<26x2H")
_PIECE = 1 << 20


def unpacked_limit(size: int) -> int:
    """Return the most bytes that the compressed parts of a file of `size` bytes may have unpacked."""
    return max(_ALWAYS, _TIMES * size)


class Archive:
    """A zip file.

    Args:
        path: the path, for errors.
        source: the file, open: unbuffered or in memory. It stays open.
        limit: the most bytes that all members may have together, unpacked; by default what the file's size allows.

    Attributes:
        names: the names of the members, without folders.
        left: how many bytes more the limit would allow.

    Raises:
        SavedStateError: it is broken, encrypted, has two members of one name, or would unpack to more bytes.
    """

    def __init__(self, path: str, source: io.RawIOBase, limit: int | None = None) -> None:
        self.path = path
        self._file = source
        with reading_foreign_bytes(path, "the archive", "be a whole zip file"):
            limit = unpacked_limit(source.seek(0, os.SEEK_END)) if limit is None else limit
            self._zip = zipfile.ZipFile(source)
            members = self._zip.infolist()
            self._members = {info.filename: info for info in members}
            if len(self._members) != len(members):
                raise ValueError("two members have the same name")
        self.left = limit - sum(info.file_size for info in members)
        if self.left < 0:
            got = f"{limit - self.left} bytes"
            raise broken(path, "the archive", f"unpack to at most {limit} bytes", got, IF_TRUSTED)
        self.names = tuple(name for name in self._members if not name.endswith("/"))

    def read(self, name: str) -> bytes:
        """Return the content of a member.

        Raises:
            SavedStateError: it has another checksum, or is not as long as the directory says.
        """
        return self._unpacked(name).getvalue()

    def open(self, name: str) -> Window:
        """Return a member as a file, after checking its checksum. A compressed member is unpacked into memory.

        Raises:
            SavedStateError: as with `read`.
        """
        info = self._members[name]
        if info.compress_type != zipfile.ZIP_STORED:
            return Window(self._unpacked(name), 0, info.file_size)
        self.check(name)
        self._file.seek(info.header_offset)
        name_size, extra_size = _LOCAL_HEADER.unpack(self._file.read(_LOCAL_HEADER.size))
        return Window(self._file, info.header_offset + _LOCAL_HEADER.size + name_size + extra_size, info.file_size)

    def check(self, name: str) -> None:
        """Check the checksum and the size of a member.

        Raises:
            SavedStateError: as with `read`.
        """
        self._copy(name, None)

    def _unpacked(self, name: str) -> io.BytesIO:
        content = io.BytesIO()
        self._copy(name, content)
        return content

    def _copy(self, name: str, target: io.BytesIO | None) -> None:
        info = self._members[name]
        missing = info.file_size
        with reading_foreign_bytes(self.path, name, "be whole"), self._zip.open(info) as file:
            if info.compress_type == zipfile.ZIP_STORED and info.compress_size != info.file_size:
                raise ValueError("it has another size than it says")
            # zipfile compares the checksum at the end only.
            while piece := file.read(_PIECE):
                missing -= len(piece)
                if target is not None:
                    target.write(piece)
            if missing:
                raise ValueError(f"{missing} bytes are missing")
