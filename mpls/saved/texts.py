"""JSON texts of unknown origin: refused if they would take too much memory, nest too deeply, or cannot be shown."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import chain
from typing import Any

from mpls.saved.errors import FROM_WRITER, broken, reading_foreign_bytes

_DEPTH = 200
# Bytes of memory for each: a list; a dict with its first keys; half a text (two quotes); a key; an item, a number.
_COSTS = {b"[": 80, b"{": 240, b'"': 32, b":": 80, b",": 50}
# In bytes: a text of n bytes may take `_SLACK` and 8 n, or 14 n, whichever is more. A list of short words takes 13 n.
_SLACK = 112 << 20
_FACTOR = 8
_FACTOR_OF_LARGE = 14
# Of several texts together. Configs of layers take up to 15 n.
_FACTOR_OF_SEVERAL = 20
_NESTED = (dict, list)
# An escaped surrogate, half of a pair.
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


def parse_json(path: str, key: str, text: bytes | str, size: int | None = None) -> Any:
    """Return the value of a JSON text.

    Args:
        path: the file, for errors.
        key: the place of the text in the file.
        text: the text, in UTF-8 if it is bytes.
        size: the bytes that the text takes in an archive, if it is packed in one; by default its length.

    Raises:
        SavedStateError: it is not JSON, is nested more than 200 times, would take far more memory than other texts of
            its size, or holds lone surrogates, which UTF-8 cannot encode.
    """
    with reading_foreign_bytes(path, key, "be JSON"):
        raw = _encoded(text)
        size = len(raw) if size is None else size
        _require(path, key, _cost(raw), max(_SLACK + _FACTOR * size, _FACTOR_OF_LARGE * size))
        may_have_halves = _HALF.search(raw) is not None
        value = json.loads(raw.decode("utf-8-sig"))
        _check(path, key, value, may_have_halves)
    return value


def parse_jsons(path: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of the JSON texts in one file, by their places.

    Raises:
        SavedStateError: as with `parse_json`, or they would take far more memory together than one text of their size.
    """
    cost = size = 0
    for key, text in texts.items():
        with reading_foreign_bytes(path, key, "be JSON"):
            raw = _encoded(text)
            cost, size = cost + _cost(raw), size + len(raw)
    _require(path, "all JSON texts", cost, max(_SLACK + _FACTOR * size, _FACTOR_OF_SEVERAL * size))
    return {key: parse_json(path, key, text) for key, text in texts.items()}


def _encoded(text: bytes | str) -> bytes:
    return text.encode("utf-8") if isinstance(text, str) else bytes(text)


def _cost(raw: bytes) -> int:
    """Return the bytes that a text may take when it is parsed."""
    return 2 * len(raw) + sum(raw.count(sign) * each for sign, each in _COSTS.items())


def _require(path: str, key: str, cost: int, limit: int) -> None:
    if cost > limit:
        raise broken(path, key, f"take at most {limit} bytes when parsed", f"about {cost} bytes", FROM_WRITER)


def _check(path: str, key: str, value: Any, may_have_halves: bool) -> None:
    """Refuse a value that is nested too deeply for recursive functions, and lone surrogates."""
    if may_have_halves:
        _check_texts([value])
    # Lists hold the nested values only, since a list of millions of numbers should not be copied.
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
