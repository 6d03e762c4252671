"""Zip files of unknown origin: the directory and all headers are checked before a member is unpacked."""

from __future__ import annotations

import io
import itertools
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from mpls.saved.errors import broken, reading_foreign_bytes
from mpls.saved.files import Window
from mpls.saved.memory_limits import PACK_AGAIN, unpacked_limit

# Signatures and sizes of the records of a zip file.
_END, _END_64, _LOCATOR_64, _LOCAL = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07", b"PK\x03\x04"
_END_SIZE, _END_64_SIZE, _LOCATOR_SIZE, _LOCAL_SIZE = 22, 56, 20, 30
# A model has three members, and its assets.
_MOST_MEMBERS = 10_000
# The most bytes of a member's entry in the directory, on average.
_MOST_PER_MEMBER = 4096
_PIECE, _BUFFER = 1 << 20, 1 << 18
# General purpose flags: compression level (two bits), sizes after the data, names in UTF-8.
_KNOWN_FLAGS = 0x2 | 0x4 | 0x8 | 0x800
_SIZES_FOLLOW = 0x8
# The extra field with a Unicode path, which some programs use instead of the name.
_OTHER_NAME = 0x7075
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class Archive:
    """A zip file whose directory and headers agree, so that other readers find the same members.

    Args:
        path: the path, for errors.
        source: the file, open: unbuffered or in memory. It stays open.
        limit: the most bytes that all members may have together, unpacked; by default what the file's size allows.

    Attributes:
        names: the names of the members, without folders.
        size: the size of the file in bytes.
        unpacked: the size of all members in bytes, unpacked.

    Raises:
        SavedStateError: it is broken, ambiguous, encrypted or packed in an unusual way, or would unpack to more bytes.
    """

    def __init__(self, path: str, source: io.RawIOBase, limit: int | None = None) -> None:
        self.path = path
        self._file = source
        self._starts: dict[str, int] = {}
        with reading_foreign_bytes(path, "the archive", "be a whole zip file"):
            self.size = source.seek(0, os.SEEK_END)
            start = self._check_end()
            self._zip = zipfile.ZipFile(source)
            self._members = {info.filename: info for info in self._zip.infolist()}
            if len(self._members) != len(self._zip.infolist()):
                raise ValueError("two members have the same name")
            self._check_members(start)
            self._check_sizes(unpacked_limit(self.size) if limit is None else limit)
        self.names = tuple(name for name in self._members if not name.endswith("/"))
        self.unpacked = sum(info.file_size for info in self._members.values())

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def read(self, name: str) -> bytes:
        """Return the content of a member.

        Raises:
            SavedStateError: it is missing, has another checksum, or is not as long as the directory says.
        """
        if name not in self._members:
            raise broken(self.path, name, "be in the file", "nothing", "Name a file that Model.save has written")
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
        return Window(self._file, self._starts[name], info.file_size)

    def stored_size(self, name: str) -> int:
        """Return the bytes that a member takes in the archive."""
        return self._members[name].compress_size

    def check(self, name: str) -> None:
        """Check the checksum and the size of a member.

        Raises:
            SavedStateError: as with `read`.
        """
        info = self._members[name]
        if info.compress_type != zipfile.ZIP_STORED:
            for _ in self._pieces(name):
                pass
            return
        with reading_foreign_bytes(self.path, name, "be whole"):
            if _checksum(Window(self._file, self._starts[name], info.file_size)) != info.CRC:
                raise ValueError("it has another checksum")

    def _unpacked(self, name: str) -> io.BytesIO:
        stream = io.BytesIO()
        for piece in self._pieces(name):
            stream.write(piece)
        return stream

    def _pieces(self, name: str) -> Iterator[bytes]:
        info = self._members[name]
        with reading_foreign_bytes(self.path, name, "be whole"), self._zip.open(info) as file:
            missing = info.file_size
            # zipfile compares the checksum at the end only.
            while piece := file.read(_PIECE):
                missing -= len(piece)
                yield piece
            if missing:
                raise ValueError(f"{missing} bytes are missing")

    def _check_end(self) -> int:
        """Check the records after the directory, and return the position of the directory.

        Programs differ in where they look for these records, so they must be at the very end of the file.
        """
        end = self.size - _END_SIZE
        content = self._at(end, _END_SIZE)
        if content[:4] != _END or content[-2:] != b"\0\0":
            raise ValueError("it does not end with its directory")
        disks, _, count, members, size, start = struct.unpack("<4x4H2L2x", content)
        disk = disks
        locator = self._at(end - _LOCATOR_SIZE, _LOCATOR_SIZE)
        if locator[:4] == _LOCATOR_64:
            end -= _LOCATOR_SIZE + _END_64_SIZE
            content = self._at(end, _END_64_SIZE)
            if content[:4] != _END_64 or struct.unpack("<8xQ4x", locator)[0] != end:
                raise ValueError("its large directory does not stand before its end")
            disk, disks, count, members, size, start = struct.unpack("<4x12x2L4Q", content)
        elif 0xFFFF in (count, members) or 0xFFFFFFFF in (size, start):
            raise ValueError("its large directory is missing")
        if disk or disks or count != members or start + size != end:
            raise ValueError("its directory is not where it says")
        if members > _MOST_MEMBERS or size > members * _MOST_PER_MEMBER:
            raise broken(
                self.path,
                "the directory",
                f"have at most {_MOST_MEMBERS} members",
                f"{members} in {size} bytes",
                PACK_AGAIN,
            )
        self._count = members
        return int(start)

    def _at(self, position: int, size: int) -> bytes:
        if position < 0:
            return b""
        self._file.seek(position)
        return self._file.read(size)

    def _check_members(self, directory: int) -> None:
        if len(self._members) != self._count:
            raise ValueError(f"its directory has {len(self._members)} members in place of {self._count}")
        end = 0
        for info in sorted(self._members.values(), key=lambda info: info.header_offset):
            _check_member(info)
            if info.header_offset < end:
                raise ValueError(f"{info.filename!r} lies where another member does")
            self._starts[info.filename] = self._data_start(info)
            end = self._starts[info.filename] + info.compress_size
        if end > directory:
            raise ValueError("a member lies where the directory does")

    def _data_start(self, info: zipfile.ZipInfo) -> int:
        """Return the position of a member's data, after checking that its local header agrees with the directory."""
        header = self._at(info.header_offset, _LOCAL_SIZE)
        mark, flags, method, crc, packed, size, name_size, more = struct.unpack("<4s2x2H4x3L2H", header)
        name = self._at(info.header_offset + _LOCAL_SIZE, name_size)
        encoding = "utf-8" if flags & 0x800 else "cp437"
        if (mark, flags, method, name.decode(encoding)) != (_LOCAL, info.flag_bits, info.compress_type, info.filename):
            raise ValueError(f"{info.filename!r} is another one where it lies")
        found, wanted = (crc, packed, size), (info.CRC, info.compress_size, info.file_size)
        # A large member has its sizes in an extra field, and one that was written to a pipe has them after its data.
        unknown = (0, 0xFFFFFFFF) if flags & _SIZES_FOLLOW else (0xFFFFFFFF,)
        for each, expected in zip(found, wanted, strict=True):
            if each != expected and each not in unknown:
                raise ValueError(f"{info.filename!r} has another size or checksum where it lies")
        return int(info.header_offset + _LOCAL_SIZE + name_size + more)

    def _check_sizes(self, limit: int) -> None:
        declared = 0
        for info in self._members.values():
            declared += info.file_size
            if declared > limit:
                raise broken(
                    self.path,
                    info.filename,
                    f"be of a plausible size, with which all members have at most {limit} bytes unpacked",
                    f"{info.file_size} bytes",
                    PACK_AGAIN,
                )


def _checksum(window: Window) -> int:
    """Return the CRC-32 of a member that is not compressed: a thread computes it while the next bytes are read."""
    # Small buffers stay in the CPU's cache.
    buffers = itertools.cycle([memoryview(bytearray(_BUFFER)) for _ in range(2)])
    crc = 0
    pending: Future[int] | None = None
    with ThreadPoolExecutor(1) as thread:
        for buffer in buffers:
            size = window.readinto(buffer)
            crc = pending.result() if pending else 0
            if not size:
                break
            pending = thread.submit(zlib.crc32, buffer[:size], crc)
    return crc


def _check_member(info: zipfile.ZipInfo) -> None:
    # zipfile cuts names at a zero byte, and turns the system's path separator into a slash.
    if info.filename != info.orig_filename or "\\" in info.filename or not info.filename:
        raise ValueError(f"{info.orig_filename!r} is no name in the archive")
    if info.flag_bits & ~_KNOWN_FLAGS or info.compress_type not in _METHODS:
        raise ValueError(f"{info.filename!r} is encrypted, or packed in an unusual way")
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise ValueError(f"{info.filename!r} is no regular file")
    if info.compress_type == zipfile.ZIP_STORED and info.file_size != info.compress_size:
        raise ValueError(f"{info.filename!r} claims another size than it has")
    if _OTHER_NAME in _extra_fields(info.extra):
        raise ValueError(f"{info.filename!r} has a second name")


def _extra_fields(extra: bytes) -> list[int]:
    kinds, position = [], 0
    while position + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, position)
        kinds.append(kind)
        position += 4 + size
    return kinds
