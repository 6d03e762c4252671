"""Raises the errors that `python` raises for a file's encoding; `compile` raises different ones."""

from __future__ import annotations

import re

__all__ = ["check_encoding"]

_DECLARATION = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_NO_CODE = re.compile(rb"[ \t\f]*(#.*)?\r?$")


def check_encoding(source: bytes, file: str) -> None:
    """Check that a source can be decoded.

    Args:
        source: the contents of the file.
        file: its name, for the error.

    Raises:
        SyntaxError: the source is not in the encoding that it declares; or declares none, and is not in UTF-8.
    """
    name = _declared(source)
    try:
        source.decode(name or "utf-8")
    except UnicodeDecodeError as error:
        if name is None:
            line = source.count(b"\n", 0, error.start) + 1
            raise SyntaxError(
                f"Non-UTF-8 code starting with '\\x{source[error.start]:02x}' in file {file} on line {line}, but no "
                "encoding declared; see https://peps.python.org/pep-0263/ for details"
            ) from None
        # For UTF-8, the error has a line of the program, which `compile` finds.
        if not name.lower().replace("_", "-").startswith("utf-8"):
            raise SyntaxError(f"encoding problem: {name}") from None
    except LookupError:
        raise SyntaxError(f"encoding problem: {name}") from None


def _declared(source: bytes) -> str | None:
    """Return the encoding that one of the first two lines declares; the second counts only if the first has no code."""
    for line in source.split(b"\n", 2)[:2]:
        found = _DECLARATION.match(line)
        if found:
            return found[1].decode("ascii")
        if not _NO_CODE.match(line):
            return None
    return None
