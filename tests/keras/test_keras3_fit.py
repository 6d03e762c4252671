"""`Model.compile` and `Model.fit` of Keras 3 under mixed precision, beside Keras' own wrapper."""

from __future__ import annotations

import itertools
import unittest
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tf_keras
from parameterized import parameterized

import mpls
import mpls.keras

Ours: Any = mpls.keras.LossScaleOptimizer
Native: Any = keras.optimizers.LossScaleOptimizer
DYNAMIC = {"initial_scale": 2.0**10, "dynamic_growth_steps": 4}
MODES = [
    ("xla", {"jit_compile": True}),
    ("function", {"jit_compile": False}),
    ("auto", {"jit_compile": "auto"}),
    ("eager", {"run_eagerly": True}),
    ("four_at_once", {"steps_per_execution": 4}),
]


class MixedPolicyTestCase(unittest.TestCase):
    def setUp(self) -> None:
        keras.mixed_precision.set_global_policy("mixed_float16")
        self.addCleanup(keras.mixed_precision.set_global_policy, "float32")


def data(bad: int | None = None) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(32, 3)).astype(np.float32)
    y = x.sum(axis=1, keepdims=True)
    if bad is not None:
        x[bad] = np.inf
    return x, y


def model_of(optimizer: Any, **kwargs: Any) -> Any:
    keras.utils.set_random_seed(0)
    layers = [keras.Input([3]), keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1, dtype="float32")]
    model = keras.Sequential(layers)
    model.compile(optimizer, "mse", metrics=["mae"], **kwargs)
    return model


def fit(optimizer: Any, bad: int | None = None, batches: int = 4, **kwargs: Any) -> tuple[Any, ...]:
    model = model_of(optimizer, **kwargs)
    assert model.optimizer is optimizer
    history = model.fit(*data(bad), batch_size=32 // batches, epochs=3, shuffle=False, verbose=0)
    return history.history, model.get_weights(), state_of(optimizer)


def state_of(optimizer: Any) -> list[float]:
    counter = getattr(optimizer, "step_counter", None)
    scale = optimizer.dynamic_scale if isinstance(counter, keras.Variable) else optimizer.loss_scale
    numbers = (scale, optimizer.iterations, *([counter] if counter is not None else []))
    return [float(keras.ops.convert_to_numpy(number)) for number in numbers]


class FitTest(MixedPolicyTestCase):
    @parameterized.expand(
        [(f"{name}_{inner}", kwargs, inner) for (name, kwargs), inner in itertools.product(MODES, ("SGD", "Adam"))]
    )
    @pytest.mark.default_run("one case")
    def test_it_trains_as_with_the_native_wrapper(self, name: str, kwargs: Any, inner: str) -> None:
        make = getattr(keras.optimizers, inner)
        history, weights, state = fit(Ours(make(0.05), **DYNAMIC), **kwargs)
        native_history, native_weights, native_state = fit(Native(make(0.05), **DYNAMIC), **kwargs)
        self.assertEqual(state, native_state)
        self.assertEqual(state, [2.0**13, 12, 0])
        # Division by the scale, a power of two, rounds nothing; XLA fuses the two programs in two ways.
        tolerance = 1e-5 if name.startswith("xla") else 0
        for ours, native in zip(weights, native_weights, strict=True):
            np.testing.assert_allclose(ours, native, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(history["loss"], native_history["loss"], rtol=tolerance)
        self.assertLess(history["loss"][-1], history["loss"][0])

    @parameterized.expand(MODES)
    @pytest.mark.default_run("one case", by=lambda name, kwargs: (kwargs.get("jit_compile", False),))
    def test_a_bad_batch_is_skipped(self, name: str, kwargs: Any) -> None:
        _, weights, state = fit(Ours(keras.optimizers.Adam(0.05), **DYNAMIC), bad=9, **kwargs)
        # The second of four batches, in each of three epochs: 1 good, then 3, 3 and 2 in a row.
        self.assertEqual(state, [2.0**7, 9, 2])
        self.assertTrue(all(np.isfinite(weight).all() for weight in weights))

    def test_callbacks_find_what_they_look_for(self) -> None:
        optimizer = Ours(keras.optimizers.SGD(0.05, use_ema=True), **DYNAMIC)
        model = model_of(optimizer)
        rates: list[float] = []

        def schedule(epoch: int, rate: float) -> float:
            rates.append(rate)
            return rate / 2

        callbacks = [
            keras.callbacks.LearningRateScheduler(schedule),
            keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=0, min_delta=1e9, factor=0.5),
            keras.callbacks.SwapEMAWeights(),
            keras.callbacks.TerminateOnNaN(),
        ]
        model.fit(*data(), batch_size=8, epochs=2, validation_data=data(), verbose=0, callbacks=callbacks)
        np.testing.assert_allclose([*rates, float(optimizer.learning_rate)], [0.05, 0.025, 0.00625], rtol=1e-6)
        self.assertEqual(state_of(optimizer), [2.0**12, 8, 0])


class BothKerasesTest(unittest.TestCase):
    """Models of tf_keras and Keras 3, each with its optimizers, trained in turn."""

    def train(self, framework: Any, make: Callable[[], Any]) -> list[Any]:
        framework.mixed_precision.set_global_policy("mixed_float16")
        self.addCleanup(framework.mixed_precision.set_global_policy, "float32")
        optimizer = Ours(make(), initial_scale=8.0, dynamic_growth_steps=2)
        ones = framework.initializers.Ones()
        model = framework.Sequential([framework.layers.Dense(1, kernel_initializer=ones, dtype="mixed_float16")])
        model.compile(optimizer, "mse")
        self.assertIs(model.optimizer, optimizer)
        return [model, optimizer]

    def test_in_turn(self) -> None:
        runs = [
            self.train(tf_keras, lambda: tf_keras.optimizers.SGD(0.125)),
            self.train(keras, lambda: keras.optimizers.SGD(0.125)),
            self.train(tf_keras, lambda: tf_keras.optimizers.legacy.SGD(0.125)),
        ]
        for value, scale in ((1.0, 8.0), (1.0, 16.0), (np.inf, 8.0), (1.0, 8.0)):
            weights = []
            for model, optimizer in runs:
                model.train_on_batch(np.full((4, 1), value, np.float32), np.zeros((4, 1), np.float32))
                self.assertEqual(float(optimizer.loss_scale), scale)
                weights.append(np.concatenate([np.ravel(weight) for weight in model.get_weights()]))
            np.testing.assert_array_equal(weights[0], weights[1])
            np.testing.assert_array_equal(weights[0], weights[2])
        self.assertEqual([int(optimizer.iterations) for _, optimizer in runs], [4, 3, 4])
