"""Numeric arguments of the public API, converted and checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpls.errors import ArgumentOverflowError, ArgumentTypeError, ArgumentValueError, error_text
from mpls.formats.validity import is_count
from mpls.formats.wrapper_state import LARGEST_FIXED_SCALE, can_be_scale

_ANCHOR = "refused-numbers"


def to_float(value: Any, subject: str) -> float:
    """Convert to a Python float, strings like '128' included, as the originals did.

    Raises:
        ArgumentTypeError: the value has no `__float__`.
        ArgumentValueError: it is a string that is not a number.
        ArgumentOverflowError: it is an integer too large for a float.
    """
    return float(_convert(float, value, subject, "be a number"))


def to_int(value: Any, subject: str) -> int:
    """Convert to a Python int, rounding towards zero, as the originals did.

    Raises:
        ArgumentTypeError: the value has no `__int__`.
        ArgumentValueError: it is a string that is not a whole number, or NaN.
        ArgumentOverflowError: it is infinite.
    """
    return int(_convert(int, value, subject, "be a whole number"))


def to_whole(value: Any, subject: str, advice: str, anchor: str, *, least: int | None = None) -> int:
    """Return a whole number as a Python int; bools, strings and fractions are not taken for one.

    Args:
        value: what the user passed.
        subject: the public name and the argument, for errors.
        advice: what to do, for errors.
        anchor: the section of the documentation, for errors.
        least: the least number; the largest is 2**63 - 1 then. None for any number.

    Raises:
        ArgumentTypeError: the value has no `__int__`.
        ArgumentValueError: it is anything else.
        ArgumentOverflowError: it is infinite.
    """
    number = to_int(value, subject)
    is_whole = not isinstance(value, bool | np.bool_ | str) and number == value
    if is_whole and (least is None or is_count(number, least)):
        return number
    constraint = "be a whole number" if least is None else f"be a whole number of at least {least}"
    raise ArgumentValueError(error_text(subject, constraint, value, advice, anchor))


def _convert(kind: type, value: Any, subject: str, constraint: str) -> Any:
    try:
        return kind(value)
    except (TypeError, ValueError, OverflowError) as error:
        text = error_text(subject, constraint, value, f"Pass a Python number ({error})", _ANCHOR)
        if isinstance(error, OverflowError):
            raise ArgumentOverflowError(text) from error
        raise (ArgumentTypeError if isinstance(error, TypeError) else ArgumentValueError)(text) from error


def to_bool(value: Any, subject: str, anchor: str) -> bool:
    """Return a bool of Python; nothing else is taken for one.

    Raises:
        ArgumentTypeError: it is something else.
    """
    if isinstance(value, bool):
        return value
    raise ArgumentTypeError(error_text(subject, "be a bool", value, "Pass True or False", anchor))


def to_usable(given: Any, subject: str, *, is_fixed: bool = False) -> float:
    """Return a scale or a factor; one that is NaN, infinite, zero or negative in float32 would ruin any run.

    Args:
        given: what the user passed.
        subject: the public name and the argument, for the error.
        is_fixed: whether it is a fixed scale, which must be at most `LARGEST_FIXED_SCALE`: a larger one makes all
            gradients zero.

    Raises:
        ArgumentValueError: the value is refused. Others as with `to_float`.
    """
    value, constraint = to_float(given, subject), ""
    if not can_be_scale(value):
        constraint = "be positive and finite in float32"
    elif is_fixed and value > LARGEST_FIXED_SCALE:
        constraint = "be at most 2**126 for a fixed scale, since the reciprocal of a larger one is zero in float32"
    if constraint:
        advice = "Use the default, or a power of two such as 2.0**15"
        raise ArgumentValueError(error_text(subject, constraint, given, advice, _ANCHOR))
    return value
