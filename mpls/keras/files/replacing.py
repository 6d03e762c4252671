"""Flushes files and folders to the disk, and replaces others by them."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys

# Constants of Linux for `renameat2`.
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def flush_to_disk(path: str) -> None:
    """Flush a file, or all files of a folder, to the disk, so that they survive a crash of the machine."""
    if os.path.isdir(path):
        for folder, _, names in os.walk(path):
            for name in names:
                sync(os.path.join(folder, name))
            sync(folder)
    else:
        sync(path)


def sync(path: str) -> None:
    """Flush the content of one file, or the entries of one folder."""
    if os.name == "nt" and os.path.isdir(path):
        # Windows cannot flush folders.
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace(source: str, target: str, aside: str) -> None:
    """Replace what is at `target` by a file or folder.

    Args:
        source: the new file or folder, on the file system of the target.
        target: the path that it gets.
        aside: a path that is free, for a `<target>.old` that an earlier call has left.
    """
    if not os.path.isdir(source) and not os.path.isdir(target):
        os.replace(source, target)
    elif not os.path.lexists(target):
        os.rename(source, target)
    elif exchange_paths(source, target):
        # The old target is at `source` now; the caller deletes it.
        return
    else:
        old = f"{target}.old"
        if os.path.lexists(old):
            os.rename(old, aside)
        os.rename(target, old)
        os.rename(source, target)
        shutil.rmtree(old) if os.path.isdir(old) else os.remove(old)


def exchange_paths(first: str, second: str) -> bool:
    """Exchange two files or folders in one step, on Linux with glibc 2.28 or later and most file systems.

    Returns:
        Whether they were exchanged.
    """
    if not sys.platform.startswith("linux"):
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    paths = (os.fsencode(first), os.fsencode(second))
    return bool(rename(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0)
