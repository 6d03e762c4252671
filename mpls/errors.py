"""Exceptions and warnings of mpls; each also subclasses the built-in that the originals raised.

Code that catches the built-in (`except ValueError`) goes on working, and code that wants to tell an mpls error
from any other can catch `MplsError`.
"""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from collections.abc import Iterable
from contextlib import AbstractContextManager
from types import FrameType
from typing import TYPE_CHECKING, Any

from mpls.flags import Flag

__all__ = [
    "ArgumentKeyError",
    "ArgumentOverflowError",
    "ArgumentTypeError",
    "ArgumentValueError",
    "CallOrderError",
    "ExistingFileError",
    "GraphStateError",
    "MissingAttributeError",
    "MissingFileError",
    "MissingPackageError",
    "MplsDeprecationWarning",
    "MplsError",
    "MplsWarning",
    "NameTakenError",
    "NotPicklableError",
    "ReplicaContextError",
    "SavedStateError",
    "TensorArgumentError",
    "TrainingStuckError",
    "UndefinedMethodError",
    "UnsupportedBackendError",
    "UnsupportedGraphError",
    "UnsupportedReleaseError",
    "UnsupportedStrategyError",
]

FRAMEWORKS = ("tensorflow", "tf_keras", "keras")
# Packages whose frames and modules are not the user's code.
NOT_THE_USERS = ("mpls", *FRAMEWORKS)


class MplsError(Exception):
    """Base class of every exception of mpls. A missing attribute or module is an error of Python's own."""

    if not TYPE_CHECKING:
        # AutoGraph keeps the class of an error from a tf.function only if the class has the constructor of Exception.
        __init__ = Exception.__init__


class ArgumentValueError(MplsError, ValueError):
    """An argument has the right type, but an invalid value."""


class ArgumentOverflowError(MplsError, OverflowError):
    """An argument is a number that is too large to be represented."""


class ArgumentTypeError(MplsError, TypeError):
    """An argument has an invalid type."""


class TensorArgumentError(ArgumentTypeError, ArgumentValueError):
    """A tensor was given where a number is needed, or one of another dtype.

    The originals raised TypeError in eager mode, ValueError in a graph.
    """


class ArgumentKeyError(MplsError, KeyError):
    """A dict lacks a required key."""

    def __str__(self) -> str:
        # KeyError would show the repr of the message, as if it were the key.
        return str(self.args[0])


class CallOrderError(MplsError, RuntimeError):
    """Calls that exclude each other were made in one step, or a call that the step needs is missing."""


class MissingAttributeError(MplsError, AttributeError):
    """An attribute is there only with certain settings or loss scales."""


class ExistingFileError(MplsError, FileExistsError):
    """There is a file at a path that must be free."""


class MissingFileError(MplsError, FileNotFoundError):
    """There is no file at a path."""


class MissingPackageError(MplsError, ImportError):
    """A package that a setting needs is not installed."""


class NameTakenError(MplsError, RuntimeError):
    """A variable of this name is there already."""


class NotPicklableError(MplsError, pickle.PicklingError):
    """An optimizer cannot be pickled, because it holds objects that cannot."""


class ReplicaContextError(MplsError, ValueError, RuntimeError):
    """A method was called in a replica or cross-replica context that it does not work in.

    The originals' documentation says RuntimeError; they raised ValueError.
    """


class SavedStateError(MplsError, ValueError):
    """A file is broken, or holds state that is invalid or of another kind than the optimizer's."""


class GraphStateError(MplsError, NotImplementedError):
    """The values of variables in a v1 graph are needed, but there is no session that has them."""


class TrainingStuckError(MplsError, RuntimeError):
    """More steps in a row were skipped than the user allows."""


class UndefinedMethodError(MplsError, NotImplementedError):
    """A class of the user does not define a method that the call needs."""


class UnsupportedGraphError(MplsError, RuntimeError):
    """An optimizer is used in a kind of graph in which it has no effect."""


class UnsupportedReleaseError(MplsError, RuntimeError):
    """A release of TensorFlow or Keras is newer than those that mpls knows, and lacks what a call needs."""


class UnsupportedStrategyError(MplsError, ValueError):
    """Loss scaling does not work under the current `tf.distribute.Strategy`."""


class UnsupportedBackendError(MplsError, NotImplementedError, ValueError):
    """Keras 3 runs on a backend on which mpls, or the method that was called, does not work."""


class MplsWarning(UserWarning):
    """Something is probably not what the user meant."""


class MplsDeprecationWarning(FutureWarning):
    """A deprecated form was used; a FutureWarning, so that Python shows it to end users by default."""


class Described(str):
    """What an error found, in words: `error_text` shows it without quotes and type."""

    __slots__ = ()


def error_text(subject: str, constraint: str, got: object, advice: str, anchor: str) -> str:
    """Format an error in the one form that mpls uses.

    Args:
        subject: the public name, and the argument after a colon: `"FixedLossScale: loss_scale_value"`.
        constraint: the condition, as it follows the word "must": `"be at least 1"`.
        got: the offending value, of which the repr and the type are shown; or a description, `Described("nothing")`.
        advice: the remedy; where it begins with code, as `growth_factor=2.0` does, "Write" is put before it.
        anchor: the section of the documentation that explains it.
    """
    # The repr of an array, and the advice, may have several lines.
    text = got if isinstance(got, Described) else f"{short_repr(got)} ({type(got).__name__})"
    shown, advice = ("\n".join(map(printable, each.split("\n"))) for each in (text, advice))
    verb = "Write " * _begins_with_code(advice)
    end = "" if advice.endswith("?") else "."
    return f"{printable(subject)} must {printable(constraint)}; got {shown}. {verb}{advice}{end} See mpls docs {anchor}"


def _begins_with_code(text: str) -> bool:
    """Return whether a text begins with a call, an assignment or a number."""
    # Imported only here, as mpls is imported whenever Python starts under `mpls run`.
    import re

    return re.match(r"[\w.]+(\(| = |=)|\d", text) is not None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the question whether one of the known words was meant, if one is similar; else an empty text."""
    import difflib

    near = difflib.get_close_matches(word, list(known), 1)
    return f"Did you mean {near[0]}?" if near else ""


def printable(text: str) -> str:
    """Return a text in which all characters are escaped that `repr` would escape.

    Foreign names and paths then cannot control a terminal or change the writing direction, and can be encoded.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)


def short_repr(value: object, limit: int = 200) -> str:
    """Return the repr of a value, cut off where it is long."""
    try:
        text = str(value) if _is_numpy_scalar(value) else repr(value)
    except RecursionError:
        text = "a value that is nested too deeply to be shown"
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _is_numpy_scalar(value: object) -> bool:
    """Return whether a value is a number of NumPy, whose repr is `np.int32(2)`, or one of its bools."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.number, numpy.bool_))


_nobody_wrote_the_call = Flag("_nobody_wrote_the_call")


def without_deprecations() -> AbstractContextManager[None]:
    """Suppress warnings about deprecated forms in a block, for this thread, when mpls itself makes the calls."""
    return _nobody_wrote_the_call.raised()


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn, and point at the user's line: the innermost frame outside mpls and the frameworks."""
    if issubclass(category, MplsDeprecationWarning) and _nobody_wrote_the_call.is_raised:
        return
    _warn_at(_user_frame(), message, category)


def advise_user(message: str, category: type[Warning]) -> None:
    """Warn about something that the originals logged; where all warnings are errors, log it instead of raising.

    The originals' log message did not end a program under `python -W error`. Filters that name a class of mpls, a text
    or a module are obeyed.
    """
    if issubclass(category, MplsDeprecationWarning) and _nobody_wrote_the_call.is_raised:
        return
    frame = _user_frame()
    if _is_error_like_all(message, category, frame):
        # Imported only here, as mpls is imported whenever Python starts under `mpls run`.
        import logging

        logging.getLogger("tensorflow").warning(message)
    else:
        _warn_at(frame, message, category)


def _is_error_like_all(message: str, category: type[Warning], frame: FrameType) -> bool:
    """Return whether a general filter, not one for this warning in particular, turns a warning into an error."""
    where = str(frame.f_globals.get("__name__"))
    filters: Any = warnings.filters
    for action, text, kind, module, line in filters:
        wanted = ((text, message), (module, where))
        if issubclass(category, kind) and line in (0, frame.f_lineno) and all(_matches(*each) for each in wanted):
            is_ours = issubclass(kind, MplsWarning) or issubclass(kind, MplsDeprecationWarning)
            is_particular = text or module or line or is_ours
            return action == "error" and not is_particular
    return False


def _matches(pattern: Any, text: str) -> bool:
    if pattern is None or isinstance(pattern, str):
        return pattern in (None, text)
    return pattern.match(text) is not None


# `threading` is included since replicas of a strategy run in threads, whose outermost frames are Python's own.
_NOT_ADDRESSED = (*NOT_THE_USERS, "threading")


def _user_frame() -> FrameType:
    frame, generated = sys._getframe(1), None
    while True:
        module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if module not in _NOT_ADDRESSED:
            # AutoGraph runs the user's functions from generated files; their caller is a better line to show.
            if not os.path.basename(frame.f_code.co_filename).startswith("__autograph_generated_file"):
                return frame
            generated = generated or frame
        if frame.f_back is None:
            return generated or frame
        frame = frame.f_back


def _warn_at(frame: FrameType, message: str, category: type[Warning]) -> None:
    """Warn at a frame. A level for `warnings.warn` would be wrong inside `tf.function`, where AutoGraph adds frames."""
    module = str(frame.f_globals.get("__name__", "<unknown>"))
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, module, registry)
