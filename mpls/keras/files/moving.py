"""Files and folders brought to the disk, and moved into the place of others."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys

# Of Linux: relative to the current folder; exchange.
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def bring_to_disk(path: str) -> None:
    """Have a file, or all of a folder, survive a crash of the machine."""
    if os.path.isdir(path):
        for folder, _, names in os.walk(path):
            for name in names:
                sync(os.path.join(folder, name))
            sync(folder)
    else:
        sync(path)


def sync(path: str) -> None:
    """Bring one file to the disk, or the names in one folder."""
    if os.name == "nt" and os.path.isdir(path):
        # Windows has no handles of folders to bring to the disk.
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def move(source: str, target: str, aside: str) -> None:
    """Move a file or folder into the place of another."""
    if not os.path.isdir(source) and not os.path.isdir(target):
        os.replace(source, target)
    elif not os.path.lexists(target):
        os.rename(source, target)
    elif exchange_paths(source, target):
        # What was at the target is in the workspace now, and goes with it.
        return
    else:
        old = f"{target}.old"
        if os.path.lexists(old):
            os.rename(old, aside)
        os.rename(target, old)
        os.rename(source, target)
        shutil.rmtree(old) if os.path.isdir(old) else os.remove(old)


def exchange_paths(first: str, second: str) -> bool:
    """Exchange two files or folders in one step, if the system can (Linux; glibc 2.28, and most file systems).

    Returns:
        Whether it has.
    """
    if not sys.platform.startswith("linux"):
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    paths = (os.fsencode(first), os.fsencode(second))
    return bool(rename(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0)
