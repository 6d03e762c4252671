"""What users' subclasses override, and what users' code reads and writes that was never public."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import tensorflow as tf
from parameterized import parameterized

import mpls.experimental
import mpls.keras
from mpls.errors import MplsWarning
from tests.core.behavior import ReleaseTest
from tests.keras.families import OPTIMIZERS

INF = float("inf")
EVERYWHERE = [(f"{family}_{release}", family, release) for family in OPTIMIZERS for release in (None, "2.3")]


class _Stepping(ReleaseTest):
    def scaled_grads(self, optimizer: Any, variable: Any, factor: float) -> list[Any]:
        with tf.GradientTape() as tape:
            loss = optimizer.get_scaled_loss(tf.reduce_sum(variable) * factor)
        return tape.gradient(loss, [variable])

    def step(self, optimizer: Any, variable: Any, factor: float = 1.0, *args: Any) -> None:
        grads = optimizer.get_unscaled_gradients(self.scaled_grads(optimizer, variable, factor))
        optimizer.apply_gradients(zip(grads, [variable], strict=True), *args)


class Reducing(mpls.experimental.LossScaleOptimizer):
    """As toolkits do it: gradients are reduced before they are unscaled, and a method of old is there again."""

    def __init__(self, optimizer: Any, loss_scale: Any, reduce_fn: Any = None) -> None:
        super().__init__(optimizer, loss_scale)
        self._reduce_fn = reduce_fn
        self.applied = 0

    def get_unscaled_gradients(self, grads: Any) -> Any:
        return super().get_unscaled_gradients(self._reduce_fn(grads))

    def apply_gradients(self, grads_and_vars: Any, name: Any = None, **kwargs: Any) -> Any:
        self.applied += 1
        return super().apply_gradients(list(grads_and_vars), name, **kwargs)

    def _decayed_lr(self, var_dtype: Any) -> Any:
        return super()._decayed_lr(var_dtype) * 2.0  # type: ignore[misc]


class SubclassTest(_Stepping):
    @parameterized.expand(EVERYWHERE)
    def test_reduced_gradients(self, case: str, family: str, release: str | None) -> None:
        self.use(release)
        optimizer = Reducing(OPTIMIZERS[family].SGD(0.5), "dynamic", lambda grads: [grad * 2.0 for grad in grads])
        variable = tf.Variable([1.0, 2.0])
        for factor in (1.0, INF, 0.5):
            self.step(optimizer, variable, factor)
        np.testing.assert_array_equal(variable, [-0.5, 0.5])
        self.assertEqual(optimizer.applied, 3)
        optimizer.minimize(lambda: tf.reduce_sum(variable), [variable])
        np.testing.assert_array_equal(variable, [-1.5, -0.5])
        self.assertEqual((optimizer.applied, type(optimizer).__name__), (4, "Reducing"))
        self.assertEqual(float(optimizer._decayed_lr("float32")), 1.0)

    @parameterized.expand(EVERYWHERE)
    def test_methods_put_on_an_instance(self, case: str, family: str, release: str | None) -> None:
        self.use(release)
        optimizer = mpls.experimental.LossScaleOptimizer(OPTIMIZERS[family].SGD(0.5), "dynamic")
        optimizer.get_scaled_loss = lambda loss: loss
        optimizer.get_unscaled_gradients = lambda grads: grads
        variable = tf.Variable([1.0, 2.0])
        (grad,) = self.scaled_grads(optimizer, variable, 1.0)
        np.testing.assert_array_equal(grad, [1.0, 1.0])
        for _ in range(2):
            self.step(optimizer, variable)
        np.testing.assert_array_equal(variable, [0.0, 1.0])
        del optimizer.get_scaled_loss
        (grad,) = self.scaled_grads(optimizer, variable, 1.0)
        np.testing.assert_array_equal(grad, [2.0**15] * 2)


class OwnScaling(mpls.keras.LossScaleOptimizer):
    """Scales and unscales by itself."""

    def get_scaled_loss(self, loss: Any) -> Any:
        return loss * self.loss_scale

    def get_unscaled_gradients(self, grads: Any) -> Any:
        return [grad / self.loss_scale for grad in grads]


class SameScaling(mpls.keras.LossScaleOptimizer):
    """Calls what it overrides."""

    def get_scaled_loss(self, loss: Any) -> Any:
        return super().get_scaled_loss(loss)


class PartialScaling(mpls.keras.LossScaleOptimizer):
    """Has a method that is no function."""

    def _scaled(self, factor: float, loss: Any) -> Any:
        return super().get_scaled_loss(loss * factor)

    get_scaled_loss = functools.partialmethod(_scaled, 2.0)


class CountedCallsTest(_Stepping):
    @parameterized.expand(OPTIMIZERS)
    def test_a_method_that_is_no_function(self, family: str) -> None:
        optimizer, variable = PartialScaling(OPTIMIZERS[family].SGD(0.5), initial_scale=8.0), tf.Variable([4.0])
        self.step(optimizer, variable)
        np.testing.assert_array_equal(variable, [3.0])

    @parameterized.expand(OPTIMIZERS)
    def test_calls_of_own_methods_in_another_function(self, family: str) -> None:
        optimizer, variable = OwnScaling(OPTIMIZERS[family].SGD(0.5), initial_scale=8.0), tf.Variable([4.0])

        @tf.function
        def grads() -> Any:
            return optimizer.get_unscaled_gradients(self.scaled_grads(optimizer, variable, 1.0))

        # Without a warning, which would be an error here.
        optimizer.apply_gradients(zip(grads(), [variable], strict=True))
        np.testing.assert_array_equal(variable, [3.5])

    @parameterized.expand(OPTIMIZERS)
    def test_a_method_and_the_one_that_it_calls_are_one_call(self, family: str) -> None:
        optimizer, variable = SameScaling(OPTIMIZERS[family].SGD(0.5), initial_scale=8.0), tf.Variable([4.0])
        self.step(optimizer, variable)
        with self.assertWarnsRegex(MplsWarning, "in this step"):
            optimizer.apply_gradients([(tf.constant([1.0]), variable)])


class ReadsTest(_Stepping):
    """Reads and writes of members that code got used to."""

    def wrapper(self, family: str, release: str | None, loss_scale: Any = "dynamic") -> tuple[Any, Any, Any]:
        self.use(release)
        inner = OPTIMIZERS[family].SGD(0.5, momentum=0.5)
        optimizer = mpls.experimental.LossScaleOptimizer(inner, loss_scale)
        variable = tf.Variable([1.0, 2.0])
        self.step(optimizer, variable)
        return optimizer, inner, variable

    @parameterized.expand(EVERYWHERE)
    def test_what_every_family_has(self, case: str, family: str, release: str | None) -> None:
        optimizer, inner, variable = self.wrapper(family, release)
        self.assertIs(optimizer._optimizer, inner)
        self.assertIs(optimizer.inner_optimizer, inner)
        self.assertEqual(float(optimizer._loss_scale()), 2.0**15)
        self.assertEqual(float(optimizer._loss_scale._current_loss_scale), 2.0**15)
        self.assertEqual(int(optimizer._loss_scale._num_good_steps), 1)
        self.assertEqual((optimizer._loss_scale._increment_period, optimizer._loss_scale._multiplier), (2000, 2.0))
        self.assertEqual([float(rate) for rate in (optimizer.lr, optimizer.learning_rate)], [0.5, 0.5])
        self.assertEqual(float(optimizer._decayed_lr(tf.float32)), 0.5)
        self.assertEqual(float(optimizer._decayed_lr("float32")), 0.5)
        optimizer.lr = 0.25
        self.assertEqual(float(inner.learning_rate), 0.25)
        optimizer._create_all_weights([variable])
        self.step(optimizer, variable)
        np.testing.assert_array_equal(variable, [0.5 - 0.5, 1.5 - 0.5] if family == "legacy" else [0.0, 1.0])

    @parameterized.expand(EVERYWHERE)
    def test_weights(self, case: str, family: str, release: str | None) -> None:
        optimizer, _, variable = self.wrapper(family, release)
        self.assertEqual([int(each) for each in (optimizer.variables()[0], optimizer.weights[0])], [1, 1])
        values = optimizer.get_weights()
        self.assertEqual(int(values[0]), 1)
        self.assertEqual(len(values), len(optimizer.variables()))
        self.assertEqual(len(optimizer.variables()), 3 if family == "keras3" else 2)
        values[0] = values[0] * 0 + 100
        values[-1] = values[-1] * 0 + 1.0
        optimizer.set_weights(values)
        self.assertEqual(int(optimizer.iterations), 100)
        self.step(optimizer, variable, 0.0)
        self.assertEqual(int(optimizer.iterations), 101)
        np.testing.assert_array_equal(variable, [1.0, 2.0])
        if family != "new":
            # Those set as many as they are given.
            with self.assertRaises(ValueError):
                optimizer.set_weights(values[:-1])

    @parameterized.expand(EVERYWHERE)
    def test_putting_a_loss_scale_in(self, case: str, family: str, release: str | None) -> None:
        optimizer, _, variable = self.wrapper(family, release)
        other = mpls.experimental.DynamicLossScale(64.0, 1, 4.0)
        optimizer._loss_scale = other
        self.assertIs(optimizer._loss_scale, other)
        self.step(optimizer, variable)
        self.assertEqual(float(other()), 256.0)
        for wrong in (None, "dynamic", mpls.experimental.DynamicLossScale):
            with self.assertRaisesRegex(TypeError, "_loss_scale must be a LossScale"):
                optimizer._loss_scale = wrong
        self.assertIs(optimizer._loss_scale, other)
        # From TF 2.4 on, a number stood there if the scale was fixed.
        optimizer._loss_scale = 4
        self.assertEqual((float(optimizer._loss_scale()), optimizer.dynamic), (4.0, False))
        (grad,) = self.scaled_grads(optimizer, variable, 1.0)
        np.testing.assert_array_equal(grad, [4.0, 4.0])
        with self.assertRaises(ValueError):
            optimizer._loss_scale = 0
