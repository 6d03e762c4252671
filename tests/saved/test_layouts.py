"""Files of every optimizer and of every way to save, written by the frameworks of today, are read as they were held."""

from __future__ import annotations

import contextlib
import unittest
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.contrib
import mpls.keras
import mpls.v1
from mpls.formats.record import OptimizerRecord
from mpls.saved.reading import read
from mpls.transfer.convert import export
from tests.folders import InFolder
from tests.keras.families import FRAMEWORKS, OPTIMIZERS

v1 = tf.compat.v1
SETTINGS: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0.5},
    "Adam": {"amsgrad": True},
    "Adamax": {},
    "Nadam": {},
    "RMSprop": {"momentum": 0.5, "centered": True},
    "Adagrad": {},
    "Adadelta": {},
    "Ftrl": {},
}


def cases() -> Iterator[tuple[str, str, str, dict[str, Any], str]]:
    for family, package in OPTIMIZERS.items():
        for algorithm, settings in SETTINGS.items():
            more: list[dict[str, Any]] = [settings]
            if family != "legacy" and algorithm in ("SGD", "Adam"):
                more.append({**settings, "use_ema": True})
            if family == "keras3" and algorithm == "RMSprop":
                more.append({"gradient_accumulation_steps": 2, "use_ema": True})
            if algorithm == "SGD":
                decay = FRAMEWORKS[family].optimizers.schedules.ExponentialDecay(0.5, 10, 0.5)
                more.append({"learning_rate": decay})
            for number, each in enumerate(more):
                assert hasattr(package, algorithm)
                yield f"{family}_{algorithm}_{number}", family, algorithm, each, "dynamic"
        yield f"{family}_fixed", family, "Adam", {}, "fixed"
        yield f"{family}_bare", family, "Adam", {}, "bare"


class FrameworkFilesTest(InFolder, unittest.TestCase):
    def _train(self, family: str, algorithm: str, settings: dict[str, Any], scaling: str) -> tuple[Any, Any, Any]:
        inner = getattr(OPTIMIZERS[family], algorithm)(**{"learning_rate": 0.0625, **settings})
        optimizer = inner
        if scaling == "dynamic":
            optimizer = mpls.keras.LossScaleOptimizer(inner, initial_scale=64.0, dynamic_growth_steps=3)
        elif scaling == "fixed":
            optimizer = mpls.keras.LossScaleOptimizer(inner, dynamic=False, initial_scale=8.0)
        framework, layers = FRAMEWORKS[family], FRAMEWORKS[family].layers
        model = framework.Sequential(
            [layers.Input((2,)), layers.Dense(3, name="first"), layers.Dense(1, name="second")]
        )
        model.compile(optimizer, "mse", run_eagerly=True)
        model.set_weights([np.full(weight.shape, 0.25, np.float32) for weight in model.get_weights()])
        for value in (0.25, 0.5, -0.75, 0.125):
            model.train_on_batch(np.full((2, 2), value, np.float32), np.ones((2, 1), np.float32))
        return model, optimizer, inner

    @parameterized.expand(list(cases()))
    @pytest.mark.default_run(
        "one case", by=lambda name, family, algorithm, settings, scaling: (algorithm, (family, scaling))
    )
    def test_formats(self, name: str, family: str, algorithm: str, settings: dict[str, Any], scaling: str) -> None:
        model, optimizer, inner = self._train(family, algorithm, settings, scaling)
        tf.train.Checkpoint(model=model, optimizer=optimizer).write(str(self.folder / "ckpt"))
        paths = {"object checkpoint": self.folder / "ckpt"}
        for kind, suffix in (("H5", "h5"), (".keras", "keras")):
            paths[kind] = self.folder / f"model.{suffix}"
            mpls.keras.save_model(model, str(paths[kind]))
        if name in ("legacy_SGD_0", "new_SGD_0"):
            paths["SavedModel"] = self.folder / "saved_model"
            mpls.keras.save_model(model, str(paths["SavedModel"]), save_format="tf")
        for kind, path in paths.items():
            with self.subTest(kind):
                record = read(path)
                (found,) = record.optimizers
                self.assertEqual((record.format, found.family, found.algorithm), (kind, family, algorithm))
                self._check_slots(found, inner, model.trainable_variables, kind)
                self._check_loss_scale(found, family, optimizer, scaling, kind)

    def _check_slots(self, found: OptimizerRecord, inner: Any, weights: list[Any], kind: str) -> None:
        held = export(inner, weights)
        # With accumulated gradients those of Keras 3 are calls divided by them; files hold the calls.
        self.assertEqual(found.iterations, held.iterations)
        names = [each.name for each in held.variables]
        for number, variable in enumerate(found.variables):
            self.assertEqual(variable.name is None, kind == ".keras")
            wanted = held.variables[number if variable.name is None else names.index(variable.name)].slots
            self.assertEqual(set(variable.slots), set(wanted))
            for slot, value in variable.slots.items():
                np.testing.assert_array_equal(value, wanted[slot], f"{variable.name} {slot}")
        self.assertEqual(len(found.variables), len(weights) if any(each.slots for each in held.variables) else 0)
        # Files of models lack the product of a new Nadam.
        is_left_out = held.family == "new" and kind in ("H5", ".keras")
        products = [] if is_left_out else [float(each) for each in held.others.values()]
        self.assertEqual([float(each) for each in found.others.values()], products)

    def _check_loss_scale(self, found: OptimizerRecord, family: str, optimizer: Any, scaling: str, kind: str) -> None:
        loss_scale, is_checkpoint = found.loss_scale, kind == "object checkpoint"
        # A fixed scale over a new optimizer leaves no trace in a checkpoint.
        if scaling == "bare" or (scaling == "fixed" and is_checkpoint and family == "new"):
            self.assertIsNone(loss_scale)
            return
        assert loss_scale is not None
        self.assertEqual(loss_scale.dynamic, scaling == "dynamic")
        if loss_scale.dynamic:
            found_state = (loss_scale.scale, loss_scale.good_steps)
            self.assertEqual(found_state, (float(optimizer.loss_scale), int(optimizer.dynamic_counter)))
            self.assertEqual(found_state, (128.0, 1))
        elif not is_checkpoint:
            self.assertEqual(loss_scale.scale, 8.0)
        if not is_checkpoint:
            self.assertEqual(loss_scale.initial_scale, 64.0 if loss_scale.dynamic else 8.0)

    def test_several_optimizers(self) -> None:
        weights = [tf.Variable([1.0, 2.0], name=name) for name in ("first", "second", "third")]
        wrapped = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.legacy.Adam(0.5), initial_scale=32.0)
        bare = tf_keras.optimizers.RMSprop(0.25)
        v1 = mpls.v1.MixedPrecisionLossScaleOptimizer(tf.compat.v1.train.MomentumOptimizer(0.5, 0.5), 8.0)
        wrapped.minimize(lambda: weights[0] ** 2, [weights[0]])
        bare.minimize(lambda: weights[1] ** 2, [weights[1]])
        v1.minimize(lambda: weights[2] ** 2, var_list=[weights[2]])
        nested = tf.train.Checkpoint(generator=tf.train.Checkpoint(optimizer=wrapped), critic=bare)
        nested.v1, nested.weights = v1, weights
        nested.write(str(self.folder / "ckpt"))
        found = {each.key: each for each in read(self.folder / "ckpt").optimizers}
        self.assertEqual(list(found), ["critic", "v1", "generator/optimizer"])
        kinds = {key: (each.family, each.algorithm, len(each.variables)) for key, each in found.items()}
        self.assertEqual(kinds["generator/optimizer"], ("legacy", "Adam", 1))
        self.assertEqual(kinds["critic"], ("new", "RMSprop", 1))
        self.assertEqual(kinds["v1"], ("v1", "SGD", 1))
        self.assertIsNone(found["critic"].loss_scale)
        self.assertEqual(found["generator/optimizer"].variables[0].name, "first")


class SaverFilesTest(InFolder, unittest.TestCase):
    def setUp(self) -> None:
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        stack.enter_context(tf.Graph().as_default())
        self.session = stack.enter_context(v1.Session())

    def _saved(self) -> list[OptimizerRecord]:
        self.session.run(v1.global_variables_initializer())
        for train in v1.get_collection("steps"):
            self.session.run(train)
        v1.train.Saver().save(self.session, str(self.folder / "ckpt"), write_meta_graph=False)
        return list(read(self.folder / "ckpt").optimizers)

    def _add(self, optimizer: Any, name: str, **kwargs: Any) -> None:
        weight = v1.get_variable(name, [3], initializer=v1.ones_initializer())
        v1.add_to_collection("steps", optimizer.minimize(tf.reduce_sum(weight**2), **kwargs))

    def test_wrapped_in_a_scope(self) -> None:
        with v1.variable_scope("model"):
            inner = v1.train.RMSPropOptimizer(0.5, momentum=0.5, centered=True)
            scale = mpls.v1.DynamicLossScale(64, increment_period=5)
            optimizer = mpls.v1.MixedPrecisionLossScaleOptimizer(inner, scale)
            self._add(optimizer, "weight", global_step=v1.train.get_or_create_global_step())
        (found,) = self._saved()
        slots = found.variables[0].slots
        self.assertEqual((found.family, found.algorithm, found.iterations), ("v1", "RMSprop", 1))
        self.assertEqual((found.variables[0].key, list(slots)), ("model/weight", ["rms", "mg", "momentum"]))
        weight = v1.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES)[0]
        for slot in slots:
            np.testing.assert_array_equal(slots[slot], self.session.run(inner.get_slot(weight, slot)))
        assert found.loss_scale is not None
        self.assertEqual((found.loss_scale.scale, found.loss_scale.good_steps), (64.0, 1))

    def test_an_adam_in_a_scope_is_one(self) -> None:
        inner = v1.train.AdamOptimizer(0.5)
        optimizer = mpls.v1.MixedPrecisionLossScaleOptimizer(inner, "dynamic", count_steps=True)
        with v1.name_scope("training"):
            self._add(optimizer, "weight", global_step=v1.train.get_or_create_global_step())
        (found,) = self._saved()
        # The saver has written its beta powers under two names.
        self.assertEqual((found.algorithm, found.iterations, len(found.others)), ("Adam", 1, 4))
        self.assertEqual(found.counts["applied_steps"], 1)

    def test_own_name_and_averages(self) -> None:
        inner = v1.train.AdamOptimizer(0.5, name="Mine")
        self._add(inner, "weight")
        average = tf.train.ExponentialMovingAverage(0.5)
        v1.add_to_collection("steps", average.apply(v1.trainable_variables()))
        (found,) = self._saved()
        self.assertEqual((found.key, found.algorithm, found.loss_scale), ("Mine", "Adam", None))
        self.assertEqual([list(each.slots) for each in found.variables], [["m", "v"]])

    def test_contrib(self) -> None:
        manager = mpls.contrib.ExponentialUpdateLossScaleManager(16.0, incr_every_n_steps=5)
        inner = v1.train.MomentumOptimizer(0.5, 0.5)
        self._add(mpls.contrib.LossScaleOptimizer(inner, manager), "weight")
        (found,) = self._saved()
        assert found.loss_scale is not None
        self.assertEqual((found.algorithm, found.loss_scale.scale, found.loss_scale.good_steps), ("SGD", 16.0, 1))

    def test_keras_optimizer(self) -> None:
        weight = v1.get_variable("weight", [3], initializer=v1.ones_initializer())
        inner = tf_keras.optimizers.legacy.Adam(0.5)
        optimizer = mpls.keras.LossScaleOptimizer(inner, initial_scale=64.0)
        with v1.name_scope("training"):
            grads = optimizer.get_unscaled_gradients(tf.gradients(optimizer.get_scaled_loss(weight**2), [weight]))
            v1.add_to_collection("steps", optimizer.apply_gradients([(grads[0], weight)]))
        (found,) = self._saved()
        assert found.loss_scale is not None
        self.assertEqual((found.family, found.algorithm, found.iterations), ("legacy", "Adam", 1))
        self.assertEqual(found.hyperparameters["learning_rate"], 0.5)
        self.assertEqual([(each.name, sorted(each.slots)) for each in found.variables], [("weight", ["m", "v"])])
        self.assertEqual((found.loss_scale.scale, found.loss_scale.good_steps), (64.0, 1))

    def test_no_optimizer(self) -> None:
        v1.get_variable("weight", [3])
        v1.get_variable("weight/part", [3])
        self.assertEqual(self._saved(), [])
