"""Files of an artefact, opened so that nothing outside it is."""

from __future__ import annotations

import io
import os
import stat
from typing import Any

from mpls.saved.errors import broken

# A JSON text, a graph or an index beyond this is none that a training run has written.
TEXT_LIMIT = 1 << 30


def size_of(path: str, inside: str | None = None) -> int:
    """Return the size of a regular file.

    Args:
        path: the file.
        inside: the folder that it must lie in, links resolved; None for a file that the user has named.

    Raises:
        SavedStateError: it is missing, no regular file, or a link to a place outside the folder.
    """
    if inside is not None:
        folder, real = os.path.realpath(inside), os.path.realpath(path)
        if os.path.commonpath([folder, real]) != folder:
            advice = "Copy the file itself there, if you trust it"
            raise broken(path, "the file", f"be inside {inside}, not a link to elsewhere", real, advice)
    if not os.path.exists(path):
        raise broken(path, "the file", "exist", "nothing", "Copy all files of the checkpoint or model")
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise broken(path, "the file", "be a regular file", stat.filemode(status.st_mode), "Name a file")
    return status.st_size


def read_bytes(path: str, inside: str | None = None, limit: int = TEXT_LIMIT) -> bytes:
    """Return a file's content.

    Raises:
        SavedStateError: as `size_of`, or it is larger than `limit`.
    """
    size = size_of(path, inside)
    if size > limit:
        raise broken(path, "the size", f"be at most {limit} bytes", size)
    with open(path, "rb") as file:
        return file.read(limit)


def read_range(path: str, offset: int, size: int) -> bytes:
    """Return `size` bytes of a file that `size_of` has accepted, fewer if it has shrunk."""
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(size)


def open_file(path: str) -> io.FileIO:
    """Open a regular file that the user has named, without a buffer.

    Raises:
        SavedStateError: as `size_of`.
    """
    size_of(path)
    return io.FileIO(path)


class Window(io.RawIOBase):
    """A part of an open file as a file of its own, so that what is in an archive is read where it lies.

    Args:
        file: the file, without a buffer, or in memory.
        start: where the part starts.
        size: how many bytes it has.
    """

    def __init__(self, file: Any, start: int, size: int) -> None:
        super().__init__()
        self._file = file
        self._start = start
        self._position = 0
        self.size = size

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the place in the part."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place in the part, and return it."""
        self._position = max(offset + {os.SEEK_CUR: self._position, os.SEEK_END: self.size}.get(whence, 0), 0)
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer from the place on, as far as the part and the file go; return how many bytes those are."""
        view = memoryview(buffer).cast("B")
        wanted, found = max(min(len(view), self.size - self._position), 0), 0
        self._file.seek(self._start + self._position)
        # The system gives two gigabytes at once at most.
        while found < wanted and (number := self._file.readinto(view[found:wanted])):
            found += number
        self._position += found
        return found

    def at(self, position: int, size: int) -> bytes:
        """Return some bytes, fewer where the part ends."""
        self.seek(position)
        return self.read(size) or b""


def whole(file: Any) -> Window:
    """Return all of an open file."""
    return Window(file, 0, file.seek(0, os.SEEK_END))
