"""Ends a program as `python` does: with its exit status, or with its traceback, without the frames of mpls."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

from mpls.tracebacks import clean

__all__ = ["OnFailure", "exit_status_of"]

# Called with the error that ended a program, once its traceback has been shown.
OnFailure = Callable[[BaseException], None]
# Stands for a missing attribute.
_MISSING: Any = object()


def exit_status_of(program: Callable[[], object], on_failure: OnFailure, not_its_own: type[Exception]) -> int:
    """Run a program, and show its traceback if it ends in an error.

    Args:
        program: the function that runs it.
        on_failure: called with that error.
        not_its_own: the class of errors of mpls itself, which are raised.

    Returns:
        The exit status.
    """
    try:
        program()
        return 0
    except not_its_own:
        raise
    except BaseException as error:
        # Leave these to Python, which shows the traceback and then ends the process by a signal, or opens a prompt.
        if isinstance(error, KeyboardInterrupt) or _has_prompt():
            clean(error)
            _show_in_its_turn(error, on_failure)
            raise
        failure = error
    if isinstance(failure, SystemExit):
        return _status(failure)
    clean(failure)
    # Outside the `except` block, so that an error of the hook does not get this one as its context.
    try:
        _show(failure)
    except SystemExit as stop:
        return _status(stop)
    on_failure(failure)
    return 1


def _has_prompt() -> bool:
    """Return whether Python opens a prompt after the program, because of -i or PYTHONINSPECT."""
    return bool(sys.flags.inspect or os.environ.get("PYTHONINSPECT"))


def _status(stop: SystemExit) -> int:
    if stop.code is None or isinstance(stop.code, int):
        return stop.code or 0
    _print(str(stop.code))
    return 1


def _show(error: BaseException) -> None:
    """Handle an uncaught error as Python does.

    Raises:
        SystemExit: the user's `sys.excepthook` raised it.
    """
    _remember(error)
    hook = getattr(sys, "excepthook", _MISSING)
    try:
        sys.audit("sys.excepthook", None if hook is _MISSING else hook, type(error), error, error.__traceback__)
    except RuntimeError:
        # An audit hook raises RuntimeError to prevent that the error is shown.
        return
    _call_hook(hook, error)


def _remember(error: BaseException) -> None:
    """Set the attributes of `sys` that debuggers look for."""
    values: dict[str, Any] = {"last_type": type(error), "last_value": error, "last_traceback": error.__traceback__}
    if sys.version_info >= (3, 12):
        values["last_exc"] = error
    vars(sys).update(values)


def _call_hook(hook: Any, error: BaseException) -> None:
    """Call the program's `sys.excepthook`, which may be any object."""
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
    # Without the frame of this function, which called the hook.
    _display(second.with_traceback(second.__traceback__ and second.__traceback__.tb_next))
    _print("\nOriginal exception was:")
    _display(error)


def _display(error: BaseException) -> None:
    sys.__excepthook__(type(error), error, error.__traceback__)


def _show_in_its_turn(error: BaseException, on_failure: OnFailure) -> None:
    """Have an error that is raised again shown with its current traceback, without further frames."""
    users, hook = error.__traceback__, getattr(sys, "excepthook", _MISSING)

    def show(_: type[BaseException], raised: BaseException, __: TracebackType | None) -> None:
        # A prompt that follows uses the user's own hook.
        del sys.excepthook
        if hook is not _MISSING:
            sys.excepthook = hook
        raised.__traceback__ = users
        _remember(raised)
        _call_hook(hook, raised)
        on_failure(raised)

    sys.excepthook = show


def _print(text: str) -> None:
    """Print to `sys.stderr`; if the program has removed or closed it, to the original standard error."""
    for stream in (getattr(sys, "stderr", None), sys.__stderr__):
        if stream is not None and not getattr(stream, "closed", False):
            print(text, file=stream)
            return
