"""Errors about files: how they are made, and the advice that several of them give."""

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
IF_TRUSTED = "If you trust whoever wrote the file, pass safe_mode=False"

# The exceptions that the standard library, NumPy and h5py raise over broken bytes.
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
    """A path does not exist, or what is there is of no format that a release has written."""


def broken(path: str, key: str, constraint: str, got: object, advice: str = COPY_AGAIN) -> SavedStateError:
    """Return the `SavedStateError` for a broken file; the caller raises it.

    Args:
        path: the file, as the user named it.
        key: the part of the file that is wrong.
        constraint: the condition, as it follows the word "must": `"be at least 0"`.
        got: the offending value.
        advice: the remedy.
    """
    error: SavedStateError = SavedStateError(error_text(f"{path}: {key}", constraint, got, advice, ANCHOR))
    return error


@contextmanager
def reading_foreign_bytes(path: str, key: str, constraint: str) -> Iterator[None]:
    """Turn the exceptions of libraries over broken bytes, raised in the block, into a `SavedStateError`.

    Args:
        path: the file, as the user named it.
        key: the part of the file that is read.
        constraint: the condition that it does not meet if an exception is raised.
    """
    try:
        yield
    except MplsError:
        raise
    except _SYMPTOMS as error:
        raise broken(path, key, constraint, f"{type(error).__name__}: {error}") from error
