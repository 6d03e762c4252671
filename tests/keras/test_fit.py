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


def two_replicas() -> Any:
    # Collective ops of strategies in one process are told apart by these keys alone.
    tf.distribute.MirroredStrategy._collective_key_base += 10_007
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


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


SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("default", {}),
    ("growing", {"initial_scale": 64, "dynamic_growth_steps": 3}),
    ("starts_too_high", {"initial_scale": 2.0**24, "dynamic_growth_steps": 3}),
    ("fixed", {"dynamic": False, "initial_scale": 128}),
]


class FitTest(MixedPolicyTestCase):
    @parameterized.expand([(f"{f}_{s}", optimizers, kwargs) for f, optimizers in FAMILIES for s, kwargs in SETTINGS])
    @pytest.mark.default_run("one case", by=lambda name, optimizers, settings: (optimizers,))
    def test_history_is_that_of_the_native_wrapper(self, name: str, optimizers: Any, settings: Any) -> None:
        native = self.fit(Native(optimizers.Adam(0.05), **settings))
        ours = self.fit(Ours(optimizers.Adam(0.05), **settings))
        self.assertEqual(native[2], ours[2])
        self.assertEqual(set(native[0]), set(ours[0]))
        for key, values in native[0].items():
            np.testing.assert_allclose(ours[0][key], values, rtol=1e-6)
        for weight, expected in zip(ours[1], native[1], strict=True):
            np.testing.assert_allclose(weight, expected, rtol=1e-5, atol=1e-6)
        # It has learnt something.
        self.assertLess(ours[0]["loss"][-1], ours[0]["loss"][0])

    @parameterized.expand(FAMILIES)
    @pytest.mark.default_run("one case")
    def test_a_bad_batch_is_skipped(self, name: str, optimizers: Any) -> None:
        settings = {"initial_scale": 64, "dynamic_growth_steps": 100}
        _, native_weights, native_state = self.fit(Native(optimizers.SGD(0.05), **settings), bad=9)
        _, weights, state = self.fit(Ours(optimizers.SGD(0.05), **settings), bad=9)
        # One of four batches, in each of three epochs.
        self.assertEqual(state, [8.0, 12, 2])
        self.assertEqual(state, native_state)
        for weight, expected in zip(weights, native_weights, strict=True):
            np.testing.assert_allclose(weight, expected, rtol=1e-5, atol=1e-6)

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
    def test_under_a_mirrored_strategy(self, name: str, optimizers: Any) -> None:
        settings = {"initial_scale": 64, "dynamic_growth_steps": 3}
        results = []
        for wrapper in (Native, Ours):
            with two_replicas().scope():
                results.append(self.fit(wrapper(optimizers.SGD(0.05), **settings)))
        self.assertEqual(results[0][2], results[1][2])
        np.testing.assert_allclose(results[1][0]["loss"], results[0][0]["loss"], rtol=1e-5)

    @parameterized.expand(FAMILIES)
    @pytest.mark.default_run("one case")
    def test_learning_rate_callbacks(self, name: str, optimizers: Any) -> None:
        optimizer = Ours(optimizers.SGD(0.5))
        model, (x, y) = self.model(optimizer), self.data()
        schedule = tf_keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
        history = model.fit(x, y, epochs=2, verbose=0, callbacks=[schedule])
        self.assertEqual([float(rate) for rate in history.history["lr"]], [0.25, 0.125])
        self.assertEqual(float(optimizer.inner_optimizer.learning_rate), 0.125)

    @parameterized.expand(FAMILIES)
    @pytest.mark.default_run("one case")
    def test_a_model_with_a_train_step_of_its_own(self, name: str, optimizers: Any) -> None:
        class Model(tf_keras.Sequential):  # type: ignore[misc]
            def train_step(self, data: Any) -> Any:
                x, y = data
                with tf.GradientTape() as tape:
                    loss = self.compiled_loss(y, self(x, training=True))
                    scaled = self.optimizer.get_scaled_loss(loss)
                grads = tape.gradient(scaled, self.trainable_variables)
                grads = self.optimizer.get_unscaled_gradients(grads)
                self.optimizer.apply_gradients(zip(grads, self.trainable_variables, strict=True))
                return {"loss": loss}

        results = []
        for wrapper in (Native, Ours):
            tf_keras.utils.set_random_seed(0)
            model = Model([tf_keras.layers.Dense(1, input_shape=(3,))])
            model.compile(wrapper(optimizers.SGD(0.05), initial_scale=64, dynamic_growth_steps=2), "mse")
            x, y = self.data()
            results.append(model.fit(x, y, batch_size=8, shuffle=False, verbose=0).history["loss"])
        np.testing.assert_allclose(*results, rtol=1e-6)


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

    @parameterized.expand(FAMILIES)
    @pytest.mark.default_run("one case")
    def test_without_a_mixed_policy_it_scales_too(self, name: str, optimizers: Any) -> None:
        tf_keras.mixed_precision.set_global_policy("float32")
        optimizer = Ours(optimizers.SGD(0.05), initial_scale=64, dynamic_growth_steps=3)
        bare = optimizers.SGD(0.05)
        model, control = self.model(optimizer), self.model(bare)
        x, y = self.data()
        histories = [
            each.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0).history["loss"]
            for each in (model, control)
        ]
        np.testing.assert_allclose(*histories, rtol=1e-5)
        self.assertEqual(float(optimizer.loss_scale), 256.0)

    def test_a_loop_under_float16_keeps_small_gradients(self) -> None:
        """What loss scaling is for: without it, this gradient is zero in float16."""
        factor = tf.constant(2.0**-14, tf.float16)

        def weight_after(optimizer: Any) -> float:
            variable = tf.Variable(0.0)

            def loss() -> Any:
                return tf.cast(variable, tf.float16) * factor * factor

            optimizer.minimize(loss, [variable])
            return float(variable)

        for _, optimizers in FAMILIES:
            self.assertEqual(weight_after(optimizers.SGD(1.0)), 0.0)
            self.assertEqual(weight_after(Ours(optimizers.SGD(1.0))), -(2.0**-28))
