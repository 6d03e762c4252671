"""The least that loss scaling can be, if it is made of the operations that TensorFlow has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from mpls.core.fast import Stacks, group, one_of
from mpls.core.gradients import values_of, with_values
from mpls.upstream.tensorflow import captured

v1 = tf.compat.v1

# From this many elements, reading a tensor takes longer than starting an op.
_LARGE = 2**17


class Floor:
    """An optimizer around another one that scales, unscales, and looks at each gradient with a single operation.

    The loss is multiplied and each gradient too, as the optimizers of TensorFlow take no factor; and if the scale is
    dynamic, all gradients are read, by a sum each, and applied in a conditional, where the sum of the sums is finite.
    That is less than a check, as sums of finite numbers can be infinite, and nothing is counted. In graphs, small
    gradients are stacked. In eager mode they are not, and only large ones are read: a step that calls all operations
    at once can take less.

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

        def multiplied(values: list[Any]) -> list[Any]:
            return [tf.raw_ops.Mul(x=value, y=tf.cast(reciprocal, value.dtype)) for value in values]

        def unscaled(values: list[Any]) -> list[Any]:
            return [with_values(grad, value) for grad, value in zip(grads, values, strict=True)]

        scaled = [values_of(grad) for grad in grads]
        if not self._is_dynamic:
            return apply(unscaled(multiplied(scaled)))
        if tf.executing_eagerly():
            values = multiplied(scaled)
            if bool(self._are_fine([each for each in values if each.shape.num_elements() >= _LARGE])):
                apply(unscaled(values))
            return None
        stacks = Stacks(scaled)
        values = multiplied(stacks.tensors)

        def apply_unpacked() -> Any:
            # All gradients are captured: Keras sums only tensors of one graph.
            return group(apply(unscaled(stacks.unstacked(captured(values)))))

        return one_of(self._are_fine(values), apply_unpacked, lambda: None)

    def _are_fine(self, values: list[Any]) -> Any:
        sums = [tf.cast(tf.reduce_sum(each), tf.float32) for each in values]
        if not sums:
            return tf.identity(self._applies)
        return tf.math.is_finite(sums[0] if len(sums) == 1 else tf.add_n(sums))
