"""Exceptions and warnings of mpls; each also subclasses the built-in that the originals raised.

Code that catches the built-in (`except ValueError`) goes on working, and code that wants to tell an mpls error
from any other can catch `MplsError`.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
import warnings
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
    "GraphStateError",
    "MissingFileError",
    "MissingPackageError",
    "MplsDeprecationWarning",
    "MplsError",
    "MplsWarning",
    "NotPicklableError",
    "ReplicaContextError",
    "SavedStateError",
    "TensorArgumentError",
    "UnsupportedBackendError",
    "UnsupportedGraphError",
    "UnsupportedReleaseError",
    "UnsupportedStrategyError",
]


class MplsError(Exception):
    """Base class of every exception that mpls raises itself."""

    if not TYPE_CHECKING:
        # AutoGraph raises an error inside a tf.function again with its own class only if it is constructed like this.
        __init__ = Exception.__init__


class ArgumentValueError(MplsError, ValueError):
    """An argument has the right type and a value that cannot work."""


class ArgumentOverflowError(MplsError, OverflowError):
    """An argument is a number too large to be represented."""


class ArgumentTypeError(MplsError, TypeError):
    """An argument has a type that cannot work."""


class TensorArgumentError(ArgumentTypeError, ArgumentValueError):
    """A tensor where a number is needed; the originals raised TypeError in eager mode and ValueError in a graph."""


class ArgumentKeyError(MplsError, KeyError):
    """A dict lacks a key that it needs."""

    def __str__(self) -> str:
        # KeyError shows the repr of its argument, as if the message were the key.
        return str(self.args[0])


class CallOrderError(MplsError, RuntimeError):
    """Calls that exclude each other were made in one step, or one that the step needs was not."""


class MissingFileError(MplsError, FileNotFoundError):
    """There is no file at a path."""


class MissingPackageError(MplsError, ImportError):
    """A package that a setting needs is not installed."""


class NotPicklableError(MplsError, pickle.PicklingError):
    """An optimizer is pickled that holds what cannot be pickled."""


class ReplicaContextError(MplsError, ValueError):
    """A method was called in a replica or cross-replica context that it does not work in."""


class SavedStateError(MplsError, ValueError):
    """A file is broken, holds state that no optimizer can have, or state of another kind than the optimizer's."""


class GraphStateError(MplsError, NotImplementedError):
    """What is in the variables of a v1 graph is asked for where there is no session that knows it."""


class UnsupportedGraphError(MplsError, RuntimeError):
    """An optimizer is used in a kind of graph in which it does nothing."""


class UnsupportedReleaseError(MplsError, RuntimeError):
    """A release of TensorFlow or Keras is newer than those that mpls knows, and lacks what a call needs."""


class UnsupportedStrategyError(MplsError, ValueError):
    """Loss scaling does not work under the current `tf.distribute.Strategy`."""


class UnsupportedBackendError(MplsError, NotImplementedError, ValueError):
    """Keras 3 runs on a backend on which mpls, or the method that was called, does not work."""


class MplsWarning(UserWarning):
    """Something is probably not as the user meant it."""


class MplsDeprecationWarning(FutureWarning):
    """A deprecated form was used; shown by default, since it is end users who have to act on it."""


def error_text(subject: str, constraint: str, got: object, advice: str, anchor: str) -> str:
    """Format an error in the one form that mpls uses.

    Args:
        subject: the public name, and the argument after a colon: `"FixedLossScale: loss_scale_value"`.
        constraint: what must hold, after the word "must": `"be at least 1"`.
        got: the offending value; its repr and type are shown.
        advice: what to do, as code.
        anchor: the heading of MIGRATION.md that explains it.
    """
    # The repr of an array, and advice, may be of several lines.
    shown, advice = ("\n".join(map(printable, each.split("\n"))) for each in (_short_repr(got), advice))
    return (
        f"{printable(subject)} must {printable(constraint)}; got {shown} ({type(got).__name__}). {advice}. "
        f"See MIGRATION.md#{anchor}"
    )


def printable(text: str) -> str:
    """Return a text with what `repr` escapes escaped.

    Names and paths of others then neither steer a terminal nor turn the direction of writing, and can be encoded.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)


def _short_repr(value: object, limit: int = 200) -> str:
    try:
        text = repr(value)
    except RecursionError:
        text = "a value that is nested too deeply to be shown"
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


_nobody_wrote_the_call = Flag("_nobody_wrote_the_call")


def without_deprecations() -> AbstractContextManager[None]:
    """Have deprecated forms used without a warning in a block, of this thread: mpls itself makes the calls."""
    return _nobody_wrote_the_call.raised()


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn, and point at the user's line: the first frame outside mpls and the frameworks that called it."""
    if issubclass(category, MplsDeprecationWarning) and _nobody_wrote_the_call.is_raised:
        return
    warnings.warn(message, category, stacklevel=_user_stacklevel())


def advise_user(message: str, category: type[Warning]) -> None:
    """Warn of what the originals said in the log: where all warnings are errors, say it there too.

    `python -W error` did not break a program on them. Filters that name a class of mpls, a text or a module are obeyed.
    """
    if issubclass(category, MplsDeprecationWarning) and _nobody_wrote_the_call.is_raised:
        return
    level = _user_stacklevel()
    if _is_error_like_all(message, category, sys._getframe(level - 1)):
        logging.getLogger("tensorflow").warning(message)
    else:
        warnings.warn(message, category, stacklevel=level)


def _is_error_like_all(message: str, category: type[Warning], frame: FrameType) -> bool:
    """Return whether a warning would be raised, by a filter that knows nothing of it in particular."""
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


# Replicas of a strategy run in threads, whose outermost frames are Python's own.
_NOT_THE_USERS = ("mpls", "tensorflow", "tf_keras", "keras", "threading")


def _user_stacklevel() -> int:
    # 1 would be warn_user itself.
    level, frame, generated_level = 1, sys._getframe(1), 0
    while True:
        module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if module not in _NOT_THE_USERS:
            # AutoGraph runs the user's functions from generated files; whoever called them is a better address.
            if not os.path.basename(frame.f_code.co_filename).startswith("__autograph_generated_file"):
                return level
            generated_level = generated_level or level
        if frame.f_back is None:
            return generated_level or level
        level, frame = level + 1, frame.f_back
