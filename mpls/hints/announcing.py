"""Shows hints where errors are shown: after the traceback of an uncaught one, and after a cell of a notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from mpls.hints import hint_of
from mpls.patches import Layer

__all__ = ["Announcer", "say"]

_AFTER_CELL = "post_run_cell"
_last: list[BaseException] = []


def say(error: BaseException, settings: Mapping[str, Any], function: Any) -> None:
    """Print the hint for an error, if there is one, and it has not been printed.

    Args:
        error: an error whose traceback has been shown.
        settings: the arguments of `install` that are in force.
        function: `install`, whose arguments are named; None for the options of `mpls run`.
    """
    if any(each is error for each in _last):
        return
    _last[:] = [error]
    hint = hint_of(error, settings, function)
    if hint is not None:
        print(hint, file=sys.stderr)


class Announcer:
    """Says hints until it is told to stop.

    Args:
        say: gets an error whose traceback has been shown.
    """

    def __init__(self, say: Callable[[BaseException], None]) -> None:
        self._say = say
        self._layer = Layer(sys, "excepthook", self._hook)
        # The shell of a notebook, or of IPython, which shows errors itself.
        self._shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        if self._shell is not None:
            self._shell.events.register(_AFTER_CELL, self._after_cell)

    def stop(self) -> None:
        """Leave the hooks as they were, but for what others have done since."""
        self._layer.take_away()
        if self._shell is not None:
            self._shell.events.unregister(_AFTER_CELL, self._after_cell)

    def _hook(self, layer: Layer) -> Any:
        def excepthook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
            layer.original(kind, error, traceback)
            if layer.is_on and error is not None:
                self._say(error)

        return excepthook

    def _after_cell(self, result: Any) -> None:
        if result.error_in_exec is not None:
            self._say(result.error_in_exec)
