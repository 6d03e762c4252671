"""`Model.fit` of both Keras: callbacks, and sparse gradients beside the wrapper that Keras 3 has itself."""

from __future__ import annotations

import unittest
from typing import Any

import keras
import numpy as np
import pytest
from parameterized import parameterized

import mpls.keras
from tests.keras.families import FRAMEWORKS, NATIVE, OPTIMIZERS

Ours: Any = mpls.keras.LossScaleOptimizer
DYNAMIC = {"initial_scale": 2.0**10, "dynamic_growth_steps": 4}


class CallbacksTest(unittest.TestCase):
    @parameterized.expand(FRAMEWORKS)
    def test_callbacks_find_what_they_look_for(self, family: str) -> None:
        settings = {"use_ema": True} if family == "keras3" else {}
        optimizer = Ours(OPTIMIZERS[family].SGD(0.05, **settings), **DYNAMIC)
        framework, data = FRAMEWORKS[family], (np.ones([32, 3], np.float32), np.ones([32, 1], np.float32))
        model, of_framework = framework.Sequential([framework.layers.Input([3])]), framework.callbacks
        model.add(framework.layers.Dense(1, dtype="mixed_float16"))
        model.compile(optimizer, "mse")
        for found in (model.optimizer, framework.optimizers.get(optimizer)):
            self.assertIs(found, optimizer)
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
        model.fit(*data, batch_size=8, epochs=2, validation_data=data, verbose=0, callbacks=callbacks)
        np.testing.assert_allclose([*rates, float(optimizer.learning_rate)], [0.05, 0.025, 0.00625], rtol=1e-6)
        counts = int(optimizer.iterations), int(optimizer.dynamic_counter)
        self.assertEqual((float(optimizer.loss_scale), *counts), (2.0**12, 8, 0))


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
