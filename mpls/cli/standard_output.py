"""Standard output of the commands: one that is closed, full, or a pipe whose reader has gone."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from mpls.cli.options import USAGE_ERROR
from mpls.errors import printable

# As shells have it for a command that Ctrl-C has ended.
INTERRUPTED = 130


class _CannotShowError(Exception):
    """Standard output cannot be written."""


def with_output(command: str, work: Callable[[], int]) -> int:
    """Run a command that prints, and return its exit status; or say that standard output cannot be written.

    A reader that has closed the pipe, as `head` does, has seen enough: the status is that of the command.

    Args:
        command: its name, for the message.
        work: prints with `show` and `show_bytes`.
    """
    if sys.stdout is None:
        print(f"mpls {command}: standard output is closed", file=sys.stderr)
        return USAGE_ERROR
    try:
        status = work()
        _written(sys.stdout.flush)
        return status
    except _CannotShowError as error:
        print(f"mpls {command}: standard output cannot be written: {printable(str(error))}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt:
        print(f"mpls {command}: interrupted", file=sys.stderr)
        return INTERRUPTED


def show(text: str) -> None:
    """Print a text, and escape characters that standard output cannot encode."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    _written(lambda: print(text.encode(encoding, "backslashreplace").decode(encoding)))


def show_bytes(content: bytes) -> None:
    """Write bytes as they are."""

    def write() -> None:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()

    _written(write)


def _written(write: Callable[[], object]) -> None:
    try:
        write()
    except BrokenPipeError:
        _drop()
    except OSError as error:
        _drop()
        raise _CannotShowError(error.strerror or str(error)) from None


def _drop() -> None:
    """Send what is still in the buffer nowhere; Python would complain about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
