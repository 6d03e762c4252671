"""Ends a program as `python` does: with its exit status, or its error shown, without the frames of what ran it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

from mpls.tracebacks import clean

__all__ = ["OnFailure", "exit_status_of"]

# What to do with the error that a program ends in, once its traceback has been shown.
OnFailure = Callable[[BaseException], None]
# In the place of an attribute that is not there.
_MISSING: Any = object()


def exit_status_of(program: Callable[[], object], on_failure: OnFailure, not_its_own: type[Exception]) -> int:
    """Run a program, and show the error that it ends in, if it ends in one.

    Args:
        program: it.
        on_failure: gets that error.
        not_its_own: errors of what runs it, which are raised.

    Returns:
        The exit status.
    """
    try:
        program()
        return 0
    except not_its_own:
        raise
    except BaseException as error:
        # Left to Python, which ends the process by a signal once the traceback is shown, or goes on to its prompt.
        if isinstance(error, KeyboardInterrupt) or _has_prompt():
            clean(error)
            _show_in_its_turn(error, on_failure)
            raise
        failure = error
    if isinstance(failure, SystemExit):
        return _status(failure)
    clean(failure)
    # Here, where it is not being handled: an error of the hook itself has nothing to do with it.
    try:
        _show(failure)
    except SystemExit as stop:
        return _status(stop)
    on_failure(failure)
    return 1


def _has_prompt() -> bool:
    """Return whether Python goes on to its prompt after the program, by -i or PYTHONINSPECT."""
    return bool(sys.flags.inspect or os.environ.get("PYTHONINSPECT"))


def _status(stop: SystemExit) -> int:
    if stop.code is None or isinstance(stop.code, int):
        return stop.code or 0
    _print(str(stop.code))
    return 1


def _show(error: BaseException) -> None:
    """Do what Python does about an error that nobody has caught.

    Raises:
        SystemExit: the user's hook has raised it.
    """
    _remember(error)
    hook = getattr(sys, "excepthook", _MISSING)
    try:
        sys.audit("sys.excepthook", None if hook is _MISSING else hook, type(error), error, error.__traceback__)
    except RuntimeError:
        # So an audit hook says that it is not to be shown.
        return
    _call_hook(hook, error)


def _remember(error: BaseException) -> None:
    """Have what debuggers look for in `sys`."""
    values: dict[str, Any] = {"last_type": type(error), "last_value": error, "last_traceback": error.__traceback__}
    if sys.version_info >= (3, 12):
        values["last_exc"] = error
    vars(sys).update(values)


def _call_hook(hook: Any, error: BaseException) -> None:
    """Call what a program has made of `sys.excepthook`, which may be anything."""
    if hook is _MISSING:
        _print("sys.excepthook is missing")
        _display(error)
        return
    try:
        hook(type(error), error, error.__traceback__)
        return
    except SystemExit:
        raise
    except BaseException as raised:
        second = raised
    _print("Error in sys.excepthook:")
    # The line here that called it is none of the user's.
    _display(second.with_traceback(second.__traceback__ and second.__traceback__.tb_next))
    _print("\nOriginal exception was:")
    _display(error)


def _display(error: BaseException) -> None:
    sys.__excepthook__(type(error), error, error.__traceback__)


def _show_in_its_turn(error: BaseException, on_failure: OnFailure) -> None:
    """Have an error that is raised again shown with the traceback that it has now."""
    users, hook = error.__traceback__, getattr(sys, "excepthook", _MISSING)

    def show(_: type[BaseException], raised: BaseException, __: TracebackType | None) -> None:
        # What comes after is the user's: a prompt.
        del sys.excepthook
        if hook is not _MISSING:
            sys.excepthook = hook
        raised.__traceback__ = users
        _remember(raised)
        _call_hook(hook, raised)
        on_failure(raised)

    sys.excepthook = show


def _print(text: str) -> None:
    """Print where Python itself writes errors to, whatever the program has made of `sys.stderr`."""
    for stream in (getattr(sys, "stderr", None), sys.__stderr__):
        if stream is not None and not getattr(stream, "closed", False):
            print(text, file=stream)
            return
