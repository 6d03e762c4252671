"""Who has called a method of a wrapper: Keras, which writes files by the calls that users make too, or a user."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

from mpls.upstream.keras_packages import config_writers, h5_config_writers, h5_variable_writers

_KERASES = ("keras", "tf_keras")


@dataclass(frozen=True)
class Caller:
    """The code that has called a method, or read the name of a class.

    Attributes:
        package: the package that it is in, `"keras"`, `"tf_keras"` or the user's.
        is_inspect: whether it is the function of `inspect` that looks for the file of a class.
        running: the names of the functions of both Kerases that run further up.
    """

    package: str
    is_inspect: bool
    running: frozenset[str]

    @property
    def is_keras(self) -> bool:
        """Whether tf_keras or Keras 3 has called."""
        return self.package in _KERASES

    @property
    def writes_file(self) -> bool:
        """Whether tf_keras or Keras 3 is writing a file, or a pickle."""
        return self._runs_any_of(config_writers)

    @property
    def writes_h5(self) -> bool:
        """Whether tf_keras or Keras 3 is writing the config of an optimizer into an H5 file."""
        return self._runs_any_of(h5_config_writers)

    @property
    def writes_h5_variables(self) -> bool:
        """Whether Keras 3 is writing the variables of an optimizer into an H5 file."""
        return self._runs_any_of(h5_variable_writers)

    def _runs_any_of(self, writers: Callable[[], set[str]]) -> bool:
        return bool(self.running) and not self.running.isdisjoint(writers())


def who_calls(owner: Any = None) -> Caller:
    """Return who has called the method that calls this function.

    Keras writes files by the calls that users make too: `get_config()`, `variables`, and `__name__` and `__module__` of
    a class. Keras must get names that can be loaded without mpls, and the scale and the counter. Users must get what
    the originals returned. No argument and no hook tells the two apart; only the stack does. No other module of
    `mpls.keras` looks at the stack.

    Args:
        owner: the object whose method was called. Frames that have it as an argument or closure variable are skipped:
            overriding methods that call `super()`, their decorators, and helper functions. Without the object, the
            direct caller counts.
    """
    frame: FrameType | None = sys._getframe(2)
    while owner is not None and frame is not None and (_package(frame) == "mpls" or _holds(frame, owner)):
        if _package(frame) in _KERASES:
            break
        frame = frame.f_back
    package, is_inspect = "", False
    if frame is not None:
        package, is_inspect = _package(frame), frame.f_code is inspect.getfile.__code__
    running = set()
    while frame is not None:
        if _package(frame) in _KERASES:
            running.add(frame.f_code.co_name)
        frame = frame.f_back
    return Caller(package, is_inspect, frozenset(running))


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _holds(frame: FrameType, value: Any) -> bool:
    """Return whether a frame's function has an object among its arguments or closure variables."""
    code, found = frame.f_code, frame.f_locals
    arguments = [found.get(name) for name in (*code.co_varnames[: code.co_argcount], *code.co_freevars)]
    if code.co_flags & inspect.CO_VARARGS:
        arguments += found.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount], ())
    return any(each is value for each in arguments)
