"""Compares what a program prints with what an old release printed: words exactly, numbers as printed."""

from __future__ import annotations

import math
import re

_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|inf|nan)(?![\w])", re.IGNORECASE)


def differences(seen: list[str], expected: list[str], tolerance: float) -> list[str]:
    """Return where two outputs differ.

    Whole numbers, scales and counters among them, are compared exactly. Of numbers with a decimal point, the last digit
    may be one more or less, and the number as much as the tolerance says, of itself.
    """
    found = [f"{len(seen)} lines for {len(expected)}"] if len(seen) != len(expected) else []
    for number, (one, other) in enumerate(zip(seen, expected, strict=False)):
        if not _agree(one, other, tolerance):
            found.append(f"line {number}: {one!r} for {other!r}")
    return found


def _agree(one: str, other: str, tolerance: float) -> bool:
    if _NUMBER.sub("#", one) != _NUMBER.sub("#", other):
        return False
    pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
    return all(seen == expected or _close(seen, expected, tolerance) for seen, expected in pairs)


def _close(one: str, other: str, tolerance: float) -> bool:
    if "." not in one and "." not in other:
        return False
    first, second = float(one), float(other)
    if not (math.isfinite(first) and math.isfinite(second)):
        return False
    return abs(first - second) <= 1.01 * max(_last_digit(one), _last_digit(other)) + tolerance * abs(second)


def _last_digit(number: str) -> float:
    mantissa, _, exponent = number.lower().partition("e")
    digits = len(mantissa.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - digits)


__all__ = ["differences"]
