"""JSON texts of unknown origin: refused if they nest too deeply for the frameworks, or cannot be shown."""

from __future__ import annotations

import json
import re
from itertools import chain
from typing import Any

from mpls.saved.errors import FROM_WRITER, broken, reading_foreign_bytes

_DEPTH = 200
_NESTED = (dict, list)
# An escaped surrogate, half of a pair.
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(path: str, key: str, text: bytes | str) -> Any:
    """Return the value of a JSON text.

    Args:
        path: the file, for errors.
        key: the place of the text in the file.
        text: the text, in UTF-8 if it is bytes.

    Raises:
        SavedStateError: it is not JSON, is nested more than 200 times, or holds lone surrogates, which UTF-8 cannot
            encode.
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
