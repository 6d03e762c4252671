"""The command line of the recorder that is one file: `python mpls_recorder.py OUT.json program.py …`."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import types
from typing import Any

from mpls.tracing.recording_options import add_recording_options
from mpls.tracing.trace_writer import CannotTraceError
from mpls.tracing.tracing_session import NO_STEP, TracingSession, begun_trace

__all__ = ["main"]

_NAME = "mpls_recorder.py"


def main(arguments: Any) -> int:
    """Record a program, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog=_NAME,
        usage=f"python {_NAME} [OPTIONS] OUT.json (SCRIPT | -m MODULE) [ARGS ...]",
        description="Run a program, and record what its loss-scaling optimizers do at each step. "
        "Works with TensorFlow 1.13 to 2.15. `mpls compare` compares the trace with another.",
    )
    add_recording_options(parser)
    parser.add_argument("out", metavar="OUT.json", help="the trace")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="SCRIPT", help="what is run, and its arguments")
    options = parser.parse_args(arguments)
    program = options.program
    is_module = program[:1] == ["-m"]
    if not program[is_module:]:
        parser.error("give a program after OUT.json: a script, or -m and the name of a module")
    if not is_module and not os.path.isfile(program[0]):
        parser.error(f"no such script: {program[0]}")
    try:
        writer = begun_trace(options.out, program[is_module], vars(options))
    except CannotTraceError as error:
        parser.error(str(error))
    session = TracingSession(writer, vars(options), _NAME)
    return _recorded(session, program, is_module)


def _recorded(session: Any, program: Any, is_module: bool) -> int:
    failure = None
    status: Any = None
    try:
        session.begin()
        _run(program, is_module)
    except SystemExit as error:
        status = error.code
        failure = None if status in (None, 0) else "SystemExit"
        raise
    except BaseException as error:
        failure = type(error).__name__
        raise
    finally:
        try:
            wanted = session.end(failure)
        except CannotTraceError as error:
            session.say(str(error))
            wanted = NO_STEP
        if wanted and failure is None:
            sys.exit(wanted)
    return 0


def _run(program: Any, is_module: bool) -> None:
    if is_module:
        sys.argv = program[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
        return
    path = program[0]
    sys.argv = program[:]
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec")
    # Leave it there, for functions that run at exit.
    module = types.ModuleType("__main__")
    vars(module).update(__file__=path, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    exec(code, vars(module))
