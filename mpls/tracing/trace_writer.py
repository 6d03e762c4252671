"""Writes a trace: a JSON file with a line for each step."""

from __future__ import annotations

import contextlib
import json
import math
import os
from typing import Any

__all__ = ["FORMAT", "VERSION", "CannotTraceError", "ContinuedTrace", "TraceWriter", "plain_number"]

FORMAT = "mpls trace"
VERSION = 1
# The lines between which the steps are, and the end of a file that only lacks what the program ended by.
_STEPS = ',\n"steps": ['
_OPEN_END = "],\n"
_END = "\n}\n"


class CannotTraceError(Exception):
    """A trace cannot be written where it is to go."""


class TraceWriter:
    """Writes a trace beside the place where it is to be, and moves it there when it is whole.

    Attributes:
        path: the file, as the user has named it.
        part: the file beside it.
        rows: how many steps have been written.

    Args:
        path: the file.
        head: what is known before the first step, by name.
        force: whether an existing file is replaced.

    Raises:
        CannotTraceError: there is such a file, or it cannot be written.
    """

    def __init__(self, path: str, head: Any, force: bool) -> None:
        self.path = path
        self.rows: int = 0
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
            self.part: str = f"{self._place}.part-{os.getpid()}"
            self._file = open(self.part, "w", newline="\n")  # noqa: SIM115
        except OSError as error:
            raise CannotTraceError(f"{path} cannot be written: {error.strerror}") from None
        self._file.write("{\n" + _members(head) + _STEPS)

    def add(self, row: Any) -> None:
        """Write a step, a dict."""
        self._file.write((",\n" if self.rows else "\n") + _text(row))
        # A program that is killed leaves it.
        self._file.flush()
        self.rows += 1

    def finish(self, tail: Any) -> None:
        """Write what is known after the last step, by name, and put the file in its place.

        Raises:
            CannotTraceError: meanwhile there is another such file, or this one cannot be written any more.
        """
        with self._writing():
            self._file.write("\n],\n" + _members(tail) + _END)
            self._file.close()
            self._put_in_place()

    def discard(self) -> None:
        """Write nothing after all."""
        self._file.close()
        if os.path.exists(self.part):
            os.remove(self.part)

    def hand_over(self) -> None:
        """Leave the file to a `ContinuedTrace` in another process, until `take_back`."""
        self._file.close()

    def take_back(self, ended_by: Any) -> bool:
        """Put the file in its place once the other process has ended; discard it if it has no step.

        If the other process was killed, the file stays where it is.

        Args:
            ended_by: what the program ended by, where the other process did not know; None if it ended well.

        Returns:
            Whether there was a step.

        Raises:
            CannotTraceError: as for `finish`.
        """
        with self._writing():
            with open(self.part, "rb") as file:
                file.seek(-len(_STEPS), os.SEEK_END)
                end = file.read().decode()
            if end == _STEPS:
                os.remove(self.part)
                return False
            if end.endswith(_OPEN_END):
                with open(self.part, "a", newline="\n") as whole:
                    whole.write(_members({"ended_by": ended_by}) + _END)
            if end.endswith((_OPEN_END, _END)):
                self._put_in_place()
        return True

    @contextlib.contextmanager
    def _writing(self) -> Any:
        try:
            yield
        except FileExistsError:
            raise CannotTraceError(f"{self.path} exists by now; {self._where_it_is()}") from None
        except OSError as error:
            reason = f"{self.path} cannot be written: {error.strerror}"
            raise CannotTraceError(f"{reason}; {self._where_it_is()}") from None

    def _put_in_place(self) -> None:
        if self._force:
            os.replace(self.part, self._place)
            return
        try:
            os.link(self.part, self._place)
        except FileExistsError:
            raise
        except OSError:
            # Some file systems have no links.
            open(self._place, "x").close()
            try:
                os.replace(self.part, self._place)
            except OSError:
                os.remove(self._place)
                raise
            return
        os.remove(self.part)

    def _where_it_is(self) -> str:
        if os.path.exists(self.part):
            return f"what was recorded is in {self.part}"
        return f"what was recorded is lost, as {self.part} was deleted"


class ContinuedTrace(TraceWriter):
    """Writes the steps of a trace that another process has begun, and will put in its place.

    Args:
        path: the trace, as the user has named it.
        part: the file that the other process has handed over.
    """

    def __init__(self, path: str, part: str) -> None:
        self.path = path
        self.part = part
        self.rows = 0
        self._file = open(part, "a", newline="\n")  # noqa: SIM115

    def finish(self, tail: Any) -> None:
        """Write what is known after the last step, and last what the program ended by, if that is known."""
        tail = dict(tail)
        ended_by = tail.pop("ended_by")
        self._file.write("\n],\n" + _members(tail) + ",\n")
        if ended_by is not None:
            self._file.write(_members({"ended_by": ended_by}) + _END)
        self._file.close()

    def discard(self) -> None:
        """Write nothing after all."""
        self._file.close()


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
