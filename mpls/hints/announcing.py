"""Shows hints where errors are shown: after the traceback of an uncaught one, and after a cell of a notebook."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from mpls.patches import Layer

__all__ = ["Announcer", "note", "say"]

_AFTER_CELL = "post_run_cell"
# Attributes of errors, which live no longer than those.
_SETTINGS, _IS_SAID = "_mpls_settings", "_mpls_is_hint_said"


def note(error: BaseException, settings: Mapping[str, Any]) -> None:
    """Note what was in force where an error arose, as it will not be any more where the error is shown.

    Args:
        error: an error on its way out of a block.
        settings: the arguments of `install` that are in force in the block; of several blocks, the first counts.
    """
    vars(error).setdefault(_SETTINGS, dict(settings))


def say(error: BaseException, settings: Mapping[str, Any] | None, function: Any) -> None:
    """Print the hint for an error, if there is one, and it has not been printed.

    Args:
        error: an error whose traceback has been shown.
        settings: the arguments of `install` that are in force, None if nothing is; those noted for the error go before.
        function: `install`, whose arguments are named; None for the options of `mpls run`.
    """
    settings = vars(error).get(_SETTINGS, settings)
    # Nothing is missing where somebody stops a program. Importing a module here, which evaluates strings, would also
    # make Python forget that it is to end the process by the signal.
    if settings is None or isinstance(error, KeyboardInterrupt) or vars(error).get(_IS_SAID):
        return
    vars(error)[_IS_SAID] = True
    from mpls.hints.telling import hint_of

    hint = hint_of(error, settings, function)
    if hint is not None:
        print(hint, file=sys.stderr)


class Announcer:
    """Says hints where errors are shown.

    Args:
        say: gets an error whose traceback has been shown.
    """

    def __init__(self, say: Callable[[BaseException], None]) -> None:
        self._say = say
        self._layers: list[Layer] = []
        self._shell: Any = None

    def listen(self, is_on: bool) -> None:
        """Put the hooks in place, or leave them as they were, but for what others have done since."""
        if is_on is bool(self._layers):
            return
        if is_on:
            self._layers = [
                Layer(sys, "excepthook", self._hook),
                Layer(threading, "excepthook", self._hook_of_threads),
            ]
            # The shell of a notebook, or of IPython, which shows errors itself.
            self._shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
            if self._shell is not None:
                self._shell.events.register(_AFTER_CELL, self._after_cell)
            return
        while self._layers:
            self._layers.pop().take_away()
        if self._shell is not None:
            self._shell.events.unregister(_AFTER_CELL, self._after_cell)

    def _hook(self, layer: Layer) -> Any:
        def excepthook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
            layer.original(kind, error, traceback)
            if layer.is_on and error is not None:
                self._say(error)

        return excepthook

    def _hook_of_threads(self, layer: Layer) -> Any:
        def excepthook(args: threading.ExceptHookArgs) -> None:
            layer.original(args)
            if layer.is_on and args.exc_value is not None:
                self._say(args.exc_value)

        return excepthook

    def _after_cell(self, result: Any) -> None:
        if result.error_in_exec is not None:
            self._say(result.error_in_exec)
