"""Whole models that were compiled with the wrapper, saved and loaded again, in every format."""

from __future__ import annotations

import unittest
from typing import Any

import keras
import numpy as np
import pytest
import tf_keras
from parameterized import parameterized

import mpls.keras
from mpls.keras import marked_configs
from tests.folders import InFolder

FORMATS = {"h5": ".h5", "keras": ".keras", "saved_model": ""}
Ours: Any = mpls.keras.LossScaleOptimizer


class SavingTest(InFolder, unittest.TestCase):
    @parameterized.expand([(name, suffix) for name in ("Lion", "Adafactor") for suffix in FORMATS.values()])
    @pytest.mark.default_run("one case")
    def test_optimizers_that_tf_keras_does_not_look_for_by_name(self, name: str, suffix: str) -> None:
        model = tf_keras.Sequential([tf_keras.layers.Dense(2, input_shape=(3,))])
        model.compile(Ours(getattr(tf_keras.optimizers, name)(0.5), initial_scale=8), "mse")
        model.train_on_batch(np.ones([2, 3], np.float32), np.ones([2, 2], np.float32))
        mpls.keras.save_model(model, f"{self.folder}/model{suffix}")
        loaded = tf_keras.models.load_model(f"{self.folder}/model{suffix}")
        self.assertEqual(type(loaded.optimizer.inner_optimizer).__name__, name)
        loaded = mpls.keras.load_model(f"{self.folder}/model{suffix}")
        for one, other in zip(model.optimizer.variables, loaded.optimizer.variables, strict=True):
            np.testing.assert_array_equal(one, other)
        again = Ours.from_config(model.optimizer.get_config())
        self.assertEqual(type(again.inner_optimizer).__name__, name)

    @parameterized.expand([(f"{k.__name__}{s}", k, s) for k in (tf_keras, keras) for s in (".keras", ".h5", "")][:-1])
    @pytest.mark.default_run("one case")
    def test_options_in_a_process_that_has_made_no_wrapper(self, name: str, framework: Any, suffix: str) -> None:
        options = {"max_scale": 16.0, "hysteresis": 2, "count_steps": True, "track_overflows": True}
        model = framework.Sequential([framework.layers.Input([1]), framework.layers.Dense(1)])
        model.compile(Ours(framework.optimizers.SGD(0.125, 0.5), initial_scale=8, **options), "mse", jit_compile=False)
        for value in (1.0, np.inf):
            model.train_on_batch(np.full([2, 1], value, np.float32), np.zeros([2, 1], np.float32))
        path = f"{self.folder}/model{suffix}"
        mpls.keras.save_model(model, path)
        marked_configs._let_go(marked_configs._USE)
        self.addCleanup(marked_configs.recognise_marked_configs)
        loaded = mpls.keras.load_model(path)
        self.assertEqual(loaded.optimizer.get_config(), model.optimizer.get_config())
        self.assertEqual(loaded.optimizer.state_dict(), model.optimizer.state_dict())


class Keras3Test(InFolder, unittest.TestCase):
    @parameterized.expand([each for each in ("Lamb", "Muon", "ScheduleFreeAdamW") if hasattr(keras.optimizers, each)])
    @pytest.mark.default_run("one case")
    def test_h5_files_with_an_optimizer_that_mpls_does_not_know(self, name: str) -> None:
        data = np.ones([2, 1], np.float32), np.zeros([2, 1], np.float32)
        # Keras itself loads no bare Lamb from such a file.
        for is_wrapped in (False, True)[name == "Lamb" :]:
            inner = getattr(keras.optimizers, name)(0.5)
            model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1, use_bias=False)])
            model.compile(Ours(inner, initial_scale=8, dynamic_growth_steps=2) if is_wrapped else inner, "mse")
            try:
                model.train_on_batch(*data)
            except AttributeError as error:
                if is_wrapped:
                    raise
                raise unittest.SkipTest(f"{name} of this Keras takes no step by itself: {error}") from None
            for _ in range(2):
                model.train_on_batch(*data)
            mpls.keras.save_model(model, f"{self.folder}/model.h5")
            loaded = mpls.keras.load_model(f"{self.folder}/model.h5")
            for each in (model, loaded):
                each.train_on_batch(*data)
            for one, other in zip(model.optimizer.variables, loaded.optimizer.variables, strict=True):
                np.testing.assert_array_equal(one, other)
            np.testing.assert_array_equal(model.get_weights()[0], loaded.get_weights()[0])

    def test_an_adafactor_in_an_h5_file(self) -> None:
        """Keras 3 gives two of its slot variables one name."""
        model = keras.Sequential([keras.layers.Input([2]), keras.layers.Dense(2)])
        model.compile(mpls.keras.LossScaleOptimizer(keras.optimizers.Adafactor()), "mse")
        model.fit(np.ones([1, 2]), np.ones([1, 2]), verbose=0)
        message = r"model\.h5.*Save the model as \.keras"
        with self.assertRaisesRegex(ValueError, message):
            mpls.keras.save_model(model, f"{self.folder}/model.h5")
