"""The errors that say what is wrong with a file."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from mpls.errors import MplsError, SavedStateError, error_text
from mpls.formats.validity import ANCHOR

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
