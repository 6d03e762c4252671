"""JSON texts from strangers: what they cost is known before they are parsed, and what they hold can be walked and shown."""

from __future__ import annotations

import json
import re
from typing import Any

from mpls.saved.validity import FROM_WRITER, broken, reading_foreign_bytes

_DEPTH = 200
# Bytes that Python takes for a list, a dict with its first keys, a text, and a place in a list or dict with a number.
_COSTS = {b"[": 80, b"{": 240, b'"': 32, b",": 40}
# A text of n bytes may become this and eight times n; large vocabularies and lists of numbers take up to seven times.
_SLACK = 64 << 20
_FACTOR = 8
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


def parse_json(path: str, key: str, text: bytes | str) -> Any:
    """Return the value that a JSON text holds.

    Args:
        path: the file, for errors.
        key: where in it the text is.
        text: the text, in UTF-8 if it is bytes.

    Raises:
        SavedStateError: it is no JSON, is nested deeply, would take far more memory than texts of its size do, or has
            halves of characters in it, which no encoding can write.
    """
    with reading_foreign_bytes(path, key, "be JSON"):
        raw = text.encode("utf-8") if isinstance(text, str) else bytes(text)
        cost = sum(raw.count(sign) * each for sign, each in _COSTS.items())
        limit = _SLACK + _FACTOR * len(raw)
        if cost > limit:
            raise broken(path, key, f"take at most {limit} bytes when parsed", f"about {cost} bytes", FROM_WRITER)
        may_have_halves = _HALF.search(raw) is not None
        value = json.loads(raw.decode("utf-8-sig"))
        _check(path, key, value, may_have_halves)
    return value


def _check(path: str, key: str, value: Any, may_have_halves: bool) -> None:
    """Refuse what functions that call themselves could not walk through, and texts that cannot be written."""
    level = [value]
    for _ in range(_DEPTH):
        nested = [each for each in level if isinstance(each, (dict, list))]
        if may_have_halves:
            _check_texts(level)
            for each in nested:
                _check_texts(each)
        level = [child for each in nested for child in (each.values() if isinstance(each, dict) else each)]
        if not level:
            return
    raise broken(path, key, f"be nested at most {_DEPTH} times", "more", FROM_WRITER)


def _check_texts(values: Any) -> None:
    for each in values:
        if isinstance(each, str) and not each.isascii():
            # Raises UnicodeEncodeError, a ValueError.
            each.encode("utf-8")
