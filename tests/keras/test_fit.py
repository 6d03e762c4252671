"""`Model.compile` and `Model.fit` under mixed precision, beside tf_keras' own wrapper."""

from __future__ import annotations

import unittest
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.experimental
import mpls.keras

FAMILIES = [("legacy", tf_keras.optimizers.legacy), ("new", tf_keras.optimizers)]
Ours: Any = mpls.keras.LossScaleOptimizer
Native: Any = tf_keras.mixed_precision.LossScaleOptimizer


class MixedPolicyTestCase(unittest.TestCase):
    def setUp(self) -> None:
        tf_keras.mixed_precision.set_global_policy("mixed_float16")
        self.addCleanup(tf_keras.mixed_precision.set_global_policy, "float32")

    def model(self, optimizer: Any, **kwargs: Any) -> Any:
        tf_keras.utils.set_random_seed(0)
        model = tf_keras.Sequential(
            [
                tf_keras.layers.Dense(4, activation="tanh", input_shape=(3,)),
                tf_keras.layers.Dense(1, dtype="float32"),
            ]
        )
        model.compile(optimizer, "mse", metrics=["mae"], **kwargs)
        return model

    def data(self, bad: int | None = None) -> tuple[Any, Any]:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(32, 3)).astype(np.float32)
        y = x.sum(axis=1, keepdims=True)
        if bad is not None:
            x[bad] = np.inf
        return x, y

    def fit(self, optimizer: Any, bad: int | None = None, **kwargs: Any) -> tuple[Any, ...]:
        model = self.model(optimizer, **kwargs)
        x, y = self.data(bad)
        history = model.fit(x, y, batch_size=8, epochs=3, shuffle=False, verbose=0)
        state = [float(optimizer.loss_scale), int(tf.identity(optimizer.iterations))]
        if optimizer.dynamic:
            state.append(int(tf.identity(optimizer.dynamic_counter)))
        return history.history, model.get_weights(), state


class FitTest(MixedPolicyTestCase):
    @parameterized.expand([(f"{f}_{m}", o, {m: True}) for f, o in FAMILIES for m in ("run_eagerly", "jit_compile")])
    @pytest.mark.default_run("one case")
    def test_other_ways_to_run_train_alike(self, name: str, optimizers: Any, kwargs: dict[str, bool]) -> None:
        settings = {"initial_scale": 64, "dynamic_growth_steps": 3}
        expected = self.fit(Ours(optimizers.SGD(0.05, 0.5), **settings))
        result = self.fit(Ours(optimizers.SGD(0.05, 0.5), **settings), **kwargs)
        self.assertEqual(result[2], expected[2])
        # float16 products may be summed in another order.
        np.testing.assert_allclose(result[0]["loss"], expected[0]["loss"], rtol=5e-3)

    @parameterized.expand(FAMILIES)
    @pytest.mark.default_run("one case")
    def test_steps_per_execution_and_train_on_batch(self, name: str, optimizers: Any) -> None:
        settings = {"initial_scale": 64, "dynamic_growth_steps": 3}
        expected = self.fit(Ours(optimizers.SGD(0.05), **settings))
        result = self.fit(Ours(optimizers.SGD(0.05), **settings), steps_per_execution=4)
        self.assertEqual(result[2], expected[2])
        np.testing.assert_allclose(result[0]["loss"], expected[0]["loss"], rtol=1e-5)
        optimizer = Ours(optimizers.SGD(0.05), **settings)
        model, (x, y) = self.model(optimizer), self.data()
        for _ in range(3):
            for start in range(0, 32, 8):
                model.train_on_batch(x[start : start + 8], y[start : start + 8])
        for weight, other in zip(model.get_weights(), expected[1], strict=True):
            np.testing.assert_allclose(weight, other, rtol=1e-5, atol=1e-6)

    @parameterized.expand(FAMILIES)
    @pytest.mark.default_run("one case")
    def test_learning_rate_callbacks(self, name: str, optimizers: Any) -> None:
        optimizer = Ours(optimizers.SGD(0.5))
        model, (x, y) = self.model(optimizer), self.data()
        schedule = tf_keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
        history = model.fit(x, y, epochs=2, verbose=0, callbacks=[schedule])
        self.assertEqual([float(rate) for rate in history.history["lr"]], [0.25, 0.125])
        self.assertEqual(float(optimizer.inner_optimizer.learning_rate), 0.125)


class WrappingTest(MixedPolicyTestCase):
    @parameterized.expand(FAMILIES)
    def test_compile_takes_it_as_it_is(self, name: str, optimizers: Any) -> None:
        optimizer = Ours(optimizers.SGD())
        self.assertIs(self.model(optimizer).optimizer, optimizer)
        self.assertIs(tf_keras.optimizers.get(optimizer), optimizer)
        self.assertNotIsInstance(optimizer.inner_optimizer, (Native, Ours))

    @parameterized.expand(FAMILIES)
    def test_compile_takes_an_experimental_one_as_it_is(self, name: str, optimizers: Any) -> None:
        with self.assertWarns(FutureWarning):
            optimizer = mpls.experimental.LossScaleOptimizer(optimizers.SGD(), "dynamic")
        self.assertIs(self.model(optimizer).optimizer, optimizer)

    @parameterized.expand(FAMILIES)
    def test_what_compile_wraps_itself_is_an_instance(self, name: str, optimizers: Any) -> None:
        inner = optimizers.SGD()
        optimizer = self.model(inner).optimizer
        self.assertIsInstance(optimizer, Native)
        self.assertIsInstance(optimizer, Ours)
        self.assertNotIsInstance(optimizer, mpls.experimental.LossScaleOptimizer)
        self.assertNotIsInstance(inner, Ours)
        # And is not wrapped again.
        with self.assertRaisesRegex(TypeError, "not scale the loss itself"):
            Ours(optimizer)
        with self.assertRaisesRegex(ValueError, "wrapped by one LossScaleOptimizer only"):
            Ours(inner)
