"""Files of a checkpoint or model, opened only if they are regular and inside its folder; parts of them as files."""

from __future__ import annotations

import io
import os
import stat
from typing import Any

from mpls.saved.errors import broken

# In bytes. JSON texts, graphs and indices that training runs write are smaller.
TEXT_LIMIT = 1 << 30


def size_of(path: str, inside: str | None = None) -> int:
    """Return the size of a regular file.

    Args:
        path: the file.
        inside: the folder that must hold it, links resolved; None for a file that the user has named.

    Raises:
        SavedStateError: it is missing, not a regular file, or outside the folder.
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
    """Return the content of a file; arguments as with `size_of`.

    Raises:
        SavedStateError: as with `size_of`, or the file is larger than `limit` bytes.
    """
    size = size_of(path, inside)
    if size > limit:
        raise broken(path, "the size", f"be at most {limit} bytes", size)
    with open(path, "rb") as file:
        return file.read(limit)


def read_range(path: str, offset: int, size: int) -> bytes:
    """Return `size` bytes of a file from `offset` on, fewer if the file ends before.

    It does not check the file: `size_of` must have accepted it.
    """
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(size)


def open_file(path: str) -> io.FileIO:
    """Open a regular file that the user has named, unbuffered.

    Raises:
        SavedStateError: as with `size_of`.
    """
    size_of(path)
    return io.FileIO(path)


class Window(io.RawIOBase):
    """A part of an open file as a file of its own, such as a member of an archive that is not compressed.

    Args:
        file: the file, unbuffered or in memory.
        start: the position of the part's first byte.
        size: the number of its bytes.
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
        """Return the position in the part."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position in the part, and return it."""
        self._position = max(offset + {os.SEEK_CUR: self._position, os.SEEK_END: self.size}.get(whence, 0), 0)
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer from the position on, as far as part and file reach; return the number of bytes."""
        view = memoryview(buffer).cast("B")
        wanted, found = max(min(len(view), self.size - self._position), 0), 0
        self._file.seek(self._start + self._position)
        # One read of the system returns at most 2 GiB.
        while found < wanted and (number := self._file.readinto(view[found:wanted])):
            found += number
        self._position += found
        return found

    def at(self, position: int, size: int) -> bytes:
        """Return `size` bytes at a position, fewer if the part ends before."""
        self.seek(position)
        return self.read(size) or b""


def whole(file: Any) -> Window:
    """Return a window on the whole of an open file."""
    return Window(file, 0, file.seek(0, os.SEEK_END))
