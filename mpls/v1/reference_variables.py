"""Reference variables, which TF 1.x made by default, in conditionals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from mpls.core.fast.branches import first_control_flow


@contextmanager
def branches_may_capture(variables: list[Any]) -> Iterator[None]:
    """Build conditionals with control flow v1 if they capture reference variables, which v2 cannot."""
    if not any(map(_is_reference, variables)) or not tf.compat.v1.control_flow_v2_enabled():
        yield
        return
    with first_control_flow():
        yield


def _is_reference(variable: Any) -> bool:
    dtype = getattr(variable, "dtype", None)
    return dtype is not None and dtype != dtype.base_dtype
