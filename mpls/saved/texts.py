"""JSON texts from strangers: what they cost is known before they are parsed, what they hold can be walked and shown."""

from __future__ import annotations

import json
import re
from itertools import chain
from typing import Any

from mpls.saved.errors import FROM_WRITER, broken, reading_foreign_bytes

_DEPTH = 200
# Bytes that Python takes for a list, a dict with its first keys, half a text, a key, and a place with a number.
_COSTS = {b"[": 80, b"{": 240, b'"': 32, b":": 80, b",": 50}
# A file of n bytes may become this and eight times n, or fourteen times n: a list of short words takes thirteen times.
_SLACK = 112 << 20
_FACTOR = 8
_FACTOR_OF_LARGE = 14
_NESTED = (dict, list)
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


def parse_json(path: str, key: str, text: bytes | str, size: int | None = None) -> Any:
    """Return the value that a JSON text holds.

    Args:
        path: the file, for errors.
        key: where in it the text is.
        text: the text, in UTF-8 if it is bytes.
        size: how many bytes of a file it takes, where it is packed there.

    Raises:
        SavedStateError: it is no JSON, is nested deeply, would take far more memory than texts of its size do, or has
            halves of characters in it, which no encoding can write.
    """
    with reading_foreign_bytes(path, key, "be JSON"):
        raw = text.encode("utf-8") if isinstance(text, str) else bytes(text)
        cost = 2 * len(raw) + sum(raw.count(sign) * each for sign, each in _COSTS.items())
        size = len(raw) if size is None else size
        limit = max(_SLACK + _FACTOR * size, _FACTOR_OF_LARGE * size)
        if cost > limit:
            raise broken(path, key, f"take at most {limit} bytes when parsed", f"about {cost} bytes", FROM_WRITER)
        may_have_halves = _HALF.search(raw) is not None
        value = json.loads(raw.decode("utf-8-sig"))
        _check(path, key, value, may_have_halves)
    return value


def _check(path: str, key: str, value: Any, may_have_halves: bool) -> None:
    """Refuse what functions that call themselves could not walk through, and texts that cannot be written."""
    if may_have_halves:
        _check_texts([value])
    # Of millions of numbers no second list is made.
    nested = [value] if type(value) in _NESTED else []
    for _ in range(_DEPTH):
        if not nested:
            return
        if may_have_halves:
            for each in nested:
                _check_texts(each)
        inside = chain.from_iterable(each.values() if isinstance(each, dict) else each for each in nested)
        nested = [each for each in inside if type(each) in _NESTED]
    raise broken(path, key, f"be nested at most {_DEPTH} times", "more", FROM_WRITER)


def _check_texts(values: Any) -> None:
    for each in chain(values, values.values() if isinstance(values, dict) else ()):
        if isinstance(each, str) and not each.isascii():
            # Raises UnicodeEncodeError, a ValueError.
            each.encode("utf-8")
