"""`mpls trace`: runs a program as `mpls run` does, and records its steps."""

from __future__ import annotations

import argparse
import sys

import mpls
from mpls.cli.options import USAGE_ERROR
from mpls.cli.running import PROGRAMS, SETTINGS, has_program, run
from mpls.cli.standard_output import show, with_output
from mpls.errors import printable
from mpls.run import CannotRun
from mpls.tracing.own_classes import OWN_CLASSES
from mpls.tracing.trace_writer import CannotTraceError
from mpls.tracing.tracing_session import TracingSession

__all__ = ["trace"]

_PREFIX = "mpls trace"


def trace(options: argparse.Namespace, program_arguments: list[str]) -> int:
    """Run a program and record it, and return its exit status; or print the recorder for old machines."""
    if options.recorder:
        return _print_recorder(options)
    if options.out is None or not has_program(options):
        return _refuse(f"give the file for the trace, and then {PROGRAMS}")
    program = options.script or options.module or "-c"
    try:
        session = TracingSession(options.out, program, vars(options), _PREFIX, OWN_CLASSES)
    except CannotTraceError as error:
        return _refuse(str(error))
    failures: list[BaseException] = []
    status = USAGE_ERROR
    try:
        status = run(options, program_arguments, session.begin, failures.append)
    except KeyboardInterrupt as error:
        failures.append(error)
        raise
    finally:
        status = _end(session, status, failures, options)
    return status


def _end(session: TracingSession, status: int, failures: list[BaseException], options: argparse.Namespace) -> int:
    failure = type(failures[-1]).__name__ if failures else f"exit status {status}" if status else None
    was_none = bool(failures) and isinstance(failures[-1], CannotRun)
    if was_none or not session.has_begun:
        session.discard()
        return USAGE_ERROR if was_none else status
    try:
        ended = session.end(failure, {name: getattr(options, name) for name in SETTINGS})
        return status or ended
    except CannotTraceError as error:
        session.say(printable(str(error)))
        return status or USAGE_ERROR


def _print_recorder(options: argparse.Namespace) -> int:
    if options.out is not None:
        return _refuse("--recorder is printed, and takes no file: mpls trace --recorder > mpls_recorder.py")
    from mpls.tracing.one_file import recorder_source

    def print_it() -> int:
        show(recorder_source(mpls.__version__).rstrip("\n"))
        return 0

    return with_output("trace", print_it)


def _refuse(text: str) -> int:
    print(f"{_PREFIX}: {printable(text)}. See mpls trace --help", file=sys.stderr)
    return USAGE_ERROR
