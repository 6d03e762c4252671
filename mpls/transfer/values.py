"""Values from a record, fitted to the variables that they go to, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from mpls.errors import SavedStateError

_ANCHOR = "See MIGRATION.md#my-checkpoints"


def fitted(value: Any, shape: tuple[int, ...], dtype: Any, subject: str) -> Any:
    """Return a value as an array that can be assigned to a variable.

    Floats may become floats of another precision, as long as none becomes infinite.

    Args:
        value: an array or a number.
        shape: the variable's shape.
        dtype: its dtype, one of TensorFlow.
        subject: what the value is, for the error.

    Raises:
        SavedStateError: shape or dtype do not fit.
    """
    array = np.asarray(value)
    if tuple(array.shape) != tuple(shape):
        raise SavedStateError(
            f"{subject} must have the shape {list(shape)}; got {list(array.shape)}. Match the variables by a dict: "
            f"variables={{key of the source: variable}}. {_ANCHOR}"
        )
    target = dtype.as_numpy_dtype
    if array.dtype == target:
        return array
    if not _is_same_kind(array.dtype, dtype):
        raise SavedStateError(
            f"{subject} must be {dtype.name}; got {array.dtype}. Is it of another variable, or another file? {_ANCHOR}"
        )
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        converted = array.astype(target)
    is_lost = np.isfinite(array) & ~np.isfinite(converted) if dtype.is_floating else converted != array
    if np.any(is_lost):
        raise SavedStateError(
            f"{subject} must fit into {dtype.name}; got {np.max(np.abs(array))}. Use variables of "
            f"{array.dtype}. {_ANCHOR}"
        )
    return converted


def _is_same_kind(dtype: Any, target: Any) -> bool:
    try:
        own = tf.as_dtype(dtype)
    except TypeError:
        return False
    return bool((own.is_floating and target.is_floating) or (own.is_integer and target.is_integer))


def is_rounded(value: Any, converted: Any) -> bool:
    """Return whether a conversion has made floats less precise."""
    return bool(np.asarray(value).dtype.itemsize > converted.dtype.itemsize)
