"""The conditional of graphs that sessions run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from mpls.errors import ArgumentValueError, error_text


def gated(condition: Any, if_true: Callable[[], Any], if_false: Callable[[], Any]) -> Any:
    """Build both branches with ops that wait for a gate of their branch, one of which never opens.

    `tf.cond` passes each variable and each tensor that a branch uses through ops of its own, which cost as much as to
    apply small gradients. It refuses reference variables, too.

    Args:
        condition: scalar boolean tensor.
        if_true: returns an op.
        if_false: the same.

    Returns:
        An op that waits for that of the branch that is taken.
    """
    outer = tf.compat.v1.get_default_graph().get_name_scope()
    with tf.name_scope("cond") as inner:
        switch = tf.raw_ops.Switch(data=condition, pred=condition)
        done = []
        for gate, build in ((tf.identity(switch.output_true), if_true), (tf.identity(switch.output_false), if_false)):
            creator = functools.partial(_variable_of_branch, gate.op, outer, inner)
            with tf.control_dependencies([gate]), tf.variable_creator_scope(creator):
                op = build()
            with tf.control_dependencies([op]):
                done.append(tf.identity(gate))
        return tf.raw_ops.Merge(inputs=done).output.op


def _variable_of_branch(gate: Any, outer: str, inner: str, create: Callable[..., Any], **kwargs: Any) -> Any:
    """Create a variable that a branch makes, with the name that it has without the branch.

    Raises:
        ArgumentValueError: its first value is computed in the branch: who initializes it would take a step.
    """
    value: Any = kwargs.get("initial_value")
    if tf.is_tensor(value) and _waits_for(gate, value.op):
        subject, constraint = "apply_gradients: initial_value of a variable", "not be a tensor that is made there"
        advice = "Give a list, an array or a function, or create the variable before"
        raise ArgumentValueError(error_text(subject, constraint, value, advice, "tf1"))
    present = tf.compat.v1.get_default_graph().get_name_scope()
    if not f"{present}/".startswith(inner):
        return create(**kwargs)
    without = f"{outer}/{present[len(inner) :]}".strip("/")
    with tf.compat.v1.name_scope(f"{without}/" if without else None):
        return create(**kwargs)


def _waits_for(gate: Any, op: Any) -> bool:
    """Return whether an op runs after a gate, or not at all."""
    found, new = set(), [op]
    while new:
        each = new.pop()
        if each is gate:
            return True
        if each.name not in found:
            found.add(each.name)
            new += [*(tensor.op for tensor in each.inputs), *each.control_inputs]
    return False
