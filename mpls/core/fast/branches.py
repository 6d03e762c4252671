"""Conditionals, choices between scalars, and ops that group others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from mpls.flags import Flag
from mpls.upstream.tensorflow import control_flow_v1_conditional

_in_control_flow_v1 = Flag("_in_control_flow_v1")


def control_flow_v1() -> AbstractContextManager[None]:
    """Have conditionals that this thread makes in a block use TensorFlow's first control flow; in a v1 graph."""
    return _in_control_flow_v1.raised()


def one_of(condition: Any, if_true: Callable[[], Any], if_false: Callable[[], Any]) -> Any:
    """Run one of two branches for its side effects.

    Args:
        condition: scalar boolean tensor; if its value is known, or for a bool, there is no conditional.
        if_true: returns an op, or None.
        if_false: the same.

    Returns:
        In a graph, an op that does it; in eager mode None.
    """
    known = condition if isinstance(condition, bool) else tf.get_static_value(condition)
    if known is not None:
        return group(if_true() if known else if_false())
    return group(_cond(condition, lambda: group(if_true()), lambda: group(if_false()), None))


def value_of(condition: Any, if_true: Callable[[], Any], if_false: Callable[[], Any], name: str) -> Any:
    """Return one of two tensors, or lists of tensors; the branches have no side effects.

    Args:
        condition: scalar boolean tensor; for a bool, there is no conditional.
        if_true: returns them.
        if_false: the same.
        name: name of the conditional: an unnamed one would shift later `cond_N` scopes and so checkpoint names.
    """
    if isinstance(condition, bool):
        return if_true() if condition else if_false()
    return _cond(condition, if_true, if_false, name)


def _cond(condition: Any, if_true: Callable[[], Any], if_false: Callable[[], Any], name: str | None) -> Any:
    cond = control_flow_v1_conditional if _in_control_flow_v1.is_raised else tf.cond
    return cond(condition, if_true, if_false, name=name)


def select(condition: Any, if_true: Any, if_false: Any) -> Any:
    """Return one of two scalars, as `tf.where` does; a Python number takes the dtype of the tensor beside it.

    Args:
        condition: scalar boolean tensor; for a bool, there is no op that chooses.
        if_true: scalar tensor or Python number.
        if_false: the same.
    """
    dtype = next((value.dtype for value in (if_true, if_false) if tf.is_tensor(value)), None)
    values = [value if dtype is None else tf.cast(value, dtype) for value in (if_true, if_false)]
    return values[not condition] if isinstance(condition, bool) else tf.where(condition, *values)


def group(*results: Any, name: str | None = None) -> Any:
    """Return one op that runs all results, per-replica ones among them; None in eager mode.

    Args:
        *results: ops, tensors, per-replica values of either, and None, which is ignored.
        name: name of the op.
    """
    if tf.executing_eagerly():
        return None
    ops: list[Any] = []
    for result in results:
        ops.extend(op for op in tf.distribute.get_strategy().experimental_local_results(result) if op is not None)
    return tf.group(*ops, name=name)
