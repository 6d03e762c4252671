"""Model files written under mpls: what comes back of them, and what a failure leaves."""

from __future__ import annotations

import json
import os
import pathlib
import unittest
import warnings
import zipfile
from typing import Any
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.experimental
import mpls.inspect
import mpls.keras
from mpls.errors import MplsWarning
from tests.core.behavior import behaving_as
from tests.folders import InFolder
from tests.keras.families import FRAMEWORKS, OPTIMIZERS

Ours: Any = mpls.keras.LossScaleOptimizer

CASES = [
    (f"{family}{suffix or '_saved_model'}", family, suffix)
    for family in OPTIMIZERS
    for suffix in (".h5", ".keras", "")
    if (family, suffix) != ("keras3", "")
]


def batch(value: float) -> tuple[Any, Any]:
    return np.full((2, 1), value, np.float32), np.zeros((2, 1), np.float32)


def small_model(framework: Any, optimizer: Any, loss: Any = "mse", steps: int = 3, **kwargs: Any) -> Any:
    """Return a model of one layer that has taken some steps."""
    model = framework.Sequential([framework.Input([1]), framework.layers.Dense(1, kernel_initializer="ones")])
    model.compile(optimizer, loss, **kwargs)
    for _ in range(steps):
        model.train_on_batch(*batch(1.0))
    return model


def trained_model(family: str, wrapper: Any = Ours, steps: int = 3, **settings: Any) -> Any:
    """Return a model with a wrapped Adam, whose scale is dynamic if nothing else is said."""
    framework, optimizers = FRAMEWORKS[family], OPTIMIZERS[family]
    optimizer = wrapper(optimizers.Adam(0.0625), **settings or SCALES["dynamic"])
    # As an object, since Keras 3 loads no H5 file with a loss by name.
    return small_model(framework, optimizer, framework.losses.MeanSquaredError(), steps)


def slots_of(inner: Any) -> list[Any]:
    """Return the slots' values, in the order of their sums."""
    variables = inner.weights if isinstance(inner, tf_keras.optimizers.legacy.Optimizer) else inner.variables
    values = [np.asarray(each.numpy()) for each in variables]
    return sorted((each.tolist() for each in values if each.ndim), key=np.sum)


def scale_of(optimizer: Any) -> tuple[float, int | None]:
    """Return the loss scale, and the count of finite steps, None if it is fixed."""
    counter = optimizer.dynamic_counter
    return float(optimizer.loss_scale), None if counter is None else int(counter)


def state_of(optimizer: Any) -> tuple[Any, ...]:
    return *scale_of(optimizer), int(optimizer.iterations), slots_of(optimizer.inner_optimizer)


class WritingTestCase(InFolder, unittest.TestCase):
    def assert_trains_on_alike(self, model: Any, loaded: Any, state_of: Any = state_of) -> None:
        # A fixed scale does not skip the step, nor one that is disabled.
        skips = loaded.optimizer.dynamic and loaded.optimizer.get_config().get("enabled", True)
        overflow = np.inf if skips else 4.0
        for value in (3.0, overflow, 2.0, 1.0, 1.0):
            for each in (model, loaded):
                each.train_on_batch(*batch(value))
            self.assertEqual([w.tolist() for w in loaded.get_weights()], [w.tolist() for w in model.get_weights()])
            self.assertEqual(state_of(loaded.optimizer), state_of(model.optimizer))


class PlainSavingTest(WritingTestCase):
    @parameterized.expand([(family, family) for family in ("legacy", "new")])
    @pytest.mark.default_run("one case")
    def test_the_state_is_in_files_only(self, name: str, family: str) -> None:
        model = trained_model(family)
        optimizer = model.optimizer
        self.assertNotIn("loss_scale_state", json.dumps(optimizer.get_config()))
        for written in (tf_keras.optimizers.serialize(optimizer), model.get_compile_config()["optimizer"]):
            self.assertIsNone(written["config"]["inner_optimizer"]["loss_scale_state"])
        again = Ours.from_config(optimizer.get_config())
        self.assertEqual((float(again.loss_scale), int(again.dynamic_counter)), (8.0, 0))
        cloned = tf_keras.models.clone_model(model)
        self.assertIsNone(getattr(cloned, "optimizer", None))
        model.save(self.folder / "model.keras")
        config = json.loads(zipfile.ZipFile(self.folder / "model.keras").read("config.json"))
        inner = config["compile_config"]["optimizer"]["config"]["inner_optimizer"]
        self.assertEqual(inner["loss_scale_state"], {"scale": 16.0, "good_steps": 1})

    @parameterized.expand([(family, family) for family in ("legacy", "new")])
    @pytest.mark.default_run("one case")
    def test_under_a_strategy(self, name: str, family: str) -> None:
        with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
            model = trained_model(family)
        model.save(self.folder / "model.h5")
        self.assertEqual(state_of(mpls.keras.load_model(self.folder / "model.h5").optimizer)[:3], (16.0, 1, 3))


class GraphTest(WritingTestCase):
    def test_a_loss_scale_that_has_variables_in_the_graph_already(self) -> None:
        with behaving_as("2.3"), tf.Graph().as_default():
            scale = mpls.experimental.DynamicLossScale(8, 2)
            scale()
            optimizer = mpls.experimental.LossScaleOptimizer(tf_keras.optimizers.legacy.SGD(0.25), scale)
            found = small_model(tf_keras, optimizer).optimizer.state_dict()
        self.assertEqual((found["scale"], found["good_steps"]), (16.0, 1))

    def test_a_model_of_a_graph(self) -> None:
        def state(model: Any) -> dict[str, Any]:
            found = model.optimizer.state_dict()
            return {name: found[name] for name in ("scale", "good_steps", "applied_steps", "skipped_steps")}

        path = self.folder / "model.h5"
        expected = {"scale": 8.0, "good_steps": 1, "applied_steps": 3, "skipped_steps": 1}
        with tf.Graph().as_default():
            optimizer = Ours(tf_keras.optimizers.legacy.SGD(0.25), count_steps=True, **SCALES["dynamic"])
            model = small_model(tf_keras, optimizer, steps=2)
            for value in (np.inf, 1.0):
                model.train_on_batch(*batch(value))
            self.assertEqual(state(model), expected)
            model.save(path)
        self.assertEqual(state(mpls.keras.load_model(path)), expected)
        with tf.Graph().as_default():
            self.assertEqual(state(mpls.keras.load_model(path)), expected)


SAVERS: dict[str, Any] = {"mpls": mpls.keras.save_model, "framework": lambda model, path: model.save(path)}
SCALES: dict[str, Any] = {
    "dynamic": {"initial_scale": 8.0, "dynamic_growth_steps": 2},
    "fixed": {"initial_scale": 8.0, "dynamic": False},
}
WITH_OPTIONS: dict[str, Any] = {
    "options": {
        "min_scale": 0.5,
        "hysteresis": 2,
        "adjustable": True,
        "initial_scale": 8,
        "dynamic_growth_steps": 5,
        "count_steps": True,
        "skip_counts_step": True,
        "track_overflows": True,
        "max_consecutive_skips": 5,
        "on_give_up": "warn",
    },
    "constants": {"max_scale": 32.0, "initial_scale": 8, "skip_counts_step": False},
    "fixed_counting": {"dynamic": False, "initial_scale": 8, "skip_nonfinite": True, "count_steps": True},
    "auto": {"initial_scale": "auto", "max_scale": 2.0**20, "skip_counts_step": True},
    "disabled": {"initial_scale": 8, "enabled": False, "count_steps": True},
}


class WhoSavesAndWhoLoadsTest(WritingTestCase):
    """The same comes back on each Python and each TensorFlow."""

    def loaded(self, loader: str, framework: Any, path: pathlib.Path) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*does not hold the optimizer's iterations", MplsWarning)
            warnings.filterwarnings("ignore", "Skipping variable loading", UserWarning)
            return {"mpls": mpls.keras, "framework": framework.models}[loader].load_model(path)

    @parameterized.expand(
        [
            (f"{name}_{scale}_{saver}_{loader}", family, suffix, scale, saver, loader)
            for name, family, suffix in CASES
            for scale in (*SCALES, "untrained", *WITH_OPTIONS)
            for saver in SAVERS
            for loader in ("mpls", "framework")
        ]
    )
    @pytest.mark.default_run("each value", by=lambda name, *values: values)
    def test_models(self, name: str, family: str, suffix: str, scale: str, saver: str, loader: str) -> None:
        is_untrained = scale == "untrained"
        settings = (SCALES | WITH_OPTIONS)["dynamic" if is_untrained else scale]
        model = trained_model(family, steps=0 if is_untrained else 3, **settings)
        path = self.folder / f"model{suffix}"
        SAVERS[saver](model, path)
        loaded = self.loaded(loader, FRAMEWORKS[family], path)
        self.assertIn(Ours, type(loaded.optimizer).__mro__)
        self.assertEqual(loaded.optimizer.get_config(), model.optimizer.get_config())
        self.assertEqual(loaded.optimizer.state_dict(), model.optimizer.state_dict())
        self.assertEqual(mpls.inspect.describe(path)["status"], "ok")
        self.assertEqual([w.tolist() for w in loaded.get_weights()], [w.tolist() for w in model.get_weights()])
        # The rest is lost of optimizers in SavedModels and Keras 3's H5 files, and of legacy ones in .keras files.
        is_whole = (family, suffix) in (("legacy", ".h5"), ("new", ".h5"), ("new", ".keras"), ("keras3", ".keras"))
        is_whole = is_whole or (loader == "mpls" and (family, suffix, saver) != ("legacy", ".keras", "framework"))
        if is_whole and not is_untrained:
            self.assertEqual(state_of(loaded.optimizer), state_of(model.optimizer))
            self.assert_trains_on_alike(model, loaded)
        else:
            loaded.train_on_batch(*batch(1.0))
            self.assertEqual(int(loaded.optimizer.iterations), 1)

    @parameterized.expand(
        [
            (f"{family}_{scale}_{kind}", family, scale, kind)
            for family in OPTIMIZERS
            for scale in SCALES
            for kind in (".weights.h5", "_checkpoint")
            if (family, kind) != ("keras3", "_checkpoint")
        ]
    )
    @pytest.mark.default_run("one case")
    def test_weights(self, name: str, family: str, scale: str, kind: str) -> None:
        model, path = trained_model(family, **SCALES[scale]), str(self.folder / f"model{kind}")
        model.save_weights(path)
        loaded = trained_model(family, steps=1, **SCALES[scale])
        loaded.load_weights(path)
        self.assertEqual([w.tolist() for w in loaded.get_weights()], [w.tolist() for w in model.get_weights()])
        # The H5 files of tf_keras do not hold loss scales, nor legacy optimizers.
        if kind == "_checkpoint" or family == "keras3":
            self.assert_trains_on_alike(model, loaded)

    @parameterized.expand(OPTIMIZERS)
    @pytest.mark.default_run("one case")
    def test_an_archive_with_more_members(self, family: str) -> None:
        """Python 3.12.0 to 3.12.8, 3.13.0 and 3.13.1 do not load those that tf_keras itself writes."""
        framework, optimizers = FRAMEWORKS[family], OPTIMIZERS[family]
        words = framework.layers.StringLookup(output_mode="one_hot")
        words.adapt(np.array(["a", "b"]))
        words_in = framework.Input([1], dtype="string")
        model = framework.Model(words_in, framework.layers.Dense(1)(words(words_in)))
        model.compile(Ours(optimizers.Adam(0.0625), initial_scale=8.0, dynamic_growth_steps=2), "mse")
        model.train_on_batch(tf.constant([["a"], ["b"]]), np.zeros([2, 1], np.float32))
        by_mpls, stored, by_itself = (self.folder / f"{name}.keras" for name in ("by_mpls", "stored", "by_itself"))
        mpls.keras.save_model(model, by_mpls)
        # As mpls once wrote it, and as a program packs it that knows nothing of Keras.
        with zipfile.ZipFile(by_mpls) as old, zipfile.ZipFile(stored, "w") as new:
            self.assertGreater(len(old.namelist()), 3)
            for each in old.namelist():
                new.writestr(each, old.read(each))
        model.save(by_itself)
        for path, loader in ((by_mpls, "mpls"), (by_mpls, "framework"), (stored, "mpls"), (by_itself, "mpls")):
            with self.subTest(path=path.name, loader=loader):
                loaded = self.loaded(loader, framework, path)
                self.assertEqual([w.tolist() for w in loaded.get_weights()], [w.tolist() for w in model.get_weights()])
                if family != "legacy" or (loader == "mpls" and path != by_itself):
                    self.assertEqual(state_of(loaded.optimizer), state_of(model.optimizer))


class AtomicSavingTest(WritingTestCase):
    @pytest.mark.matrix
    def test_what_is_there_is_replaced_and_nothing_else_is_left(self) -> None:
        for name, family, suffix in CASES:
            with self.subTest(name=name):
                path = self.folder / f"{name}{suffix}"
                for steps in (1, 2):
                    model = trained_model(family, steps=steps)
                    mpls.keras.save_model(model, path)
                self.assertEqual(int(mpls.keras.load_model(path).optimizer.iterations), 2)
        self.assertEqual(sorted(os.listdir(self.folder)), sorted(f"{name}{suffix}" for name, _, suffix in CASES))

    @parameterized.expand([("keras", ".keras", "keras3"), ("h5", ".h5", "new"), ("saved_model", "", "new")])
    @pytest.mark.default_run("one case")
    def test_a_failure_leaves_what_was_there(self, name: str, suffix: str, family: str) -> None:
        path = self.folder / f"model{suffix}"
        mpls.keras.save_model(trained_model(family, steps=1), path)
        for target in ("os.fsync", "mpls.keras.files.saving.replace"):
            model = trained_model(family, steps=2)
            with mock.patch(target, side_effect=OSError("no space")), self.assertRaisesRegex(OSError, "no space"):
                mpls.keras.save_model(model, path)
            self.assertEqual(os.listdir(self.folder), [path.name])
            self.assertEqual(int(mpls.keras.load_model(path).optimizer.iterations), 1)

    @pytest.mark.matrix
    def test_a_folder_is_there_whole_if_killed_between_the_two_moves(self) -> None:
        path, real = self.folder / "model", os.rename
        mpls.keras.save_model(trained_model("new", steps=2), path)

        def killed_after_the_first(source: Any, target: Any) -> None:
            if str(target).endswith(".old"):
                real(source, target)
            else:
                raise KeyboardInterrupt

        with mock.patch("os.rename", killed_after_the_first), self.assertRaises(KeyboardInterrupt):
            mpls.keras.save_model(trained_model("new", steps=1), path)
        self.assertEqual(os.listdir(self.folder), ["model.old"])
        self.assertEqual(int(mpls.keras.load_model(path).optimizer.iterations), 2)
        mpls.keras.save_model(trained_model("new", steps=1), path)
        self.assertEqual(int(mpls.keras.load_model(path).optimizer.iterations), 1)

    def test_through_links_and_into_new_folders(self) -> None:
        real, link = self.folder / "real.keras", self.folder / "link.keras"
        mpls.keras.save_model(trained_model("keras3", steps=1), real)
        link.symlink_to(real)
        mpls.keras.save_model(trained_model("keras3", steps=2), link)
        self.assertTrue(link.is_symlink())
        self.assertEqual(int(mpls.keras.load_model(real).optimizer.iterations), 2)
        nested = self.folder / "a" / "b" / "model.keras"
        mpls.keras.save_model(trained_model("keras3", steps=1), nested)
        self.assertEqual(os.listdir(nested.parent), ["model.keras"])

    @pytest.mark.matrix
    def test_arguments(self) -> None:
        with self.assertRaisesRegex(TypeError, "must be a model of tf_keras or Keras 3"):
            mpls.keras.save_model(Ours(tf_keras.optimizers.SGD()), self.folder / "model.keras")
        path = self.folder / "model.keras"
        mpls.keras.save_model(trained_model("new", steps=1), path)
        with self.assertRaisesRegex(FileExistsError, "overwrite is False"):
            mpls.keras.save_model(trained_model("new", steps=2), path, overwrite=False)
        mpls.keras.save_model(trained_model("new", steps=2), self.folder / "bare.h5", include_optimizer=False)
        self.assertIsNone(getattr(mpls.keras.load_model(self.folder / "bare.h5"), "optimizer", None))

    @parameterized.expand(["mpls", "framework"])
    def test_keras_3_keeps_the_optimizer_after_an_h5_file(self, saver: str) -> None:
        """Its own `save` takes the optimizer out of what the model remembers of `compile`."""
        model, path = trained_model("keras3"), self.folder / "model.keras"
        SAVERS[saver](model, self.folder / "model.h5")
        mpls.keras.save_model(model, path)
        self.assertEqual(state_of(mpls.keras.load_model(path).optimizer), state_of(model.optimizer))

    def test_variables_of_an_optimizer_without_its_config(self) -> None:
        model, path = trained_model("keras3"), self.folder / "model.keras"
        for each in (self.folder / "model.h5", path):
            model.save(each)
        (found,) = mpls.inspect.describe(path)["optimizers"]
        self.assertEqual((found["iterations"], found["loss_scale"]["scale"]), (3, 16.0))
        self.assertEqual([each["by"] for each in found["restores_into"]], ["model.load_weights"])
        with self.assertWarnsRegex(MplsWarning, "default optimizer, RMSprop.*build.*load_weights"):
            loaded = mpls.keras.load_model(path)
        loaded.compile(Ours(keras.optimizers.Adam(), dynamic_growth_steps=2), "mse")
        loaded.optimizer.build(loaded.trainable_variables)
        loaded.load_weights(path)
        self.assertEqual(state_of(loaded.optimizer), state_of(model.optimizer))

    def test_an_older_file_of_a_fixed_scale_over_keras_3(self) -> None:
        fixed: dict[str, Any] = {"dynamic": False, "initial_scale": 12.0}
        model, again = (trained_model("keras3", steps=steps, **fixed) for steps in (2, 1))
        inner = model.optimizer.inner_optimizer
        store = {str(i): v.numpy() for i, v in enumerate([*model.optimizer._variables, *inner.variables])}
        again.optimizer.load_own_variables(store)
        self.assertEqual(state_of(again.optimizer), state_of(model.optimizer))
