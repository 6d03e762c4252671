"""Optimizers that scale no loss: `enabled=False`, and `'auto'` where nothing is computed in float16."""

from __future__ import annotations

import unittest
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

from tests.folders import InFolder

from .trainers import FAMILIES, RATE, Trainer, fixed

INF = float("inf")
WITH_POLICIES = [family for family in FAMILIES if family != "v1"]


class StepTest(unittest.TestCase):
    def test_a_fixed_scale_that_skips(self) -> None:
        opt = fixed("keras3", skip_nonfinite=True, enabled=False)
        weight = keras.Variable(1.0)
        opt.apply([tf.constant(1.0)], [weight])
        self.assertEqual(float(weight), 1.0 - RATE)
        opt.apply([tf.constant(INF)], [weight])
        self.assertEqual((float(weight), float(opt.loss_scale), opt.initial_scale), (-INF, 1.0, 8.0))

    def test_no_loss_of_v1_is_scaled(self) -> None:
        opt, weight = FAMILIES["v1"](8.0, 2, enabled=False), tf.Variable(1.0, dtype=tf.float16)
        opt.apply_gradients([(tf.constant(0.0, tf.float16), weight)])
        # Subclasses of users call it.
        self.assertEqual(float(opt._scale_loss(tf.constant(3.0))), 3.0)


class StateTest(InFolder, unittest.TestCase):
    @parameterized.expand(list(FAMILIES))
    @pytest.mark.default_run("one case")
    def test_checkpoints_of_objects(self, family: str) -> None:
        enabled, disabled, last = (self._trained(family, is_enabled) for is_enabled in (True, False, True))
        written = enabled.opt.state_dict()
        self.assertEqual((written["scale"], written["good_steps"]), (8.0, 1))
        path = tf.train.Checkpoint(opt=enabled.opt).write(str(self.folder / "enabled"))
        # The scale is kept while training goes on without it.
        tf.train.Checkpoint(opt=disabled.opt).read(path).assert_consumed()
        disabled.take(1.0)
        self.assertEqual(disabled.opt.state_dict(), written)
        path = tf.train.Checkpoint(opt=disabled.opt).write(str(self.folder / "disabled"))
        tf.train.Checkpoint(opt=last.opt).read(path).assert_consumed()
        self.assertEqual(last.opt.state_dict(), written)
        # Before the first step too, and from one that was never enabled.
        fresh = FAMILIES[family](4.0, 2, enabled=False)
        tf.train.Checkpoint(opt=fresh).read(path)
        self.assertEqual(fresh.state_dict(), {**written, "initial_scale": 4.0})
        path = tf.train.Checkpoint(opt=self._trained(family, False).opt).write(str(self.folder / "never"))
        tf.train.Checkpoint(opt=last.opt).read(path).assert_consumed()
        self.assertEqual(last.opt.state_dict()["scale"], 4.0)

    def _trained(self, family: str, is_enabled: bool, mode: str = "eager") -> Trainer:
        options = {} if is_enabled else {"enabled": False}
        training = Trainer(family, mode, lambda: FAMILIES[family](4.0, 2, **options))
        for value in (1.0, 1.0, 1.0):
            training.take(value)
        return training

    def test_a_scale_that_is_looked_for_starts_when_it_is_enabled(self) -> None:
        disabled, enabled = (FAMILIES["new"]("auto", 100, enabled=is_enabled) for is_enabled in (False, True))
        weight = tf.Variable(1.0)
        disabled.minimize(lambda: weight * 1.0, [weight])
        self.assertEqual(disabled.state_dict(), enabled.state_dict())
        self.assertEqual(type(disabled).from_config(disabled.get_config()).get_config(), disabled.get_config())
        enabled.load_state_dict(disabled.state_dict())
        enabled.minimize(lambda: weight * 1.0, [weight])
        self.assertEqual(float(enabled.loss_scale), 512.0)


class PolicyTest(unittest.TestCase):
    def setUp(self) -> None:
        self.addCleanup(tf_keras.mixed_precision.set_global_policy, "float32")
        self.addCleanup(keras.config.set_dtype_policy, "float32")

    def _set(self, family: str, policy: Any) -> None:
        if family == "keras3":
            keras.config.set_dtype_policy(policy)
        else:
            tf_keras.mixed_precision.set_global_policy(policy)

    @parameterized.expand(
        [
            (f"{family}_{policy}", family, policy)
            for family in WITH_POLICIES
            for policy in ("float32", "float64", "bfloat16", "mixed_bfloat16", "float16", "mixed_float16")
        ]
    )
    def test_float16_is_scaled(self, name: str, family: str, policy: str) -> None:
        self._set(family, policy)
        self.assertEqual(
            FAMILIES[family](8.0, 2, enabled="auto").enabled, policy.endswith("_float16") or policy == "float16"
        )
        self.assertTrue(FAMILIES[family](8.0, 2).enabled)

    @parameterized.expand(WITH_POLICIES)
    def test_the_policy_of_the_moment_decides(self, family: str) -> None:
        scales, leaves = "mixed_float16", "mixed_bfloat16"
        for before, after in ((scales, leaves), (leaves, scales)):
            self._set(family, before)
            opt = FAMILIES[family](8.0, 2, enabled="auto")
            self._set(family, after)
            # So do layers: they keep the policy with which they were made, and a file has what was decided.
            self.assertEqual(opt.enabled, before == scales)
            self.assertEqual(type(opt).from_config(opt.get_config()).enabled, before == scales)
            self.assertEqual(FAMILIES[family](8.0, 2, enabled="auto").enabled, after == scales)

    def test_the_policy_of_the_other_keras_does_not(self) -> None:
        tf_keras.mixed_precision.set_global_policy("mixed_float16")
        self.assertFalse(FAMILIES["keras3"](8.0, 2, enabled="auto").enabled)
        self.assertTrue(FAMILIES["new"](8.0, 2, enabled="auto").enabled)

    def test_fit(self) -> None:
        for policy, scale in (("mixed_bfloat16", 1.0), ("mixed_float16", 8.0)):
            for family, kit in (("legacy", tf_keras), ("new", tf_keras), ("keras3", keras)):
                self._set(family, policy)
                opt = FAMILIES[family](8.0, 100, enabled="auto")
                model = kit.Sequential([kit.layers.Input([1]), kit.layers.Dense(1)])
                model.compile(opt, "mse")
                model.fit(np.ones([2, 1], "float32"), np.ones([2, 1]), batch_size=1, verbose=0)
                self.assertIs(model.optimizer, opt)
                self.assertEqual((float(opt.loss_scale), int(opt.iterations)), (scale, 2))
                self.assertEqual(int(opt.dynamic_counter), 0 if scale == 1.0 else 2)


class RefusedTest(unittest.TestCase):
    @parameterized.expand(
        [(f"{family}_{value}", family, value) for family in FAMILIES for value in (0, 1, None, "yes")]
    )
    def test_bad_values(self, name: str, family: str, value: Any) -> None:
        with self.assertRaisesRegex((TypeError, ValueError), "enabled must be"):
            FAMILIES[family](8.0, 2, enabled=value)
