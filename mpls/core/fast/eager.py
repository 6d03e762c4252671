"""The state of a dynamic loss scale in eager mode: two numbers in Python, and a write of what has changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from mpls.core.rule import ScaleState, UpdateRule, next_state


def update_eagerly(scale: Any, good_steps: Any, grads_finite: bool, rule: UpdateRule) -> None:
    """Bring the state behind two variables to what it is after a step.

    A dozen ops, each called from Python, would take longer than the numbers are worth. The arithmetic is float32, as
    that of the ops.

    Args:
        scale: scalar float32 variable.
        good_steps: scalar integer variable.
        grads_finite: whether every gradient of the step was finite.
        rule: the settings.
    """
    before = ScaleState(read_eagerly(scale).numpy(), int(read_eagerly(good_steps).numpy()))
    # A Python float beside a float32 would make the result a float64 in NumPy 1.
    rule = replace(
        rule,
        multiplier=np.float32(rule.multiplier),
        min_scale=np.float32(rule.min_scale),
        max_scale=np.float32(rule.max_scale),
    )
    with np.errstate(all="ignore"):
        after = next_state(before, grads_finite, rule)
    if after.good_steps != before.good_steps:
        _write(good_steps, after.good_steps)
    # Not by their values, of which a damaged one, NaN, is not equal to itself.
    if after.scale is not before.scale:
        _write(scale, after.scale)


def read_eagerly(variable: Any) -> Any:
    """Return the value of a variable, a tensor; without what reading costs a variable that a tape may watch."""
    if not _is_plain(variable):
        return tf.convert_to_tensor(variable)
    return tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)


def _write(variable: Any, value: Any) -> None:
    if _is_plain(variable):
        tf.raw_ops.AssignVariableOp(resource=variable.handle, value=tf.constant(value, variable.dtype))
    else:
        variable.assign(value)


def _is_plain(variable: Any) -> bool:
    """Return whether all of a variable is behind its handle; copies on several devices have one each."""
    return not isinstance(variable, tf.distribute.DistributedValues) and hasattr(variable, "handle")
