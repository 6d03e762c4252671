"""What counts as a number, and which numbers can be a scale."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mpls.core.rule import FLOAT32_MAX
from mpls.errors import ArgumentOverflowError, ArgumentTypeError, ArgumentValueError, error_text

_ANCHOR = "refused-numbers"


def is_number(value: object) -> bool:
    """Return whether the value is a Python or NumPy real number, a 0-d array included."""
    if isinstance(value, int | float):
        return True
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "iuf"
    return isinstance(value, np.generic) and value.dtype.kind in "iuf"


def to_float(value: Any, subject: str) -> float:
    """Convert to a Python float, strings like '128' included, as the originals did.

    Raises:
        ArgumentTypeError: the value has no float.
        ArgumentValueError: a string that spells none.
        ArgumentOverflowError: an integer too large for any float.
    """
    return float(_convert(float, value, subject, "be a number"))


def to_int(value: Any, subject: str) -> int:
    """Convert to a Python int, rounding towards zero, as the originals did.

    Raises:
        ArgumentTypeError: the value has no int.
        ArgumentValueError: a string that spells none, or NaN.
        ArgumentOverflowError: infinity.
    """
    return int(_convert(int, value, subject, "be a whole number"))


def _convert(kind: type, value: Any, subject: str, constraint: str) -> Any:
    try:
        return kind(value)
    except (TypeError, ValueError, OverflowError) as error:
        text = error_text(subject, constraint, value, f"Pass a Python number ({error})", _ANCHOR)
        if isinstance(error, OverflowError):
            raise ArgumentOverflowError(text) from error
        raise (ArgumentTypeError if isinstance(error, TypeError) else ArgumentValueError)(text) from error


def require_usable(value: float, subject: str, got: Any) -> float:
    """Refuse what can do nothing but destroy a run: NaN, infinite, zero or negative, seen as float32.

    Args:
        value: the number.
        subject: the public name and the argument, for the error.
        got: what the user passed, for the error.

    Returns:
        The value.

    Raises:
        ArgumentValueError: the value is none that a float32 scale can have.
    """
    smallest = float(np.finfo(np.float32).smallest_subnormal)
    if math.isnan(value) or not smallest <= value <= FLOAT32_MAX:
        raise ArgumentValueError(
            error_text(
                subject,
                "be positive and finite in float32",
                got,
                "Use the default, or a power of two such as 2.0**15",
                _ANCHOR,
            )
        )
    return value
