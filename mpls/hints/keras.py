"""Errors caused by running on Keras 3 instead of Keras 2."""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType
from typing import Any

from mpls.formats.file_kinds import SAVED_MODEL
from mpls.hints.failures import Failure
from mpls.tracebacks import frames_of

__all__ = [
    "loads_a_folder",
    "needs_keras_2",
    "saves_to_a_folder",
]

# The errors with which `save`, `save_weights` and `ModelCheckpoint` of Keras 3 refuse a path.
_REFUSED_PATHS = (
    "Invalid filepath extension for saving.",
    "The filename must end in `.weights.h5`.",
    "the filepath provided must end in `.weights.h5`",
    "The filepath provided must end in `.keras`",
)
# Module prefixes of Keras 3; the rest of the path is the same in Keras 2.
_KERAS_3 = ("keras._tf_keras.keras", "keras.api", "keras", "tensorflow.keras")


def needs_keras_2(failure: Failure) -> bool:
    """Return whether the program used something that Keras 3 lacks or refuses, and Keras 2 has."""
    if not failure.has_no_keras_2:
        return False
    return _is_refused_by_keras_3(failure.error) or any(map(_is_in_keras_2, _paths(failure)))


def saves_to_a_folder(failure: Failure) -> bool:
    """Return whether Keras 3 refuses to save because the path has no extension, such as a folder's."""
    text = str(failure.error)
    is_refused = _is_by_keras_3(failure.error) and any(each in text for each in _REFUSED_PATHS)
    path = text.rpartition("filepath=")[2].removesuffix(".")
    return failure.has_no_keras_2 and is_refused and not os.path.splitext(path)[1]


def loads_a_folder(failure: Failure) -> bool:
    """Return whether Keras 3 refuses to load a SavedModel."""
    text = str(failure.error)
    path = text.partition("filepath=")[2].partition(". Keras 3 only")[0]
    is_refused = _is_by_keras_3(failure.error) and text.startswith("File format not supported: filepath=")
    return failure.has_no_keras_2 and is_refused and os.path.exists(os.path.join(path, SAVED_MODEL))


def _is_refused_by_keras_3(error: BaseException) -> bool:
    if not _is_by_keras_3(error):
        return False
    text = str(error)
    is_lr = isinstance(error, ValueError) and text.startswith("Argument(s) not recognized: {'lr':")
    return is_lr or "is not available with Keras 3." in text or "is not supported in Keras 3." in text


def _is_by_keras_3(error: BaseException) -> bool:
    last = frames_of(error.__traceback__)[-1].tb_frame.f_globals.get("__name__", "").partition(".")[0]
    return last in ("keras", "tensorflow")


def _paths(failure: Failure) -> list[str]:
    """Return the dotted names that were not found."""
    holder, attribute = failure.missing
    if isinstance(holder, ModuleType):
        return [f"{holder.__name__}.{attribute}"]
    return [f"tensorflow{path.removeprefix('tf')}" for path in failure.missing_paths]


def _is_in_keras_2(path: str) -> bool:
    prefix = next((each for each in _KERAS_3 if path.startswith(f"{each}.")), None)
    if prefix is None:
        return False
    value: Any = import_module("tf_keras")
    for part in path[len(prefix) + 1 :].split("."):
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True
