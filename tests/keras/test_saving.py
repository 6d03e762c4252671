"""Whole models that were compiled with the wrapper, saved and loaded again, in every format."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile
import unittest
from typing import Any

import h5py
import keras
import numpy as np
import pytest
import tf_keras
from parameterized import parameterized

import mpls.keras
from mpls.keras import marked_configs
from tests.processes import process_environment

FAMILIES = [("legacy", tf_keras.optimizers.legacy), ("new", tf_keras.optimizers)]
FORMATS = {"h5": ".h5", "keras": ".keras", "saved_model": ""}
Ours: Any = mpls.keras.LossScaleOptimizer
Native: Any = tf_keras.mixed_precision.LossScaleOptimizer


def trained_model(wrapper: Any, optimizers: Any) -> Any:
    model = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(1,), kernel_initializer="ones")])
    model.compile(wrapper(optimizers.SGD(0.125, 0.5), initial_scale=8, dynamic_growth_steps=2), "mean_squared_error")
    data = np.ones((2, 1), np.float32)
    for _ in range(3):
        model.train_on_batch(data, 0 * data)
    return model


def save_and_load(model: Any, suffix: str, **kwargs: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / f"model{suffix}")
        model.save(path)
        return tf_keras.models.load_model(path, **kwargs)


class SavingTest(unittest.TestCase):
    @parameterized.expand(FAMILIES)
    @pytest.mark.default_run("one case")
    def test_files_of_the_native_wrapper_load_as_ours(self, name: str, optimizers: Any) -> None:
        """By the names that tf_keras looks for: in lower case, except in the newest format."""
        names = ("LossScaleOptimizer", "LossScaleOptimizerV3")
        classes = {key: Ours for each in names for key in (each, each.lower())}
        for suffix in (".h5", ".keras"):
            loaded = save_and_load(trained_model(Native, optimizers), suffix, custom_objects=classes)
            self.assertIn(Ours, type(loaded.optimizer).__mro__)
            if suffix == ".h5" or name == "new":
                self.assertEqual(int(loaded.optimizer.iterations), 3)

    @parameterized.expand([(name, suffix) for name in ("Lion", "Adafactor") for suffix in FORMATS.values()])
    @pytest.mark.default_run("one case")
    def test_optimizers_that_tf_keras_does_not_look_for_by_name(self, name: str, suffix: str) -> None:
        model = tf_keras.Sequential([tf_keras.layers.Dense(2, input_shape=(3,))])
        model.compile(Ours(getattr(tf_keras.optimizers, name)(0.5), initial_scale=8), "mse")
        model.train_on_batch(np.ones([2, 3], np.float32), np.ones([2, 2], np.float32))
        loaded = save_and_load(model, suffix)
        self.assertEqual(type(loaded.optimizer.inner_optimizer).__name__, name)
        with tempfile.TemporaryDirectory() as folder:
            mpls.keras.save_model(model, f"{folder}/model{suffix}")
            loaded = mpls.keras.load_model(f"{folder}/model{suffix}")
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
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder) / f"model{suffix}")
            mpls.keras.save_model(model, path)
            marked_configs._let_go(marked_configs._USE)
            self.addCleanup(marked_configs.recognise_marked_configs)
            loaded = mpls.keras.load_model(path)
        self.assertEqual(loaded.optimizer.get_config(), model.optimizer.get_config())
        self.assertEqual(loaded.optimizer.state_dict(), model.optimizer.state_dict())


class Keras3Test(unittest.TestCase):
    def trained(self, wrapper: Any, *values: float) -> Any:
        inner = keras.optimizers.SGD(0.0625, momentum=0.5)
        model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(wrapper(inner, initial_scale=8.0, dynamic_growth_steps=2), "mean_squared_error")
        for value in values:
            model.train_on_batch(np.full((2, 1), value, np.float32), np.zeros((2, 1), np.float32))
        return model

    def test_the_files_hold_the_same_as_those_of_keras(self) -> None:
        stores = []
        for wrapper in (Ours, keras.optimizers.LossScaleOptimizer):
            with tempfile.TemporaryDirectory() as folder:
                path = f"{folder}/model.weights.h5"
                self.trained(wrapper, 1.0, 1.0, np.inf, 1.0).save_weights(path)
                names: list[str] = []
                with h5py.File(path) as file:
                    file.visit(names.append)
                    found = {name: file[name] for name in names}
                    stores.append({n: each[()].tolist() for n, each in found.items() if isinstance(each, h5py.Dataset)})
        self.assertEqual(*stores)
        self.assertTrue(any("optimizer" in name for name in stores[0]))

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
            with tempfile.TemporaryDirectory() as folder:
                mpls.keras.save_model(model, f"{folder}/model.h5")
                loaded = mpls.keras.load_model(f"{folder}/model.h5")
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
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(ValueError, message):
            mpls.keras.save_model(model, f"{folder}/model.h5")

    def test_weights_of_the_optimizer_alone(self) -> None:
        one, other = (self.trained(Ours, *values).optimizer for values in ((1.0, np.inf, 1.0), (2.0,)))
        store: dict[str, Any] = {}
        one.save_own_variables(store)
        other.load_own_variables(store)
        for mine, yours in zip(one.variables, other.variables, strict=True):
            np.testing.assert_array_equal(mine, yours)
        with self.assertWarnsRegex(UserWarning, "Skipping variable loading"):
            Ours(keras.optimizers.SGD(0.0625, momentum=0.5)).load_own_variables(store)


REPLACED = """
import functools, sys
import keras, tf_keras
import keras.src.optimizers.loss_scale_optimizer as of_keras
import tf_keras.src.mixed_precision.loss_scale_optimizer as of_tf_keras
import mpls.keras

owners = of_tf_keras.LossScaleOptimizer, of_tf_keras.LossScaleOptimizerV3, of_keras.LossScaleOptimizer


def taking_one(original):
    return classmethod(lambda cls, config: original.__func__(cls, config))


def plain(original):
    return lambda config, custom_objects=None: original(config, custom_objects)


def replace_each(*makes):
    for owner, make in zip(owners, makes, strict=True):
        owner.from_config = make(owner.from_config)


def put_in_place(make):
    tf_keras.mixed_precision.LossScaleOptimizer = make(tf_keras.mixed_precision.LossScaleOptimizer)
    of_keras.LossScaleOptimizer = subclass(of_keras.LossScaleOptimizer)
    keras.optimizers.LossScaleOptimizer = make(keras.optimizers.LossScaleOptimizer)


def subclass(cls):
    return type(cls)("Theirs", (cls,), {})


{
    "methods": lambda: replace_each(plain, taking_one, functools.partial),
    "class by function": lambda: put_in_place(lambda cls: lambda *args, **kwargs: cls(*args, **kwargs)),
    "class by subclass": lambda: put_in_place(subclass),
}[sys.argv[1]]()
held = [vars(owner).get("from_config") for owner in owners]
with mpls.install():
    pass
assert [vars(owner).get("from_config") for owner in owners] == held

for package, inner in (
    (tf_keras, tf_keras.optimizers.legacy.SGD(0.5)),
    (tf_keras, tf_keras.optimizers.SGD(0.5)),
    (keras, keras.optimizers.SGD(0.5)),
):
    optimizer = mpls.keras.LossScaleOptimizer(inner, initial_scale=8)
    assert isinstance(optimizer, mpls.keras.LossScaleOptimizer)
    assert not isinstance(inner, mpls.keras.LossScaleOptimizer)
    again = package.optimizers.deserialize(package.optimizers.serialize(optimizer))
    is_ours = type(again).__module__ == "mpls.keras"
    assert is_ours or (package is keras and sys.argv[1].startswith("class by")), type(again)
    assert again.initial_scale == 8
    print("made")
"""


class TestReplacedByALibrary:
    """The native wrappers, or their `from_config`, are replaced before mpls makes a wrapper."""

    @pytest.mark.programs
    @pytest.mark.parametrize("kind", ["methods", "class by function", "class by subclass"])
    @pytest.mark.default_run("one case", rest="full")
    def test_wrappers_can_be_made(self, kind: str) -> None:
        command = [sys.executable, "-c", REPLACED, kind]
        done = subprocess.run(command, env=process_environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == ["made"] * 3
