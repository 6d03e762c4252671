"""`mpls trace`: runs a program as `mpls run` does, and records its steps."""

from __future__ import annotations

import argparse
import pathlib
import sys

from mpls import tracing
from mpls.cli.options import USAGE_ERROR
from mpls.cli.running import PROGRAMS, has_program, run, why_not
from mpls.cli.standard_output import show, with_output
from mpls.errors import printable
from mpls.tracing import SETTINGS

_PREFIX = "mpls trace"


def trace(options: argparse.Namespace, program_arguments: list[str]) -> int:
    """Run a program that records itself; or print the recorder for old machines."""
    if options.recorder:
        return _print_recorder(options)
    if options.out is None or not has_program(options):
        return _refuse(f"give the file for the trace, and then {PROGRAMS}")
    refusal = why_not()
    if refusal is not None:
        return _refuse(refusal)
    given = vars(options)
    recorded = {name: given[name] for name in (*SETTINGS, "force")}
    program = options.script or options.module or "-c"
    return run(options, program_arguments, {**recorded, "path": options.out, "program": program})


def _print_recorder(options: argparse.Namespace) -> int:
    if options.out is not None:
        return _refuse("--recorder is printed, and takes no file: mpls trace --recorder > mpls_recorder.py")

    def print_it() -> int:
        show(pathlib.Path(tracing.__file__).read_text(encoding="utf-8").rstrip("\n"))
        return 0

    return with_output("trace", print_it)


def _refuse(text: str) -> int:
    print(f"{_PREFIX}: {printable(text)}. See mpls trace --help", file=sys.stderr)
    return USAGE_ERROR
