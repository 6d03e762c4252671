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
        if not path.strip():
            raise CannotTraceError("the name of the trace is empty; give the name of a file")
        if os.path.isdir(path):
            raise CannotTraceError(f"{path} is a directory; give the name of a file")
        if not force and os.path.lexists(path):
            raise CannotTraceError(f"{path} exists already; choose another name, or replace it with --force")
        try:
            # The program may change its directory.
            self._place = os.path.join(os.getcwd(), path)
            self._partial = f"{self._place}.part-{os.getpid()}"
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
            CannotTraceError: meanwhile there is another such file, or this one cannot be written any more.
        """
        try:
            self._file.write("\n],\n" + _members(tail) + "\n}\n")
            self._file.close()
            self._put_in_place()
        except FileExistsError:
            raise CannotTraceError(f"{self.path} exists by now; {self._where_it_is()}") from None
        except OSError as error:
            reason = f"{self.path} cannot be written: {error.strerror}"
            raise CannotTraceError(f"{reason}; {self._where_it_is()}") from None

    def discard(self) -> None:
        """Write nothing after all."""
        self._file.close()
        if os.path.exists(self._partial):
            os.remove(self._partial)

    def _put_in_place(self) -> None:
        if self._force:
            os.replace(self._partial, self._place)
            return
        try:
            os.link(self._partial, self._place)
        except FileExistsError:
            raise
        except OSError:
            # Some file systems have no links.
            open(self._place, "x").close()
            try:
                os.replace(self._partial, self._place)
            except OSError:
                os.remove(self._place)
                raise
            return
        os.remove(self._partial)

    def _where_it_is(self) -> str:
        if os.path.exists(self._partial):
            return f"what was recorded is in {self._partial}"
        return f"what was recorded is lost, as {self._partial} was deleted"


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
