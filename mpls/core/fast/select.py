"""The choice between scalars that the update rule is made of, for tensors."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def select(condition: Any, if_true: Any, if_false: Any) -> Any:
    """`tf.where` for scalars, in which a Python number takes the dtype of the tensor beside it.

    Where the condition is a bool, there is nothing to choose at run time.
    """
    dtype = next((value.dtype for value in (if_true, if_false) if tf.is_tensor(value)), None)
    values = [value if dtype is None else tf.cast(value, dtype) for value in (if_true, if_false)]
    return values[not condition] if isinstance(condition, bool) else tf.where(condition, *values)
