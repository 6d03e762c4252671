"""A file that stays the one that was looked at: for a framework, which opens it by a path of its own accord."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO

from mpls.errors import SavedStateError
from mpls.saved.errors import broken

# Of Linux: links to the files that the process has open, whatever their paths mean meanwhile.
_OPEN_FILES = "/proc/self/fd"
# Bytes for which there may be no room among temporary files, which some systems hold in memory.
_LARGE = 1 << 29
_ADVICE = "Load it once it has been written; mpls.keras.save_model writes such that others never see a part"


class PinnedFile:
    """A file that is open.

    Args:
        path: its path, for errors.
        file: the file.
    """

    def __init__(self, path: str, file: FileIO) -> None:
        self._path, self._file = path, file
        self._before = self._state()

    def _state(self) -> tuple[int, int]:
        status = os.fstat(self._file.fileno())
        return status.st_size, status.st_mtime_ns

    @contextmanager
    def at_a_path(self) -> Iterator[str]:
        """Have a path, in a block, at which a framework finds the file, though another one is moved to its place.

        Raises:
            SavedStateError: the system has no such paths, and another one was.
        """
        if os.path.isdir(_OPEN_FILES):
            with tempfile.TemporaryDirectory(prefix=".mpls-", dir=self._folder()) as folder:
                # Frameworks tell formats by the ending.
                link = os.path.join(folder, f"model{os.path.splitext(self._path)[1]}")
                os.symlink(f"{_OPEN_FILES}/{self._file.fileno()}", link)
                yield link
            return
        yield self._path
        if not os.path.samestat(os.stat(self._path), os.fstat(self._file.fileno())):
            raise self._refusal("another one at its place")

    def _folder(self) -> str | None:
        """Return where Keras 3 may unpack weights: that is beside the path, if there is much of them."""
        folder = os.path.dirname(os.path.abspath(self._path))
        return folder if self._before[0] > _LARGE and os.access(folder, os.W_OK) else None

    def require_unchanged(self) -> None:
        """Refuse a file that has been written since it was opened.

        Raises:
            SavedStateError: it has.
        """
        if self._state() != self._before:
            raise self._refusal("another content")

    def _refusal(self, got: str) -> SavedStateError:
        return broken(self._path, "the file", "stay as it is while it is loaded", got, _ADVICE)
