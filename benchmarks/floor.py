"""The least that loss scaling can be, if it is made of the operations that TensorFlow has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from mpls.core.branches import group, one_of
from mpls.core.gradients import values_of, with_values

v1 = tf.compat.v1

# Elements that take longer to read than to start an operation.
_LARGE = 2**17


class Floor:
    """An optimizer around another one that scales, unscales, and decides without looking.

    The loss is multiplied and each gradient too, as the optimizers of TensorFlow take no factor; and if the scale is
    dynamic, all gradients are waited for and applied in a conditional, the large ones after they have been read, by a
    sum. Nothing else is looked at, nothing is counted. Only a step that stacks small gradients, so as to have fewer
    operations than gradients, can take less.

    Args:
        optimizer: takes the gradients.
        scale: the loss scale.
        is_dynamic: whether the scale is read from a variable, and there is a conditional.
    """

    def __init__(self, optimizer: Any, scale: float, *, is_dynamic: bool) -> None:
        self.inner_optimizer = optimizer
        self._scale: Any = scale
        if is_dynamic:
            variable = tf.Variable if tf.executing_eagerly() else v1.Variable
            self._scale, self._applies = variable(scale, trainable=False), variable(True, trainable=False)
        self._is_dynamic = is_dynamic

    def minimize(self, compute: Callable[[Callable[[Any], Any]], list[Any]], apply: Callable[[list[Any]], Any]) -> Any:
        """Take a step.

        Args:
            compute: returns the gradients of a loss; takes what the loss is to go through.
            apply: takes gradients.

        Returns:
            In a graph, an op that does all of it; in eager mode None.
        """
        scale = tf.identity(self._scale) if self._is_dynamic else tf.constant(self._scale)
        grads = compute(lambda loss: loss * scale)
        reciprocal = 1.0 / (scale if self._is_dynamic else self._scale)
        values = [tf.raw_ops.Mul(x=value, y=tf.cast(reciprocal, value.dtype)) for value in map(values_of, grads)]
        unscaled = [with_values(grad, value) for grad, value in zip(grads, values, strict=True)]
        if not self._is_dynamic:
            return apply(unscaled)
        sums = [tf.reduce_sum(each) for each in values if (each.shape.num_elements() or 0) >= _LARGE]
        with tf.control_dependencies(values):
            applies = tf.identity(self._applies)
        if sums:
            applies &= tf.reduce_all(tf.math.is_finite(tf.stack(sums)))
        condition = bool(applies) if tf.executing_eagerly() else applies
        return one_of(condition, lambda: group(apply(unscaled)), lambda: None, values)
