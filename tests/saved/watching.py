"""Sees from outside who opens, reads or changes what is in a folder, native code included; Linux only."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import pathlib
import struct
import sys

_ACCESS, _MODIFY, _ATTRIBUTES, _OPEN, _CREATE, _DELETE = 0x1, 0x2, 0x4, 0x20, 0x100, 0x200
_MOVED = 0xC0
_ALL = _ACCESS | _MODIFY | _ATTRIBUTES | _OPEN | _CREATE | _DELETE | _MOVED
_NAMES = {
    _ACCESS: "read",
    _MODIFY: "changed",
    _ATTRIBUTES: "attributes",
    _OPEN: "opened",
    _CREATE: "made",
    _DELETE: "deleted",
}
_NAMES |= {0x40: "moved away", 0x80: "moved here"}
_HEADER = struct.Struct("iIII")

IS_SUPPORTED = sys.platform == "linux"
WHY_NOT = "only Linux's inotify tells who opens a file"


class Watch:
    """Watches a folder, its files, and the folders in it that are there now."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1 failed")
        self._folder = folder
        self._places: dict[int, str] = {}
        self.renew()

    def renew(self) -> None:
        """Watch what is there now, and forget what has happened."""
        for path in (self._folder, *(each for each in self._folder.rglob("*") if each.is_dir())):
            number = self._library.inotify_add_watch(self._descriptor, os.fsencode(path), _ALL)
            if number < 0:
                raise OSError(ctypes.get_errno(), "inotify_add_watch failed", str(path))
            self._places[number] = str(path.relative_to(self._folder.parent))
        self.seen()

    def seen(self) -> list[str]:
        """Return what has happened since the last call, each once."""
        found: dict[str, None] = {}
        while True:
            try:
                content = os.read(self._descriptor, 1 << 16)
            except BlockingIOError:
                return list(found)
            position = 0
            while position < len(content):
                number, mask, _, length = _HEADER.unpack_from(content, position)
                position += _HEADER.size
                name = content[position : position + length].rstrip(b"\x00").decode("utf-8", "replace")
                position += length
                for bit, word in _NAMES.items():
                    if mask & bit:
                        found[f"{self._places.get(number, '?')}/{name} {word}"] = None

    def close(self) -> None:
        os.close(self._descriptor)
