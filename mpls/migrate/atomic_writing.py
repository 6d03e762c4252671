"""Writes a file so that it has its old or its new contents at any moment."""

from __future__ import annotations

import contextlib
import os
import tempfile

__all__ = ["ChangedMeanwhileError", "Names", "write_atomically"]

# The files with several names that were written, by device and number of the old file: one of these names, and the
# contents that it has now.
Names = dict[tuple[int, int], tuple[str, bytes]]


class ChangedMeanwhileError(Exception):
    """A file has other contents than those that were read."""


def write_atomically(path: str, before: bytes, after: bytes, names: Names) -> None:
    """Replace the contents of a file; of a link, those of the file that it points to.

    Args:
        path: the file.
        before: the contents that it has.
        after: those that it gets.
        names: the names that have new contents; if one was a name of the same file, it is so again.

    Raises:
        ChangedMeanwhileError: it has other contents by now.
        OSError: it cannot be written; it is as it was.
    """
    path = os.path.realpath(path)
    with open(path, "rb") as file:
        if file.read(len(before) + 1) != before:
            raise ChangedMeanwhileError("has changed while it was migrated")
    status = os.stat(path)
    file_number = (status.st_dev, status.st_ino)
    twin, its_contents = names.get(file_number, ("", b""))
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=f".{os.path.basename(path)}.", suffix=".tmp")
    try:
        with open(handle, "wb") as file:
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, status.st_mode & 0o7777)
        if twin and its_contents == after:
            os.unlink(temporary)
            os.link(twin, temporary)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if status.st_nlink > 1:
        names[file_number] = path, after
