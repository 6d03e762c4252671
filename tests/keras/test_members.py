"""Members of optimizers that code calls on the wrapper, and that are those of the wrapped optimizer."""

from __future__ import annotations

import copy
import unittest
from typing import Any
from unittest import mock

import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.experimental
import mpls.keras
from tests.core.own_loss_scale import Counting
from tests.folders import InFolder
from tests.keras.families import OPTIMIZERS

Ours: Any = mpls.keras.LossScaleOptimizer


class LegacyTest(unittest.TestCase):
    def test_hyperparameters_by_the_methods_of_subclasses(self) -> None:
        opt = Ours(tf_keras.optimizers.legacy.SGD(0.5, momentum=0.25, decay=1.0))
        self.assertEqual(float(opt._get_hyper("momentum")), 0.25)
        self.assertEqual(opt._get_hyper("momentum", tf.float64).dtype, tf.float64)
        opt._set_hyper("learning_rate", 0.125)
        self.assertEqual(float(opt.inner_optimizer.learning_rate), 0.125)
        self.assertIs(opt._hyper["learning_rate"], opt.inner_optimizer._hyper["learning_rate"])
        opt.iterations.assign(1)
        rate = opt._decayed_lr(tf.float64)
        self.assertEqual((float(rate), rate.dtype), (0.0625, tf.float64))

    def test_a_slot_that_waits_for_its_checkpoint(self) -> None:
        opt = Ours(tf_keras.optimizers.legacy.SGD(0.5, momentum=0.25))
        with mock.patch.object(tf_keras.optimizers.legacy.SGD, "_restore_slot_variable", autospec=True) as restore:
            opt._restore_slot_variable("momentum", "variable", "slot")
        restore.assert_called_once_with(opt.inner_optimizer, "momentum", "variable", "slot")

    def test_further_variables_start_at_zero(self) -> None:
        opt, variable = Ours(tf_keras.optimizers.legacy.SGD(0.5)), tf.Variable([1.0, 2.0])
        self.assertEqual(opt.add_weight("extra", shape=[2]).numpy().tolist(), [0.0, 0.0])
        self.assertEqual(opt.add_slot(variable, "extra").numpy().tolist(), [0.0, 0.0])


class NewTest(unittest.TestCase):
    def test_further_variables_start_at_zero(self) -> None:
        opt = Ours(tf_keras.optimizers.SGD(0.5))
        extra = opt.add_variable([2])
        self.assertEqual(extra.numpy().tolist(), [0.0, 0.0])
        self.assertIn(id(extra), map(id, opt.inner_optimizer.variables))

    def test_a_v1_graph(self) -> None:
        opt, variable = Ours(tf_keras.optimizers.SGD(0.5)), tf.Variable(1.0)
        with tf.Graph().as_default(), self.assertRaisesRegex(RuntimeError, "v1 graph.*got a new one of tf_keras"):
            opt.apply_gradients([(tf.constant(1.0), variable)])


class TraceTest(unittest.TestCase):
    @parameterized.expand([("legacy", "_create_all_weights"), ("new", "_create_all_weights"), ("new", "build")])
    def test_a_function_is_traced_once_if_weights_were_made(self, family: str, method: str) -> None:
        variable = tf.Variable(1.0)
        opt = Ours(OPTIMIZERS[family].SGD(0.25, momentum=0.5), track_overflows=True, count_steps=True)
        getattr(opt, method)([variable])
        traces = []

        @tf.function(autograph=False)
        def step() -> None:
            traces.append(None)
            opt.minimize(lambda: variable * 2.0, [variable])

        step()
        self.assertEqual((len(traces), float(variable), int(opt.applied_steps)), (1, 0.5, 1))


class KeywordsOnly(Ours):  # type: ignore[misc]
    def __init__(self, *, inner_optimizer: Any, **settings: Any) -> None:
        super().__init__(inner_optimizer, **settings)


class AnyTest(InFolder, unittest.TestCase):
    def test_a_copy_refers_to_itself(self) -> None:
        opt = Ours(tf_keras.optimizers.legacy.SGD(0.5), initial_scale=64)
        opt.me = opt
        copied = copy.deepcopy(opt)
        self.assertIs(copied.me, copied)
        self.assertIsNot(copied, opt)

    @parameterized.expand([(family,) for family in OPTIMIZERS])
    def test_from_config(self, family: str) -> None:
        config = {**KeywordsOnly(inner_optimizer=OPTIMIZERS[family].SGD(0.5), initial_scale=64).get_config()}
        read = KeywordsOnly.from_config(dict(config))
        self.assertIsInstance(read, KeywordsOnly)
        self.assertEqual((read.initial_scale, float(read.learning_rate)), (64.0, 0.5))
        inner = OPTIMIZERS[family].SGD(0.25)
        self.assertIs(Ours.from_config({**config, "inner_optimizer": inner}).inner_optimizer, inner)
        with self.assertRaisesRegex(KeyError, r"must have the key 'inner_optimizer'; got \[.*'dynamic_growth_steps', "):
            Ours.from_config({key: value for key, value in config.items() if key != "inner_optimizer"})

    @parameterized.expand([("legacy",), ("new",)])
    def test_a_loss_scale_that_is_set_is_that_of_checkpoints(self, family: str) -> None:
        opt = Ours(OPTIMIZERS[family].SGD(0.5), initial_scale=8)
        opt._loss_scale = mpls.experimental.DynamicLossScale(64.0)
        opt._loss_scale.load_state_dict({**opt._loss_scale.state_dict(), "scale": 32.0})
        path = tf.train.Checkpoint(optimizer=opt).write(f"{self.folder}/ckpt")
        again = Ours(OPTIMIZERS[family].SGD(0.5), initial_scale=8)
        tf.train.Checkpoint(optimizer=again).read(path)
        self.assertEqual(float(again.loss_scale), 32.0)
        opt._loss_scale = 0.25
        with self.assertRaisesRegex(ValueError, "_loss_scale must be at most 2.*126 for a fixed scale"):
            opt._loss_scale = 2.0**127
        self.assertEqual(float(opt.loss_scale), 0.25)

    def test_a_scaling_that_is_no_function(self) -> None:
        class Own(Ours):  # type: ignore[misc]
            get_scaled_loss = staticmethod(lambda loss: loss * 3)

        self.assertEqual(Own(tf_keras.optimizers.SGD(0.5)).get_scaled_loss(2), 6)

    def test_an_inner_config_without_settings_is_that_of_a_legacy_optimizer(self) -> None:
        read = Ours.from_config({"inner_optimizer": {"class_name": "SGD", "config": {}}, "dynamic": True})
        self.assertIs(type(read.inner_optimizer), tf_keras.optimizers.legacy.SGD)

    def test_hyperparameters_that_a_subclass_sets_after_its_base(self) -> None:
        class Sets(Ours):  # type: ignore[misc]
            def __init__(self, inner_optimizer: Any) -> None:
                super().__init__(inner_optimizer)
                self.momentum = 0.75

        opt = Sets(tf_keras.optimizers.legacy.SGD(0.5, momentum=0.25))
        self.assertEqual(float(opt.inner_optimizer.momentum), 0.75)

    def test_aggregation_by_the_class_of_the_wrapped_optimizer(self) -> None:
        class Doubles(tf_keras.optimizers.legacy.SGD):
            def _aggregate_gradients(self, grads_and_vars: Any) -> Any:
                return [grad * 2 for grad, _ in grads_and_vars]

        variable = tf.Variable(1.0)
        ((grad, its),) = Ours(Doubles(0.5))._aggregate_gradients([(tf.constant(1.5), variable)])
        self.assertEqual((float(grad), its is variable), (3.0, True))

    def test_an_optimizer_that_was_saved_before_it_was_wrapped(self) -> None:
        inner, variable = tf_keras.optimizers.SGD(0.5), tf.Variable(1.0)
        tf.train.Checkpoint(optimizer=inner).write(f"{self.folder}/before")
        opt = Ours(inner, initial_scale=8, dynamic_growth_steps=1, count_steps=True)
        opt.minimize(lambda: variable * 2.0, [variable])
        path = tf.train.Checkpoint(optimizer=opt).write(f"{self.folder}/after")
        again = Ours(tf_keras.optimizers.SGD(0.5), initial_scale=8, dynamic_growth_steps=1, count_steps=True)
        tf.train.Checkpoint(optimizer=again).read(path)
        self.assertEqual((float(again.loss_scale), int(again.applied_steps)), (16.0, 1))

    def test_no_initial_scale_of_a_users_own_loss_scale(self) -> None:
        opt = Ours(tf_keras.optimizers.SGD(0.5))
        opt._loss_scale = Counting()
        with self.assertRaisesRegex(AttributeError, "with a Counting has no initial_scale"):
            opt.initial_scale  # noqa: B018
        self.assertFalse(hasattr(opt, "initial_scale"))
