"""Open model files: frameworks open them by path, and must read the same file that was checked."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO

from mpls.errors import SavedStateError
from mpls.saved.errors import broken

# On Linux, a folder of links to the open files of the process. A link stays valid if the file's path changes.
_OPEN_FILES = "/proc/self/fd"
# In bytes. Some systems hold temporary files in memory, and may have no room for more.
_LARGE = 1 << 29
_ADVICE = "Load it once it has been written; mpls.keras.save_model writes such that others never see a part"


class OpenedFile:
    """An open file.

    Args:
        path: the path, for errors.
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
        """Return a path that leads to the open file in a block, even if another file is moved to the original path.

        Systems without `/proc/self/fd` have no such paths. The block gets the original path there.

        Raises:
            SavedStateError: the block has got the original path, and another file is there at its end.
        """
        if os.path.isdir(_OPEN_FILES):
            with tempfile.TemporaryDirectory(prefix=".mpls-", dir=self._folder()) as folder:
                # Frameworks tell the format by the suffix.
                link = os.path.join(folder, f"model{os.path.splitext(self._path)[1]}")
                os.symlink(f"{_OPEN_FILES}/{self._file.fileno()}", link)
                yield link
            return
        yield self._path
        if not os.path.samestat(os.stat(self._path), os.fstat(self._file.fileno())):
            raise self._refusal("another one at its place")

    def _folder(self) -> str | None:
        """Return the folder in which to make the link, beside which Keras 3 may unpack weights.

        It is the file's own folder if the file is large; else None, for the system's temporary folder.
        """
        folder = os.path.dirname(os.path.abspath(self._path))
        return folder if self._before[0] > _LARGE and os.access(folder, os.W_OK) else None

    def require_unchanged(self) -> None:
        """Refuse a file that was written to since it was opened.

        Raises:
            SavedStateError: its size or its modification time has changed.
        """
        if self._state() != self._before:
            raise self._refusal("another content")

    def _refusal(self, got: str) -> SavedStateError:
        return broken(self._path, "the file", "stay as it is while it is loaded", got, _ADVICE)
