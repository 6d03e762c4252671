"""Both ends of `mpls run`: the environment that a program gets, and what puts the names back where Python starts in it.

`mpls run` does not run programs: `python` does. Python first imports `site/sitecustomize.py`, which calls `begin` here.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from collections.abc import Mapping
from typing import Any, NoReturn, TextIO

from mpls.errors import MplsError, MplsWarning, printable
from mpls.hints import say
from mpls.importing.modes import behave_as_v1
from mpls.importing.post_import import when_loaded
from mpls.install import install, is_run

__all__ = ["begin", "environment"]

_USAGE_ERROR = 2
# Also in site/sitecustomize.py, which imports nothing of mpls in other installations of Python.
_VARIABLE = "MPLS_RUN"
_PATH = "PYTHONPATH"
_SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")


def environment(
    settings: Mapping[str, Any], *, children: bool, report: bool = False, trace: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Return the environment in which Python puts the names back before it runs a program.

    Args:
        settings: the arguments of `install`.
        children: whether Python programs that the program starts have the names too.
        report: whether the names that the program has read are printed at its end.
        trace: what `_record` needs; None to record nothing.
    """
    # The program may itself have been started by one that `mpls run` runs.
    paths = [each for each in os.environ.get(_PATH, "").split(os.pathsep) if each != _SITE]
    path = os.pathsep.join(paths) if _PATH in os.environ else None
    own = {"path": path, "children": children, "report": report, "trace": trace}
    found = {**os.environ, _VARIABLE: _told(settings, program=own)}
    found[_PATH] = os.pathsep.join([_SITE, *filter(None, [path])])
    return found


def _told(settings: Mapping[str, Any], **more: Any) -> str:
    python = "{}.{} {}".format(*sys.version_info[:2], os.path.realpath(sys.prefix))
    return f"{python} {json.dumps({'settings': settings, **more})}"


def begin(told: str) -> None:
    """Put the names back in this process: in the program, or in one that it has started.

    Args:
        told: the environment variable, from its JSON on.
    """
    whole = json.loads(told)
    settings, program = whole["settings"], whole.get("program")
    is_run()
    if program is None:
        install(**settings)
        if settings["v1"]:
            when_loaded("tensorflow", _behave_as_v1_in_worker)
    else:
        _set_environment_of_children(settings, program)
        _begin_program(settings, program)
    # For a program that shows its errors itself.
    atexit.register(_say_at_exit, settings)


def _behave_as_v1_in_worker(_: object) -> None:
    """Do what the program's first import of TensorFlow does: unpickling may import tensorflow.compat.v1 before it."""
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and processes.current_process().name != "MainProcess":
        behave_as_v1()


def _set_environment_of_children(settings: Mapping[str, Any], program: Mapping[str, Any]) -> None:
    if program["children"]:
        os.environ[_VARIABLE] = _told(settings)
        return
    del os.environ[_VARIABLE]
    if program["path"] is None:
        del os.environ[_PATH]
    else:
        os.environ[_PATH] = program["path"]


def _begin_program(settings: Mapping[str, Any], program: Mapping[str, Any]) -> None:
    on_touch = None
    if program["report"]:
        from mpls.report import Report

        report = Report()
        on_touch = report.note
    try:
        install(**settings, _on_touch=on_touch)
    except (MplsError, MplsWarning) as error:
        _stop(f"mpls run: {printable(str(error))}")
    # What is registered first is called last.
    if program["trace"] is not None:
        _record(program["trace"], settings)
    if program["report"]:
        atexit.register(_show, report)


def _record(trace: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    from mpls.tracing import CannotTraceError, TracingSession

    try:
        session = TracingSession(trace["path"], trace["program"], trace, "mpls trace")
    except CannotTraceError as error:
        _stop(f"mpls trace: {printable(str(error))}. See mpls trace --help")
    session.begin()

    def end() -> None:
        error = getattr(sys, "last_value", None)
        try:
            session.end(None if error is None else type(error).__name__, settings)
        except CannotTraceError as refused:
            session.say(printable(str(refused)))

    atexit.register(end)


def _stop(text: str) -> NoReturn:
    """End the process; an exception would only keep Python from importing `site`."""
    print(text, file=sys.stderr, flush=True)
    os._exit(_USAGE_ERROR)


def _say_at_exit(settings: Mapping[str, Any]) -> None:
    error = getattr(sys, "last_value", None)
    if error is not None and _stream("stderr") is not None:
        say(error, settings, None)


def _show(report: Any) -> None:
    output, errors = _stream("stdout"), _stream("stderr")
    if output is not None:
        output.flush()
    if errors is not None:
        print("\n".join(report.lines()), file=errors)


def _stream(name: str) -> TextIO | None:
    """Return a standard stream, unless the program has closed or removed it."""
    stream = getattr(sys, name, None)
    return None if getattr(stream, "closed", False) else stream
