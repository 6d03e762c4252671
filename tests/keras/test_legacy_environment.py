"""`tf.keras` as tf_keras: code that was written for TensorFlow 2.15 and before, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import unittest

import pytest

from tests.processes import process_environment

PROGRAM = """
import warnings
warnings.simplefilter("error", FutureWarning)
import mpls.errors
warnings.simplefilter("error", mpls.errors.MplsDeprecationWarning)
import numpy as np
import tensorflow as tf
import mpls.experimental, mpls.keras

assert tf.keras.__name__.startswith(("tf_keras", "keras.api._v2")), tf.keras.__name__
tf.keras.mixed_precision.set_global_policy("mixed_float16")
Native = tf.keras.mixed_precision.LossScaleOptimizer
for optimizers in (tf.keras.optimizers, tf.keras.optimizers.legacy):
    optimizer = mpls.keras.LossScaleOptimizer(optimizers.SGD(0.5), initial_scale=8, dynamic_growth_steps=2)
    assert isinstance(optimizer, Native)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,), kernel_initializer="ones")])
    model.compile(optimizer, "mse")
    assert model.optimizer is optimizer
    model.fit(np.ones((8, 1)), np.zeros((8, 1)), batch_size=4, shuffle=False, verbose=0)
    assert float(optimizer.loss_scale) == 16.0, optimizer.loss_scale
    assert int(optimizer.iterations) == 2
    automatic = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
    automatic.compile(optimizers.SGD(), "mse")
    assert isinstance(automatic.optimizer, mpls.keras.LossScaleOptimizer)
    again = mpls.keras.LossScaleOptimizer.from_config(optimizer.get_config())
    assert again.get_config() == optimizer.get_config()
print("all of it")
"""


class LegacyEnvironmentTest(unittest.TestCase):
    @pytest.mark.programs
    def test_tf_keras_under_the_name_tf_dot_keras(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            env=process_environment(TF_USE_LEGACY_KERAS="1"),
            timeout=300,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1], "all of it")
