"""What steps over Keras 3 say of calls that are missing, and members for code of Keras 2."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import mpls.keras
from mpls.errors import MplsWarning


def wrapper(**settings: Any) -> Any:
    return mpls.keras.LossScaleOptimizer(keras.optimizers.SGD(0.5, **settings), initial_scale=8.0)


def test_gradients_that_were_never_scaled() -> None:
    variable = keras.Variable([8.0])
    with pytest.warns(MplsWarning, match="the gradients are divided by a loss scale that the loss was not multiplied"):
        wrapper().apply_gradients([(tf.constant([8.0]), variable)])
    np.testing.assert_array_equal(variable, [7.5])


def test_gradients_that_are_applied_again() -> None:
    optimizer, variable = wrapper(), keras.Variable([8.0])
    with tf.GradientTape() as tape:
        loss = optimizer.get_scaled_loss(variable.value[0] * 2.0)
    grads = optimizer.get_unscaled_gradients(tape.gradient(loss, [variable.value]))
    optimizer.apply_gradients([(grads[0], variable)])
    with pytest.warns(MplsWarning, match="so the gradients are not scaled. In a custom loop"):
        optimizer.apply_gradients([(grads[0], variable)])
    np.testing.assert_array_equal(variable, [6.0])


def test_steps_that_are_set_where_gradients_are_accumulated() -> None:
    optimizer = wrapper(gradient_accumulation_steps=2)
    optimizer.build([keras.Variable([8.0])])
    optimizer.iterations = 3
    assert int(optimizer.iterations) == 3


def test_the_learning_rate_in_a_dtype() -> None:
    assert [wrapper()._decayed_lr(each).dtype for each in ("float64", tf.float16)] == [tf.float64, tf.float16]


class _TakesAny(keras.optimizers.SGD):  # type: ignore[misc]
    def apply_gradients(self, *args: Any) -> Any:
        self.given = args[1:]
        return super().apply_gradients(args[0])


class _TakesOne(keras.optimizers.SGD):  # type: ignore[misc]
    def apply_gradients(self, grads_and_vars: Any, extra: Any = None) -> Any:
        self.given = (extra,)
        return super().apply_gradients(grads_and_vars)


@pytest.mark.parametrize("cls", [_TakesAny, _TakesOne])
def test_a_second_argument_of_the_wrapped_optimizer(cls: Any) -> None:
    inner, variable = cls(0.5), keras.Variable([8.0])
    optimizer = mpls.keras.LossScaleOptimizer(inner, initial_scale=8.0)
    optimizer.get_scaled_loss(tf.constant(1.0))
    grads = optimizer.get_unscaled_gradients([tf.constant([8.0])])
    optimizer.apply_gradients([(grads[0], variable)], 3.5)
    assert (inner.given, float(variable[0])) == ((3.5,), 7.5)
