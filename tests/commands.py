"""The commands of mpls, in the process of the tests."""

from __future__ import annotations

import contextlib
import io

from mpls.cli import main


def run_command(*arguments: str) -> tuple[int, str, str]:
    """Run `mpls ARGUMENTS...`; return its exit status, and what it printed on standard output and error."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            status = main([*arguments])
        except SystemExit as stop:
            status = int(stop.code or 0)
    return status, out.getvalue(), err.getvalue()
