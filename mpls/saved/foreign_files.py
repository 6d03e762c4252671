"""Files of unknown origin: how they are opened, JSON in them, and errors about them.

All readers of `mpls.saved` raise `mpls.errors.SavedStateError` if a file is broken or not valid.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

from mpls.errors import MplsError, SavedStateError, error_text
from mpls.formats.validity import ANCHOR

COPY_AGAIN = "Copy the file again, or use an earlier one"
FROM_WRITER = "Ask the program that wrote the file, or use an earlier one"
IF_TRUSTED = "If you trust whoever wrote the file, pass safe_mode=False"

# How deep JSON may be nested: the frameworks read it by recursion.
_DEPTH = 200
_NESTED = (dict, list)
# An escaped surrogate, half of a pair.
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


class NotAnArtefactError(SavedStateError):
    """A path does not exist, or what is there is of no format that a release has written."""


def broken(path: str, key: str, constraint: str, got: object, advice: str = COPY_AGAIN) -> SavedStateError:
    """Return the error for a broken file; the caller raises it.

    Args:
        path: the file, as the user named it.
        key: the part of the file that is wrong; `''` for all of it.
        constraint: the condition, as it follows the word "must": `"be at least 0"`.
        got: the offending value.
        advice: the remedy.
    """
    subject = f"{path}: {key}" if key else path
    error: SavedStateError = SavedStateError(error_text(subject, constraint, got, advice, ANCHOR))
    return error


@contextmanager
def reading_foreign_bytes(path: str, key: str, constraint: str) -> Iterator[None]:
    """Turn the exceptions of libraries over broken bytes, raised in the block, into the error of `broken`."""
    try:
        yield
    except (MplsError, ImportError, Warning):
        raise
    except Exception as error:
        raise broken(path, key, constraint, f"{type(error).__name__}: {error}") from error


def size_of(path: str, inside: str | None = None) -> int:
    """Return the size of a regular file.

    Args:
        path: the file.
        inside: the folder that must hold it, links resolved; None for a file that the user has named.
    """
    if inside is not None:
        folder, real = os.path.realpath(inside), os.path.realpath(path)
        if os.path.commonpath([folder, real]) != folder:
            advice = "Copy the file itself there, if you trust it"
            raise broken(path, "the file", f"be inside {inside}, not a link to elsewhere", real, advice)
    if not os.path.exists(path):
        raise broken(path, "the file", "exist", "nothing", "Copy all files of the checkpoint or model")
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise broken(path, "the file", "be a regular file", stat.filemode(status.st_mode), "Name a file")
    return status.st_size


def read_bytes(path: str, inside: str | None = None) -> bytes:
    """Return the content of a file that `size_of` accepts."""
    size_of(path, inside)
    with open(path, "rb") as file:
        return file.read()


def parse_json(path: str, key: str, text: bytes | str) -> Any:
    """Return the value of a JSON text; lone surrogates, which UTF-8 cannot encode, and deep nesting are refused.

    Args:
        path: the file, for errors.
        key: the place of the text in the file.
        text: the text, in UTF-8 if it is bytes.
    """
    with reading_foreign_bytes(path, key, "be JSON"):
        text = (text if isinstance(text, str) else text.decode()).removeprefix("\ufeff")
        text.encode()
        value = json.loads(text)
        if _HALF.search(text):
            # Raises UnicodeEncodeError, a ValueError, over half a pair.
            json.dumps(value, ensure_ascii=False).encode()
        nested = [value]
        for _ in range(_DEPTH + 1):
            # Lists of numbers are not copied: they may have millions.
            inside = (each.values() if isinstance(each, dict) else each for each in nested if isinstance(each, _NESTED))
            nested = [each for each in chain.from_iterable(inside) if isinstance(each, _NESTED)]
            if not nested:
                return value
        raise broken(path, key, f"be nested at most {_DEPTH} times", "more", FROM_WRITER)
