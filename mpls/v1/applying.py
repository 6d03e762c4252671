"""The hooks of a step on a v1 optimizer, the control flow of its conditional, and `GraphKeys.TRAIN_OP`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from mpls.core.counters import StepRecord
from mpls.core.fast import control_flow_v1, group
from mpls.core.loss_scale import changes_nothing, is_known_unread
from mpls.core.scaling_calls import ScalingCalls


class InnerStep:
    """Step hooks of the v1 family: a skipped step leaves `global_step` alone, unless it is to count."""

    sums_gradients, are_same = True, False

    def __init__(self, optimizer: Any, global_step: Any, name: str, skip_counts_step: bool | None) -> None:
        self._optimizer = optimizer
        self._global_step = global_step
        self._name = name
        self._skip_counts_step = bool(skip_counts_step)

    def apply(self, grads_and_vars: list[tuple[Any, Any]]) -> Any:
        """Return the op that applies the gradients and increments `global_step`; None in eager mode."""
        return self._optimizer.apply_gradients(grads_and_vars, self._global_step, self._name)

    def skip(self) -> Any:
        """Return an op that does nothing, or increments `global_step`."""
        if not self._skip_counts_step or self._global_step is None:
            return tf.no_op()
        return self._global_step.assign_add(1, read_value=False)


def train_ops() -> list[Any]:
    """Return the ops in `GraphKeys.TRAIN_OP`."""
    return list(tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.TRAIN_OP))


def publish_train_op(op: Any, before: list[Any]) -> None:
    """Leave in `GraphKeys.TRAIN_OP` the op that a session can run, not the one inside the conditional."""
    if not tf.executing_eagerly():
        tf.compat.v1.get_collection_ref(tf.compat.v1.GraphKeys.TRAIN_OP)[:] = [*before, op]


def warn_if_forgotten(calls: ScalingCalls, loss_scale: Any, variables: Iterable[Any]) -> None:
    """Begin a new step, and warn if the one that ends has scaled no loss, unless the program may have done it itself.

    Args:
        calls: the calls of the optimizer.
        loss_scale: that of the optimizer.
        variables: those that have a gradient.
    """
    step = calls.end_step(variables)
    if step.is_scaled or changes_nothing(loss_scale) or not is_known_unread(loss_scale):
        return
    if not calls.scaling.isdisjoint(step.elsewhere()):
        return
    calls.warn_once(
        "LossScaleOptimizer: apply_gradients() was called, but compute_gradients() never was in this step, so the "
        "gradients were computed without loss scaling. Use opt.minimize(loss), or compute them with "
        "grads_and_vars = opt.compute_gradients(loss, variables). See mpls docs forgotten-scaling"
    )


def apply_always(
    optimizer: Any, record: StepRecord | None, grads_and_vars: Any, global_step: Any, name: str | None
) -> Any:
    """Apply a step that is never skipped, and count it if there is a record; arguments as in `apply_gradients`."""
    if record is None:
        return optimizer.apply_gradients(grads_and_vars, global_step, name)
    before, name = train_ops(), optimizer.get_name() if name is None else name
    # Strategies take equal strings of two replicas for different ones if they are different objects.
    applied = optimizer.apply_gradients(grads_and_vars, global_step, sys.intern(f"{name}-wrapped"))
    # A step that waits for the gradients of other workers is not applied yet.
    with tf.control_dependencies([] if applied is None else [applied]):
        train_op = group(applied, record.applied_by_all(), name=name)
    publish_train_op(train_op, before)
    return train_op


@contextmanager
def branches_may_capture(variables: list[Any]) -> Iterator[None]:
    """Build conditionals with control flow v1 if they capture reference variables, which v2 cannot."""
    if not any(map(_is_reference, variables)) or not tf.compat.v1.control_flow_v2_enabled():
        yield
        return
    with control_flow_v1():
        yield


def _is_reference(variable: Any) -> bool:
    dtype = getattr(variable, "dtype", None)
    return dtype is not None and dtype != dtype.base_dtype
