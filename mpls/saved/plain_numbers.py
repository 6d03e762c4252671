"""The numbers in files, checked by the rules of `mpls.formats.validity`; errors name file and key."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpls.formats.validity import LARGEST_COUNT, check_count, check_good_steps, check_scale
from mpls.saved.foreign_files import FROM_WRITER, broken

__all__ = [
    "count_of_variable",
    "good_steps_of_variable",
    "growth_steps_of_config",
    "number_of_variable",
    "scale_of_variable",
]


def scale_of_variable(path: str, key: str, value: Any) -> float:
    """Return the loss scale in a variable: a float scalar, positive and finite in float32."""
    return check_scale(_scalar(path, key, value, "f"), f"{path}: {key}")


def number_of_variable(path: str, key: str, value: Any) -> float:
    """Return the number in a variable of an optimizer, a scalar."""
    return float(_scalar(path, key, value, "fiu"))


def count_of_variable(path: str, key: str, value: Any) -> int:
    """Return the number of steps in a variable: an integer scalar from 0 to 2**63 - 1."""
    return check_count(_scalar(path, key, value, "iu"), f"{path}: {key}")


def good_steps_of_variable(path: str, key: str, value: Any, growth_steps: int | None = None) -> int:
    """Return the number of finite steps since the scale last changed; `growth_steps` is None if unknown."""
    return check_good_steps(_scalar(path, key, value, "iu"), f"{path}: {key}", growth_steps)


def _scalar(path: str, key: str, value: Any, kinds: str) -> Any:
    array = np.asarray(value)
    kind = "f" if array.dtype.name == "bfloat16" else array.dtype.kind
    if array.shape != () or kind not in kinds:
        wanted = {"f": "a float", "iu": "an integer", "fiu": "a number's"}[kinds]
        got = f"dtype {array.dtype} and shape {array.shape}"
        raise broken(path, key, f"be a scalar of {wanted} dtype", got, FROM_WRITER)
    return array.item()


def growth_steps_of_config(path: str, key: str, value: Any) -> int:
    """Return the growth steps in a config: 0 and negative numbers are valid, and count as 1.

    No count reaches more than 64 bits hold, which constructors take too: it is the largest count then.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise broken(path, key, "be a whole number", value, FROM_WRITER)
    return max(-LARGEST_COUNT - 1, min(value, LARGEST_COUNT))
