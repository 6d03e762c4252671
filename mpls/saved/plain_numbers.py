"""Checks of the numbers in files. They return a plain Python number, or raise an error that names file and key."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpls.formats.validity import LARGEST_COUNT, constraint_on_scale, is_count, most_good_steps
from mpls.saved.foreign_files import FROM_WRITER, broken

__all__ = [
    "count_of_variable",
    "good_steps_of_variable",
    "growth_steps_of_config",
    "number_of_config",
    "number_of_variable",
    "scale_of_variable",
]


def scale_of_variable(path: str, key: str, value: Any) -> float:
    """Return the loss scale in a variable: a float scalar, positive and finite in float32."""
    array = np.asarray(value)
    if array.shape != () or array.dtype.kind != "f":
        raise broken(path, key, "be a scalar of a float dtype", _described(array), FROM_WRITER)
    return number_of_config(path, key, float(array))


def number_of_config(path: str, key: str, value: Any) -> float:
    """Return a scale or a multiplier in a config: a number, positive and finite in float32."""
    if constraint := constraint_on_scale(value):
        raise broken(path, key, constraint, value, FROM_WRITER)
    return float(value)


def number_of_variable(path: str, key: str, value: Any) -> float:
    """Return the number in a variable of an optimizer, a scalar."""
    array = np.asarray(value)
    if array.shape != () or (array.dtype.kind not in "fiu" and array.dtype.name != "bfloat16"):
        raise broken(path, key, "be a scalar of a number's dtype", _described(array), FROM_WRITER)
    return float(array)


def count_of_variable(path: str, key: str, value: Any) -> int:
    """Return the number of steps in a variable: an integer scalar from 0 to 2**63 - 1."""
    array = np.asarray(value)
    if array.shape != () or array.dtype.kind not in "iu":
        raise broken(path, key, "be a scalar of an integer dtype", _described(array), FROM_WRITER)
    if not is_count(array):
        constraint = "be at least 0" if array < 0 else f"be at most {LARGEST_COUNT}"
        raise broken(path, key, constraint, int(array), FROM_WRITER)
    return int(array)


def growth_steps_of_config(path: str, key: str, value: Any) -> int:
    """Return the growth steps in a config: 0 and negative numbers are valid, and count as 1.

    No count reaches more than 64 bits hold, which constructors take too: it is the largest count then.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise broken(path, key, "be a whole number", value, FROM_WRITER)
    return max(-LARGEST_COUNT - 1, min(value, LARGEST_COUNT))


def good_steps_of_variable(path: str, key: str, value: Any, growth_steps: int | None = None) -> int:
    """Return the number of finite steps since the scale last changed, from a variable.

    Args:
        path: the file, for errors.
        key: the place of the variable in the file.
        value: the variable's value.
        growth_steps: finite steps in a row after which the scale grows; None if not known.
    """
    good_steps = count_of_variable(path, key, value)
    most = most_good_steps(growth_steps)
    if good_steps > most:
        raise broken(path, key, f"be at most the period, {most}", good_steps, FROM_WRITER)
    return good_steps


def _described(array: Any) -> str:
    return f"dtype {array.dtype} and shape {array.shape}"
