"""`compile` wraps the optimizer with the loss scale of the model's policy, and leaves all other models to Keras."""

from __future__ import annotations

import unittest
import warnings
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.experimental
import mpls.keras
import mpls.v1
from mpls.experimental.policy import policy_scope
from tests.folders import InFolder
from tests.keras.families import NATIVE
from tests.processes import run_python

FRAMEWORKS = [("new", tf_keras), ("keras3", keras)]
Policy = mpls.experimental.Policy
INPUTS, TARGETS = np.ones([4, 2], np.float32), np.zeros([4, 1], np.float32)


def model_under(policy: Any, framework: Any) -> Any:
    with policy_scope(policy):
        return framework.Sequential([framework.layers.Input([2]), framework.layers.Dense(1, kernel_initializer="ones")])


def compiled(policy: Any, framework: Any, optimizer: Any = "sgd", **arguments: Any) -> Any:
    model = model_under(policy, framework)
    model.compile(optimizer, "mse", **arguments)
    return model


class WrappingTest(InFolder, unittest.TestCase):
    @parameterized.expand(FRAMEWORKS)
    @pytest.mark.default_run("one case")
    def test_it_trains_with_the_loss_scale_of_the_policy(self, name: str, framework: Any) -> None:
        for loss_scale, after in ((mpls.experimental.DynamicLossScale(8, 2), 32.0), (64, 64.0)):
            policy = Policy("mixed_float16", loss_scale=loss_scale)
            model = compiled(policy, framework, framework.optimizers.SGD(0.0625))
            model.fit(INPUTS, TARGETS, batch_size=1, epochs=1, verbose=0)
            self.assertIsInstance(model.optimizer, mpls.experimental.LossScaleOptimizer)
            self.assertIsInstance(model.optimizer, NATIVE[name])
            self.assertEqual(float(model.optimizer.loss_scale), after)
            self.assertEqual(model.layers[-1].compute_dtype, "float16")
            mpls.keras.save_model(model, f"{self.folder}/model.keras")
            loaded = mpls.keras.load_model(f"{self.folder}/model.keras").optimizer
            self.assertEqual((float(loaded.loss_scale), loaded.dynamic), (after, model.optimizer.dynamic))

            control = compiled("float32", framework, framework.optimizers.SGD(0.0625))
            control.fit(INPUTS, TARGETS, batch_size=1, epochs=1, verbose=0)
            self.assertNotIsInstance(control.optimizer, mpls.keras.LossScaleOptimizer)
            for ours, theirs in zip(model.get_weights(), control.get_weights(), strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=1e-3)
                self.assertFalse(np.all(ours == 1.0))

    @parameterized.expand(FRAMEWORKS)
    def test_the_policy_of_a_layer_alone_wraps_nothing(self, name: str, framework: Any) -> None:
        layers = [framework.layers.Input([2]), framework.layers.Dense(1, dtype=Policy("mixed_float16"))]
        model = framework.Sequential(layers)
        model.compile("sgd", "mse")
        self.assertNotIsInstance(model.optimizer, mpls.keras.LossScaleOptimizer)

    def test_it_can_be_turned_off_in_keras_3(self) -> None:
        for arguments in ({"auto_scale_loss": False}, {"optimizer": None}):
            model = model_under(Policy("mixed_float16", loss_scale=8), keras)
            model.compile(**{"optimizer": "sgd", "loss": "mse", **arguments})
            self.assertNotIsInstance(model.optimizer, mpls.keras.LossScaleOptimizer)

    def test_v1_graph_mode_of_tf_keras(self) -> None:
        for loss_scale, expected in ((8, 8.0), (mpls.v1.DynamicLossScale(8), 8.0), (None, None)):
            with tf.Graph().as_default(), tf.compat.v1.Session().as_default():
                model = compiled(
                    Policy("mixed_float16", loss_scale=loss_scale), tf_keras, tf_keras.optimizers.legacy.SGD(0.5)
                )
                self.assertEqual(type(model).__mro__[-1], object)
                self.assertIn("_v1", type(model).__mro__[2].__module__)
                if expected is None:
                    self.assertNotIsInstance(model.optimizer, mpls.keras.LossScaleOptimizer)
                else:
                    self.assertEqual(model.optimizer.initial_scale, expected)
                before = model.get_weights()[0]
                model.train_on_batch(INPUTS, TARGETS)
                self.assertFalse(np.any(model.get_weights()[0] == before))


class OthersTest(unittest.TestCase):
    @parameterized.expand(FRAMEWORKS)
    def test_other_models_are_left_to_keras(self, name: str, framework: Any) -> None:
        alive = Policy("mixed_float16", loss_scale=8)
        for policy in (mpls.keras.Policy("mixed_float16"), framework.mixed_precision.Policy("mixed_float16")):
            optimizer = compiled(policy, framework).optimizer
            self.assertIsInstance(optimizer, NATIVE[name])
            self.assertEqual(type(optimizer).__module__.partition(".")[0], framework.__name__)
            self.assertNotIsInstance(optimizer, mpls.experimental.LossScaleOptimizer)
        self.assertIsInstance(compiled(alive, framework).optimizer, mpls.experimental.LossScaleOptimizer)


WITHOUT_MPLS = """
import sys
import keras, tf_keras
sys.modules["mpls"] = None
for framework, suffixes in ((tf_keras, ["keras", "h5", "tf"]), (keras, ["keras", "h5"])):
    for suffix in suffixes:
        model = framework.models.load_model(f"{sys.argv[1]}/{framework.__name__}.{suffix}", compile=False)
        policy = model.layers[-1].dtype_policy
        assert policy.name == "mixed_float16" and type(policy).__module__.startswith(framework.__name__), policy
        assert (model.get_weights()[0] == 1).all()
"""


class ProcessTest(InFolder, unittest.TestCase):
    @pytest.mark.programs
    def test_files_load_where_mpls_is_not(self) -> None:
        for _, framework in FRAMEWORKS:
            model = compiled(Policy("mixed_float16", loss_scale=8), framework)
            for suffix in ("keras", "h5", *(["tf"] if framework is tf_keras else [])):
                with warnings.catch_warnings():
                    # That H5 is a legacy format.
                    warnings.simplefilter("ignore", UserWarning)
                    model.save(f"{self.folder}/{framework.__name__}.{suffix}")
        done = run_python("-W", "error::FutureWarning:__main__", "-c", WITHOUT_MPLS, str(self.folder))
        self.assertEqual(done.returncode, 0, done.stderr)
