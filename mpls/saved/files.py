"""Files of an artefact, opened so that nothing outside it is."""

from __future__ import annotations

import os
import stat

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
