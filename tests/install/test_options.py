"""What `--report` and `--replace-existing` take over stays whole for the frameworks: programs compute what they did."""

from __future__ import annotations

import importlib
import itertools
import os
import pathlib
import pickle
import unittest
import warnings
from typing import Any

import pytest
import tensorflow as tf
from parameterized import parameterized

import mpls
import mpls.keras
from tests.folders import InFolder


def values_of(kit: Any, folder: pathlib.Path) -> list[Any]:
    """Return what a program computes with layers, policies, `fit` and files."""
    kit.utils.set_random_seed(1)
    before = kit.mixed_precision.global_policy()
    kit.mixed_precision.set_global_policy("mixed_float16")
    try:
        model = kit.Sequential([kit.layers.Dense(2), kit.layers.Dense(1, dtype=kit.mixed_precision.Policy("float32"))])
    finally:
        kit.mixed_precision.set_global_policy(before)
    model.compile("adam", kit.losses.MeanSquaredError())
    x, y = tf.random.normal([4, 3]), tf.random.normal([4, 1])
    losses = model.fit(x, y, verbose=0).history["loss"]
    predictions = [kit.layers.Dense(1, kernel_initializer="ones")(tf.ones([1, 2])).numpy(), model.predict(x, verbose=0)]
    for name in ("model.keras", "model.h5"):
        path = str(folder / name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.save(path)
            predictions.append(kit.models.load_model(path).predict(x, verbose=0))
    copies = [kit.models.clone_model(model), type(model).from_config(model.get_config())]
    dtypes = [layer.compute_dtype for copy in copies for layer in copy.layers]
    wrapper = kit.mixed_precision.LossScaleOptimizer(kit.optimizers.SGD(0.25))
    is_native = isinstance(model.optimizer, kit.mixed_precision.LossScaleOptimizer)
    return [losses, *(each.tolist() for each in predictions), dtypes, is_native, wrapper]


SETTINGS = {
    "none": {},
    "report": {"_on_touch": True},
    "replacing": {"replace_existing": True},
    "both": {"_on_touch": True, "replace_existing": True},
}


class InProcessTest(InFolder, unittest.TestCase):
    """Some of it in this process, with both Kerases."""

    @parameterized.expand(itertools.product(SETTINGS, ("tf_keras", "keras")))
    @pytest.mark.default_run("each value", rest="full")
    @pytest.mark.matrix
    def test_programs_compute_what_they_did(self, name: str, package: str) -> None:
        kit = importlib.import_module(package)
        *expected, native = values_of(kit, self.folder)
        touched: set[str] = set()
        settings: dict[str, Any] = dict(SETTINGS[name])
        if "_on_touch" in settings:
            settings["_on_touch"] = lambda row, where: touched.add(f"{os.path.basename(where[0])} {row.path}")
        mpls.install(**settings)
        *found, wrapper = values_of(kit, self.folder)
        self.assertEqual(found, expected)
        is_replaced = "replace_existing" in settings
        expected_type = type(mpls.keras.LossScaleOptimizer(kit.optimizers.SGD()) if is_replaced else native)
        self.assertIs(type(wrapper), expected_type)
        path = f"{os.path.basename(__file__)} {package}.mixed_precision.LossScaleOptimizer"
        self.assertEqual(
            path in {each.replace(" tf.keras", f" {package}") for each in touched}, "_on_touch" in settings
        )
        self.assertEqual([each for each in touched if not each.startswith(os.path.basename(__file__))], [])

    @parameterized.expand(SETTINGS)
    @pytest.mark.default_run("one case")
    def test_functions_that_use_modules_can_be_pickled_with_them(self, name: str) -> None:
        cloudpickle = pytest.importorskip("cloudpickle")
        settings: dict[str, Any] = dict(SETTINGS[name])
        mpls.install(**{**settings, **({"_on_touch": lambda row, where: None} if "_on_touch" in settings else {})})
        wrapped, plain = tf.compat.v1.mixed_precision, tf.keras.mixed_precision
        restored = plain.experimental
        found = pickle.loads(cloudpickle.dumps(lambda: (wrapped, plain, restored)))()
        self.assertEqual(
            [each is other for each, other in zip(found, (wrapped, plain, restored), strict=True)], [True] * 3
        )
