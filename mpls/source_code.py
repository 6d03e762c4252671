"""Compiles a program's source with the errors of `python` for encodings; those of `compile` differ."""

from __future__ import annotations

import re
from types import CodeType

__all__ = ["compile_source"]

_DECLARATION = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_NO_CODE = re.compile(rb"[ \t\f]*(#.*)?\r?$")


def compile_source(source: str | bytes, file: str) -> CodeType:
    """Compile a program's source.

    Args:
        source: the text, or the contents of the file.
        file: the file name, for tracebacks and errors.

    Raises:
        SyntaxError: it is not valid Python; contains null bytes; is not in the encoding that it declares; or declares
            none, and is not in UTF-8.
    """
    if isinstance(source, bytes) and b"\0" in source:
        # `compile` does not say where the null byte is; up to Python 3.11.3, `python` drops the rest of such lines.
        before = source[: source.index(b"\0")]
        line = before.rpartition(b"\n")[2].decode(errors="replace")
        where = (file, before.count(b"\n") + 1, None, line)
        raise SyntaxError("source code cannot contain null bytes", where)
    if isinstance(source, bytes):
        _check_encoding(source, file)
    return compile(source, file, "exec", dont_inherit=True)


def _check_encoding(source: bytes, file: str) -> None:
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
