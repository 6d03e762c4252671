"""Writes a trace: a JSON file with a line for each step."""

from __future__ import annotations

import json
import math
import os
from typing import Any

__all__ = ["FORMAT", "VERSION", "CannotTraceError", "TraceWriter", "plain_number"]

FORMAT = "mpls trace"
VERSION = 1


class CannotTraceError(Exception):
    """A trace cannot be written where it is to go."""


class TraceWriter:
    """Writes a trace beside the place where it is to be, and moves it there when it is whole.

    Args:
        path: the file.
        head: what is known before the first step, by name.
        force: whether an existing file is replaced.

    Raises:
        CannotTraceError: there is such a file, or it cannot be written.
    """

    def __init__(self, path: str, head: Any, force: bool) -> None:
        self.path = path
        self.rows = 0
        self._force = force
        self._partial = f"{path}.part-{os.getpid()}"
        if os.path.isdir(path):
            raise CannotTraceError(f"{path} is a directory; give the name of a file")
        if not force and os.path.lexists(path):
            raise CannotTraceError(f"{path} exists already; choose another name, or replace it with --force")
        try:
            self._file = open(self._partial, "w")  # noqa: SIM115
        except OSError as error:
            raise CannotTraceError(f"{path} cannot be written: {error.strerror}") from None
        self._file.write("{\n" + _members(head) + ',\n"steps": [')

    def add(self, row: Any) -> None:
        """Write a step, a dict."""
        self._file.write((",\n" if self.rows else "\n") + _text(row))
        self.rows += 1

    def finish(self, tail: Any) -> None:
        """Write what is known after the last step, by name, and put the file in its place.

        Raises:
            CannotTraceError: meanwhile there is another such file.
        """
        self._file.write("\n],\n" + _members(tail) + "\n}\n")
        self._file.close()
        if self._force:
            os.replace(self._partial, self.path)
            return
        try:
            os.link(self._partial, self.path)
        except FileExistsError:
            raise CannotTraceError(
                f"{self.path} exists by now; what was recorded is in {os.path.basename(self._partial)}"
            ) from None
        os.remove(self._partial)

    def discard(self) -> None:
        """Write nothing after all."""
        self._file.close()
        os.remove(self._partial)


def plain_number(value: Any) -> Any:
    """Return a number as JSON has it: one that is not finite is a string, `"inf"`, `"-inf"` or `"nan"`."""
    value = float(value)
    if math.isfinite(value):
        return value
    return str(value)


def _members(values: Any) -> str:
    return ",\n".join(f"{json.dumps(name)}: {_text(value)}" for name, value in values.items())


def _text(value: Any) -> str:
    return json.dumps(value, allow_nan=False)
