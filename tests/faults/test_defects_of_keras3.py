"""What Keras 3's own wrapper gets wrong and no record has: each test sees it fail first, and then mpls do it right."""

from __future__ import annotations

import pathlib
import tempfile
import unittest
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import mpls.keras

Native: Any = keras.optimizers.LossScaleOptimizer
Ours: Any = mpls.keras.LossScaleOptimizer
INF = float("inf")


class OverflowByUnscaling(unittest.TestCase):
    """Scaled gradients were tested, and a scale below 1 made those that were applied infinite."""

    def step(self, wrapper: Any, is_keras_2_style: bool = False) -> tuple[float, float]:
        variable, optimizer = keras.Variable(1.0), wrapper(keras.optimizers.SGD(0.5), initial_scale=0.25)
        optimizer.build([variable])
        # The gradient of the scaled loss, as it comes; what it stands for, 8e38, is no float32.
        grads = [tf.constant(2e38)]
        if is_keras_2_style:
            optimizer.get_scaled_loss(tf.constant(0.0))
            grads = optimizer.get_unscaled_gradients(grads)
            optimizer.apply_gradients(zip(grads, [variable], strict=True))
        else:
            optimizer.scale_loss(0.0)
            optimizer.apply(grads, [variable])
        return float(variable), float(optimizer.dynamic_scale.numpy())

    def test_gradients_that_overflow_when_they_are_unscaled_are_skipped(self) -> None:
        self.assertEqual(self.step(Native), (-INF, 0.25))
        for is_keras_2_style in (False, True):
            self.assertEqual(self.step(Ours, is_keras_2_style), (1.0, 1.0))


class VariablesThatWereNotTracked(unittest.TestCase):
    """The wrapper kept Nadam from tracking its product of momentums, so that no file had it."""

    def save_and_load(self, wrapper: Any) -> tuple[float, float]:
        model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
        model.compile(wrapper(keras.optimizers.Nadam(0.5), initial_scale=8), keras.losses.MeanSquaredError())
        rows = np.ones((4, 1), np.float32)
        model.fit(rows, rows, batch_size=2, verbose=0)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.keras"
            model.save(path)
            loaded = keras.models.load_model(path)
        return tuple(float(it.optimizer.inner_optimizer._u_product) for it in (model, loaded))

    def test_files_hold_all_of_the_wrapped_optimizer(self) -> None:
        saved, loaded = self.save_and_load(Native)
        self.assertLess(saved, 0.5)
        self.assertEqual(loaded, 1.0)
        saved, loaded = self.save_and_load(Ours)
        self.assertLess(saved, 0.5)
        self.assertEqual(loaded, saved)
