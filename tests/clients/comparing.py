"""Compares what a program prints with what an old release printed: words exactly, numbers as printed."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from .corpus import PROGRAMS
from .record import HERE, lines_of

_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|inf|nan)(?![\w])", re.IGNORECASE)
# What scripts print otherwise today, on purpose: contrib goes on to look absent; a gate that compares versions as
# strings finds any release after 2.9 old.
_TODAY = {"looks like TF 2": True, "has contrib": False, "old arm": True}
# In the script that loads a model, the scale has been halved once before it is saved; files lost that.
_KEPT_IN_FILES = 0.5


def differences_from_record(name: str, stdout: str, release: str) -> list[str]:
    """Return where what a program prints today differs from what it printed on an old release."""
    expected = json.loads((HERE / "data" / f"{name}.json").read_text())[release]
    if PROGRAMS[name].folder == "scripts":
        return differences(lines_of(stdout), list(map(_today, expected)))
    return differences(stdout.splitlines(), expected, PROGRAMS[name].tolerance)


def differences(seen: list[Any], expected: list[Any], tolerance: float = 0.0) -> list[str]:
    """Return where two outputs differ: lines of words, for which the tolerance is, or what lines of JSON hold."""
    found = [f"{len(seen)} lines for {len(expected)}"] if len(seen) != len(expected) else []
    for number, (one, other) in enumerate(zip(seen, expected, strict=False)):
        if not (_agree(one, other, tolerance) if isinstance(other, str) else _same("", one, other)):
            found.append(f"line {number}: {one!r} for {other!r}")
    return found


def _agree(one: str, other: str, tolerance: float) -> bool:
    """Return whether two lines are the same.

    Whole numbers, scales and counters among them, are compared exactly. Of numbers with a decimal point, the last digit
    may be one more or less, and the number as much as the tolerance says, of itself.
    """
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


def _today(line: dict[str, object]) -> dict[str, object]:
    if line.get("seen") in _TODAY:
        return {**line, "value": _TODAY[str(line["seen"])]}
    if line.get("run") == "loaded":
        return {**line, "scale": float(str(line["scale"])) * _KEPT_IN_FILES}
    return line


def _same(key: str, one: object, other: object) -> bool:
    """Return whether two values of JSON are the same: weights but for 1e-6 of themselves, anything else wholly."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(each, one[each], other[each]) for each in other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_same(key, *pair) for pair in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(other):
            return math.isnan(one)
        # Scales are exact; weights and norms are what sums in another order leave.
        return one == other if key in ("scale", "loss_scale") else math.isclose(one, other, rel_tol=1e-6, abs_tol=2e-7)
    return type(one) is type(other) and one == other
