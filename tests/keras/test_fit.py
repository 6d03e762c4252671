"""`Model.compile` and `Model.fit` under mixed precision, of both Keras, beside the wrapper that each has itself."""

from __future__ import annotations

import unittest
from typing import Any

import keras
import numpy as np
import pytest
import tf_keras
from parameterized import parameterized

import mpls.keras
from tests.keras.families import FRAMEWORKS, NATIVE, OPTIMIZERS

Ours: Any = mpls.keras.LossScaleOptimizer
DYNAMIC = {"initial_scale": 2.0**10, "dynamic_growth_steps": 4}
MODES: dict[str, dict[str, Any]] = {
    "xla": {"jit_compile": True},
    "function": {"jit_compile": False},
    "auto": {"jit_compile": "auto"},
    "eager": {"run_eagerly": True},
    "four_at_once": {"steps_per_execution": 4},
}
CELLS = [(family, mode) for family in FRAMEWORKS for mode in MODES if mode != "auto" or family == "keras3"]


def data(is_good: bool = True) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(32, 3)).astype(np.float32)
    y = x.sum(axis=1, keepdims=True)
    x[9] = x[9] if is_good else np.inf
    return x, y


def model_of(family: str, optimizer: Any, **settings: Any) -> Any:
    framework = FRAMEWORKS[family]
    framework.utils.set_random_seed(0)
    layers = framework.layers
    hidden = layers.Dense(4, activation="tanh")
    model = framework.Sequential([layers.Input([3]), hidden, layers.Dense(1, dtype="float32")])
    model.compile(optimizer, "mse", metrics=["mae"], **settings)
    return model


def fit(family: str, optimizer: Any, **settings: Any) -> tuple[Any, ...]:
    model = model_of(family, optimizer, **settings)
    assert model.optimizer is FRAMEWORKS[family].optimizers.get(optimizer) is optimizer
    history = model.fit(*data(is_good=False), batch_size=8, epochs=3, shuffle=False, verbose=0)
    return history.history, model.get_weights(), state_of(optimizer)


def state_of(optimizer: Any) -> list[float]:
    is_keras_3 = isinstance(optimizer, keras.optimizers.Optimizer)
    scale = optimizer.dynamic_scale if is_keras_3 else optimizer.loss_scale
    counter = optimizer.step_counter if is_keras_3 else optimizer.dynamic_counter
    return [float(keras.ops.convert_to_numpy(number)) for number in (scale, optimizer.iterations, counter)]


class FitTest(unittest.TestCase):
    def setUp(self) -> None:
        for framework in (tf_keras, keras):
            framework.mixed_precision.set_global_policy("mixed_float16")
            self.addCleanup(framework.mixed_precision.set_global_policy, "float32")

    @parameterized.expand(CELLS)
    @pytest.mark.default_run("each value", by=lambda family, mode: (family,))
    def test_it_trains_as_with_the_native_wrapper(self, family: str, mode: str) -> None:
        make = OPTIMIZERS[family].Adam
        history, weights, state = fit(family, Ours(make(0.05), **DYNAMIC), **MODES[mode])
        native_history, native_weights, _ = fit(family, NATIVE[family](make(0.05), **DYNAMIC), **MODES[mode])
        # The second of four batches is bad, in each of three epochs: 1 good, then 3, 3 and 2 in a row.
        self.assertEqual(state, [2.0**7, 9 if family == "keras3" else 12, 2])
        # Division by the scale, a power of two, rounds nothing; XLA fuses the two programs in two ways.
        tolerance = 1e-5 if mode == "xla" else 0
        for ours, theirs in zip(weights, native_weights, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
            self.assertTrue(np.isfinite(ours).all())
        np.testing.assert_allclose(history["loss"], native_history["loss"], rtol=tolerance)

    @parameterized.expand(FRAMEWORKS)
    def test_callbacks_find_what_they_look_for(self, family: str) -> None:
        settings = {"use_ema": True} if family == "keras3" else {}
        optimizer = Ours(OPTIMIZERS[family].SGD(0.05, **settings), **DYNAMIC)
        model, of_framework = model_of(family, optimizer), FRAMEWORKS[family].callbacks
        rates: list[float] = []

        def schedule(epoch: int, rate: float) -> float:
            rates.append(rate)
            return rate / 2

        callbacks = [
            of_framework.LearningRateScheduler(schedule),
            of_framework.ReduceLROnPlateau(monitor="loss", patience=0, min_delta=1e9, factor=0.5),
            of_framework.TerminateOnNaN(),
            *([of_framework.SwapEMAWeights()] if settings else []),
        ]
        model.fit(*data(), batch_size=8, epochs=2, validation_data=data(), verbose=0, callbacks=callbacks)
        np.testing.assert_allclose([*rates, float(optimizer.learning_rate)], [0.05, 0.025, 0.00625], rtol=1e-6)
        self.assertEqual(state_of(optimizer), [2.0**12, 8, 0])


SPARSE = [
    ("rmsprop", keras.optimizers.RMSprop, {"momentum": 0.5}),
    ("adadelta", keras.optimizers.Adadelta, {}),
    ("centered", keras.optimizers.RMSprop, {"momentum": 0.5, "centered": True}),
    ("adam", keras.optimizers.Adam, {}),
    ("sgd", keras.optimizers.SGD, {"momentum": 0.5}),
    ("without_dense_gradients", keras.optimizers.SGD, {}),
]


class SparseTest(unittest.TestCase):
    """XLA has to know how many rows Keras sums in a sparse gradient, which it finds out through its values."""

    @parameterized.expand(SPARSE)
    @pytest.mark.default_run("one case")
    def test_an_embedding_under_xla(self, name: str, optimizer: Any, settings: dict[str, Any]) -> None:
        words = np.arange(40).reshape(8, 5) % 20
        trained = []
        for wrapper in (Ours, NATIVE["keras3"]):
            keras.utils.set_random_seed(3)
            layers = [keras.layers.Embedding(20, 4), keras.layers.Flatten()]
            model = keras.Sequential([*layers, *([] if "without" in name else [keras.layers.Dense(1)])])
            model.compile(wrapper(optimizer(0.05, **settings), **DYNAMIC), "mse", jit_compile=True)
            model.fit(words, np.ones([8, 1], np.float32), batch_size=4, epochs=2, shuffle=False, verbose=0)
            trained.append(model.get_weights())
        for one, other in zip(*trained, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
