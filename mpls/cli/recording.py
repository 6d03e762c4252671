"""`mpls trace`: runs a program as `mpls run` does, and records its steps."""

from __future__ import annotations

import argparse
import pathlib
import sys

from mpls import tracing
from mpls.cli.options import USAGE_ERROR
from mpls.cli.running import PROGRAMS, end_as, has_program, run_and_wait, why_not
from mpls.cli.standard_output import show, with_output
from mpls.errors import printable
from mpls.tracing import NO_STEP, SETTINGS, CannotTraceError, TraceWriter, begun_trace

_PREFIX = "mpls trace"


def trace(options: argparse.Namespace, program_arguments: list[str]) -> int:
    """Run a program and record it, and return its exit status; or print the recorder for old machines."""
    if options.recorder:
        return _print_recorder(options)
    if options.out is None or not has_program(options):
        return _refuse(f"give the file for the trace, and then {PROGRAMS}")
    refusal = why_not()
    if refusal is not None:
        return _refuse(refusal)
    given = vars(options)
    try:
        writer = begun_trace(options.out, options.script or options.module or "-c", given)
    except CannotTraceError as error:
        return _refuse(str(error))
    writer.hand_over()
    recorded = {name: given[name] for name in SETTINGS} | {"path": writer.path, "part": writer.part}
    status = run_and_wait(options, program_arguments, recorded)
    wanted = _finish(writer, status)
    end_as(status)
    return status or wanted


def _finish(writer: TraceWriter, status: int) -> int:
    """Put the trace in its place, and return the exit status of a program that had none of its own."""
    try:
        return 0 if writer.take_back(f"exit status {status}" if status else None) else NO_STEP
    except CannotTraceError as error:
        print(f"{_PREFIX}: {printable(str(error))}", file=sys.stderr)
        return USAGE_ERROR


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
