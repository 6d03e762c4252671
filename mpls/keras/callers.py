"""Who is asking: what Keras is told differs here and there from what users see."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Set
from types import FrameType
from typing import Any

_BOTH = ("keras.", "tf_keras.")
# Functions of tf_keras and Keras 3 that write the config into a file, or into what is pickled.
_WRITERS = {"model_metadata", "save_model", "_serialize_model_as_json"}
# That of them which writes H5 files.
H5_WRITER = {"model_metadata"}
# That of Keras 3 which writes the optimizer's variables into them.
H5_WEIGHTS_WRITER = {"save_optimizer_weights_to_hdf5_group"}


def is_called_by_keras() -> bool:
    """Return whether a function of tf_keras or Keras 3 has called the method that asks."""
    module = str(sys._getframe(2).f_globals.get("__name__", ""))
    return module.startswith(_BOTH)


def is_called_for_source() -> bool:
    """Return whether `inspect`, which looks for the file of a class, has called the method that asks."""
    return sys._getframe(2).f_code is inspect.getfile.__code__


def is_asked_by_keras(asked: Any, packages: tuple[str, ...] = _BOTH) -> bool:
    """Return whether a function of tf_keras or Keras 3 has called a method of an object, through users' own or not.

    Methods of subclasses that call `super()`, what decorates them, and functions that are handed the object are passed
    over: it is who called those that counts.

    Args:
        asked: the object.
        packages: how the names of its modules begin.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(packages):
            return True
        if not module.startswith("mpls.") and not _holds(frame, asked):
            return False
        frame = frame.f_back
    return False


def _holds(frame: FrameType, value: Any) -> bool:
    """Return whether a function has been called with an object, or stands in one that has."""
    code, found = frame.f_code, frame.f_locals
    arguments = [found.get(name) for name in (*code.co_varnames[: code.co_argcount], *code.co_freevars)]
    if code.co_flags & inspect.CO_VARARGS:
        arguments += found.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount], ())
    return any(each is value for each in arguments)


def is_asked_for_file(writers: Set[str] = _WRITERS) -> bool:
    """Return whether Keras is writing a file, or what is pickled, somewhere further up.

    Args:
        writers: the functions that do; by default for any file.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if frame.f_code.co_name in writers and module.startswith(_BOTH):
            return True
        frame = frame.f_back
    return False
