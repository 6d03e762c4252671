"""What state can be, and the errors that say what is wrong with a file."""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from mpls.errors import MplsError, SavedStateError, error_text

ANCHOR = "my-checkpoints"
COPY_AGAIN = "Copy the file again, or use an earlier one"
FROM_WRITER = "Ask the program that wrote the file, or use an earlier one"

# What the standard library, NumPy and h5py raise over bytes that are not what they should be.
_SYMPTOMS: tuple[type[BaseException], ...] = (
    OSError,
    ValueError,
    ArithmeticError,
    LookupError,
    TypeError,
    AssertionError,
    AttributeError,
    EOFError,
    RuntimeError,
    MemoryError,
    NotImplementedError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
)


class NotAnArtefactError(SavedStateError):
    """A path leads to nothing, or to something of a kind that no release has written."""


def broken(path: str, key: str, constraint: str, got: object, advice: str = COPY_AGAIN) -> SavedStateError:
    """Return the error for a file, to be raised.

    Args:
        path: the file, as the user named it.
        key: what in it is wrong.
        constraint: what must hold, after the word "must".
        got: the offending value.
        advice: what to do.
    """
    error: SavedStateError = SavedStateError(error_text(f"{path}: {key}", constraint, got, advice, ANCHOR))
    return error


@contextmanager
def reading_foreign_bytes(path: str, key: str, constraint: str) -> Iterator[None]:
    """Have what libraries raise over broken bytes be a SavedStateError that names the file and the key."""
    try:
        yield
    except MplsError:
        raise
    except _SYMPTOMS as error:
        raise broken(path, key, constraint, f"{type(error).__name__}: {error}") from error


def check_scale(path: str, key: str, value: Any) -> float:
    """Return the current scale that a variable holds.

    Raises:
        SavedStateError: it is no scalar of a float dtype, or not positive and finite.
    """
    array = np.asarray(value)
    if array.shape != () or array.dtype.kind != "f":
        raise broken(path, key, "be a scalar of a float dtype", _described(array), FROM_WRITER)
    return check_number(path, key, float(array))


def check_number(path: str, key: str, value: Any) -> float:
    """Return a scale or a multiplier that a config holds.

    Raises:
        SavedStateError: it is no number, or not positive and finite.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise broken(path, key, "be a number", value, FROM_WRITER)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    with np.errstate(over="ignore", under="ignore"):
        as_float32 = float(np.float32(number))
    if not 0 < as_float32 < math.inf:
        raise broken(path, key, "be positive and finite in float32", value, FROM_WRITER)
    return number


def check_count(path: str, key: str, value: Any) -> int:
    """Return a number of steps.

    Raises:
        SavedStateError: it is no scalar of an integer dtype, or negative.
    """
    array = np.asarray(value)
    if array.shape != () or array.dtype.kind not in "iu":
        raise broken(path, key, "be a scalar of an integer dtype", _described(array), FROM_WRITER)
    if int(array) < 0:
        raise broken(path, key, "be at least 0", int(array), FROM_WRITER)
    return int(array)


def check_growth_steps(path: str, key: str, value: Any) -> int:
    """Return the period of a dynamic loss scale; the originals took 0 and less for 1.

    Raises:
        SavedStateError: it is no whole number.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise broken(path, key, "be a whole number below 2**63", value, FROM_WRITER)
    return value


def check_good_steps(path: str, key: str, value: Any, growth_steps: int | None) -> int:
    """Return a number of finite steps since the scale changed.

    Raises:
        SavedStateError: it is no scalar of an integer dtype, negative, or above the period.
    """
    good_steps = check_count(path, key, value)
    period = None if growth_steps is None else max(growth_steps, 1)
    if period is not None and good_steps > period:
        raise broken(path, key, f"be at most the period, {period}", good_steps, FROM_WRITER)
    return good_steps


def _described(array: Any) -> str:
    return f"dtype {array.dtype} and shape {array.shape}"
