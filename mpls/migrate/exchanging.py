"""Writes a file so that it has its old or its new contents at any moment."""

from __future__ import annotations

import contextlib
import os
import tempfile

__all__ = ["ChangedMeanwhileError", "exchange"]


class ChangedMeanwhileError(Exception):
    """A file has other contents than those that were read."""


def exchange(path: str, before: bytes, after: bytes) -> None:
    """Replace the contents of a file; of a link, those of the file that it points to.

    Args:
        path: the file.
        before: the contents that it has.
        after: those that it gets.

    Raises:
        ChangedMeanwhileError: it has other contents by now.
        OSError: it cannot be written; it is as it was.
    """
    path = os.path.realpath(path)
    with open(path, "rb") as file:
        if file.read(len(before) + 1) != before:
            raise ChangedMeanwhileError("has changed while it was migrated")
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=f".{os.path.basename(path)}.", suffix=".tmp")
    try:
        with open(handle, "wb") as file:
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, os.stat(path).st_mode & 0o7777)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
