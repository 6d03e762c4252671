"""Hints: after an uncaught error, or a failed cell, name the options that would have avoided it, if that is certain.

The traceback of an uncaught error is shown without the frames of mpls that put names back.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from mpls.errors import FRAMEWORKS
from mpls.patches import Layer

__all__ = ["Announcer", "note", "running_ipython", "say"]

_AFTER_CELL = "post_run_cell"
# Stored as attributes of the error, so they live no longer than it does.
_SETTINGS, _IS_SAID = "_mpls_settings", "_mpls_is_hint_said"
# Folders of mpls whose frames are hidden: they serve imports and attribute reads. Other frames of mpls stay, since they
# help to understand its errors.
_BETWEEN = tuple(
    os.path.join(os.path.dirname(os.path.dirname(__file__)), name, "") for name in ("importing", "patches")
)
_FROZEN_IMPORTS = "<frozen importlib._bootstrap"
_IMPORT_MODULE = importlib.__file__


def note(error: BaseException, settings: Mapping[str, Any]) -> None:
    """Remember the settings under which an error was raised; they no longer apply when the error is shown.

    Args:
        error: an error that is leaving a block.
        settings: the arguments of `install` that apply in the block; the innermost block wins.
    """
    vars(error).setdefault(_SETTINGS, dict(settings))


def say(error: BaseException, settings: Mapping[str, Any] | None, function: Any) -> None:
    """Print the hint for an error, if there is one and it has not been printed yet.

    Args:
        error: an error whose traceback has been shown.
        settings: the current arguments of `install`, None if nothing is installed; settings noted for the error win.
        function: `install`, to name its arguments in the hint; None to name the options of `mpls run`.
    """
    settings = vars(error).get(_SETTINGS, settings)
    # Stopping a program needs no hint. Importing modules here would also run `exec`, after which Python forgets that
    # it has to end the process by the signal.
    if settings is None or isinstance(error, KeyboardInterrupt) or vars(error).get(_IS_SAID):
        return
    # No hint is about a program that has loaded none, and looking for one might load it.
    if sys.modules.keys().isdisjoint(FRAMEWORKS):
        return
    vars(error)[_IS_SAID] = True
    from mpls.hints.causes import hint_of

    hint = hint_of(error, settings, function)
    if hint is not None:
        print(hint, file=sys.stderr)


def running_ipython() -> Any:
    """Return the shell of IPython or a notebook that runs the program; None if there is none."""
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()


def _clean(error: BaseException | None) -> None:
    """Remove the frames of mpls that put names back from the tracebacks of an error and its causes."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = _cleaned(each.__traceback__)
        # Those of a group; other errors may have an attribute of this name.
        others = getattr(each, "exceptions", ())
        grouped = [other for other in others if isinstance(other, BaseException)] if isinstance(others, tuple) else []
        waiting += [each.__cause__, each.__context__, *grouped]


def _cleaned(traceback: TracebackType | None) -> TracebackType | None:
    entries = []
    while traceback is not None:
        entries.append((traceback, traceback.tb_frame.f_code.co_filename))
        traceback = traceback.tb_next
    kept: list[TracebackType] = []
    is_hidden, has_hidden = False, any(file.startswith(_BETWEEN) for _, file in entries)
    for entry, file in entries:
        # Python hides the frames of its import system itself, but not if frames of mpls are among them.
        is_import = file.startswith(_FROZEN_IMPORTS) or (is_hidden and file == _IMPORT_MODULE)
        is_hidden = has_hidden and (is_import or file.startswith(_BETWEEN))
        if not is_hidden:
            kept.append(entry)
    for entry, following in zip(kept, [*kept[1:], None], strict=False):
        entry.tb_next = following
    return kept[0] if kept else None


class Announcer:
    """Hooks into the places that show errors, hides frames of mpls in them, and has hints printed after them.

    Args:
        say: called with each error whose traceback has been shown.
    """

    def __init__(self, say: Callable[[BaseException], None]) -> None:
        self._say = say
        self._layers: list[Layer] = []
        self._shell: Any = None

    def listen(self, is_on: bool) -> None:
        """Put the hooks in place, or take them away; later changes by others are kept."""
        if is_on is bool(self._layers):
            return
        if is_on:
            self._layers = [
                Layer(sys, "excepthook", self._hook),
                Layer(threading, "excepthook", self._hook_of_threads),
            ]
            # IPython and notebooks show errors themselves, without `sys.excepthook`.
            self._shell = running_ipython()
            if self._shell is not None:
                self._shell.events.register(_AFTER_CELL, self._after_cell)
            return
        while self._layers:
            self._layers.pop().take_away()
        if self._shell is not None:
            self._shell.events.unregister(_AFTER_CELL, self._after_cell)

    def _hook(self, layer: Layer) -> Any:
        def excepthook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
            if layer.is_on:
                _clean(error)
            layer.original(kind, error, traceback)
            if layer.is_on and error is not None:
                self._say(error)

        return excepthook

    def _hook_of_threads(self, layer: Layer) -> Any:
        def excepthook(args: threading.ExceptHookArgs) -> None:
            if layer.is_on:
                _clean(args.exc_value)
            layer.original(args)
            if layer.is_on and args.exc_value is not None:
                self._say(args.exc_value)

        return excepthook

    def _after_cell(self, result: Any) -> None:
        if result.error_in_exec is not None:
            self._say(result.error_in_exec)
