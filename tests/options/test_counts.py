"""Counted steps, what a skipped step advances, and fixed scales that skip: in every family and mode."""

from __future__ import annotations

import unittest
from typing import Any

import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.contrib
import mpls.experimental
import mpls.keras
import mpls.v1
from mpls.errors import MplsWarning

from .model import Model
from .trainers import CELLS, FAMILIES, RATE, Trainer, contrib, fixed, trainer, variable_of

v1 = tf.compat.v1
INF, NAN = float("inf"), float("nan")
STEPS = [1.0, NAN, INF, 1.0, INF, 1.0, 1.0]


OF_FIXED = ("v1", "legacy", "new", "keras3", "experimental")
WITHOUT_SKIPS: dict[str, Any] = {
    "track_overflows": True,
    "max_consecutive_skips": 3,
    "check_unscaled": True,
    "skip_counts_step": False,
}


class CountsTest(unittest.TestCase):
    @parameterized.expand(FAMILIES)
    def test_counters_are_device_tensors(self, family: str) -> None:
        with trainer(family, "eager", 8.0, 2, count_steps=True) as training:
            training.take(1.0)
            for counter in (training.opt.applied_steps, training.opt.skipped_steps, training.opt.consecutive_skips):
                self.assertEqual((counter.dtype, tuple(counter.shape)), (tf.int64, ()))
            self.assertEqual(training.opt.last_step_applied.dtype, tf.bool)

    @parameterized.expand(CELLS)
    @pytest.mark.default_run("each value", by=lambda name, *values: values)
    def test_of_a_fixed_scale(self, name: str, family: str, mode: str) -> None:
        with Trainer(family, mode, lambda: fixed(family, count_steps=True)) as training:
            for _ in range(2):
                training.take(1.0)
            names = ("applied_steps", "skipped_steps", "consecutive_skips", "last_step_applied")
            shown = training.shown()
            self.assertEqual([shown[each] for each in names], [2, 0, 0, True])

    @parameterized.expand(["v1", "contrib"])
    def test_are_in_an_initializer_that_is_made_before_the_step(self, family: str) -> None:
        with tf.Graph().as_default(), v1.Session() as session:
            weight = v1.get_variable("weight", initializer=1.0)
            opt = (contrib if family == "contrib" else FAMILIES[family])(8.0, 2, count_steps=True)
            initializer = v1.global_variables_initializer()
            train_op = opt.minimize(weight * 2.0)
            session.run(initializer)
            session.run(train_op)
            self.assertEqual(session.run(opt.applied_steps), 1)

    @parameterized.expand(["eager", "function", "session"])
    def test_contrib(self, mode: str) -> None:
        options = {"count_steps": True, "skip_counts_step": True}
        model = Model(8.0, 2, skip_counts_step=True)
        with Trainer("v1", mode, lambda: contrib(8.0, 2, **options)) as training:
            for value in STEPS:
                training.take(value)
                model.step(value == 1.0)
                self.assertEqual(training.shown(), model.shown())


class RefusedTest(unittest.TestCase):
    @parameterized.expand(FAMILIES)
    def test_what_is_no_bool(self, family: str) -> None:
        for name, value in (("count_steps", 1), ("count_steps", None), ("skip_counts_step", "no")):
            with self.assertRaisesRegex(TypeError, f"{name} must be a bool"):
                FAMILIES[family](8.0, 2, **{name: value})

    @parameterized.expand(
        [(f"{family}_{name}", family, name) for family in (*OF_FIXED, "contrib") for name in WITHOUT_SKIPS]
    )
    @pytest.mark.default_run("each value", by=lambda name, *values: values)
    def test_what_a_fixed_scale_that_never_skips_has_no_use_for(self, case: str, family: str, name: str) -> None:
        option = {name: WITHOUT_SKIPS[name]}
        if family == "contrib":
            self.assertEqual(getattr(fixed(family, **option), name), WITHOUT_SKIPS[name])
            return
        if (family, name) != ("experimental", "skip_counts_step"):
            with self.assertRaisesRegex(ValueError, f"{name} must be left out for a fixed scale that skips no step"):
                fixed(family, **option)
        self.assertEqual(getattr(fixed(family, skip_nonfinite=True, **option), name), WITHOUT_SKIPS[name])
        self.assertTrue(fixed(family, count_steps=True).count_steps)

    def test_migrated_programs_may_say_what_a_skipped_step_counts_for(self) -> None:
        # Where the source does not tell whether the loss scale is fixed.
        self.assertIsNone(fixed("experimental", skip_counts_step=True).skip_counts_step)
        with self.assertRaisesRegex(TypeError, "skip_counts_step must be a bool"):
            fixed("experimental", skip_counts_step="no")

    @parameterized.expand(
        [
            (f"{family}_{as_entry}_{names[0]}", family, as_entry, names)
            for family in ("legacy", "new", "keras3", "experimental")
            for as_entry in (False, True)
            for names in ([*WITHOUT_SKIPS, "on_give_up"], ["consecutive_hysteresis"], ["on_give_up"])
        ]
    )
    @pytest.mark.default_run("each value", by=lambda name, *values: (*values[:2], values[2][0]))
    def test_configs_that_have_it_load_with_one_warning(
        self, case: str, family: str, as_entry: bool, names: list[str]
    ) -> None:
        values = {**WITHOUT_SKIPS, "on_give_up": "warn", "consecutive_hysteresis": True}
        opt = fixed(family) if len(names) > 1 else FAMILIES[family](8.0, 2)
        config = opt.get_config()
        idle = {name: values[name] for name in names}
        if as_entry:
            # As in files.
            entry = {"loss_scale_options": {"settings": idle, "state": {"applied_steps": 3}}}
            old = {**config, "inner_optimizer": {**config["inner_optimizer"], **entry}}
        else:
            old = {**config, **idle}
        with self.assertWarnsRegex(MplsWarning, f"{', '.join(sorted(names))} had no effect") as caught:
            again = type(opt).from_config(old)
        self.assertEqual(len(caught.warnings), 1)
        self.assertEqual(again.get_config(), config)

    @parameterized.expand([(family,) for family in FAMILIES])
    def test_what_has_no_effect_beside_the_others(self, family: str) -> None:
        for given, message in (
            ({"on_give_up": "warn"}, "on_give_up must be left out without .*max_consecutive_skips=50"),
            ({"consecutive_hysteresis": True}, "consecutive_hysteresis must be left out with a hysteresis of 1"),
        ):
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                FAMILIES[family](8.0, 2, **given)
        for given in (
            {"consecutive_hysteresis": True, "adjustable": True},
            {"max_consecutive_skips": 2, "on_give_up": [].append},
        ):
            FAMILIES[family](8.0, 2, **given)
        with self.assertRaisesRegex(ValueError, "consecutive_hysteresis must be left out with a decr_every"):
            mpls.contrib.ExponentialUpdateLossScaleManager(8.0, 2, 1, consecutive_hysteresis=True)

    def test_settings_of_the_other_kind_of_scale(self) -> None:
        sgd = tf_keras.optimizers.SGD
        with self.assertRaisesRegex(ValueError, "skip_nonfinite must be left out for a dynamic scale"):
            mpls.keras.LossScaleOptimizer(sgd(), skip_nonfinite=False)
        with self.assertRaisesRegex(ValueError, "hysteresis must be left out if dynamic is False"):
            mpls.keras.LossScaleOptimizer(sgd(), dynamic=False, initial_scale=8, hysteresis=2)
        with self.assertRaisesRegex(TypeError, "skip_nonfinite must be a bool"):
            mpls.v1.FixedLossScale(8, skip_nonfinite=1)  # type: ignore[arg-type]
        # What says nothing new is taken.
        self.assertEqual(
            mpls.keras.LossScaleOptimizer(sgd(), skip_nonfinite=True).get_config().keys() & {"skip_nonfinite"}, set()
        )


class ReplicasTest(unittest.TestCase):
    @parameterized.expand(["v1", "legacy", "new", "keras3"])
    def test_a_sum_that_is_infinite_is_skipped(self, family: str) -> None:
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        with strategy.scope():
            opt = fixed(family, skip_nonfinite=True)
            weight = variable_of(family)

        @tf.function
        def step(grad: Any) -> None:
            def in_replica() -> None:
                if family == "v1":
                    opt.compute_gradients(lambda: weight * 1.0, [weight])
                    opt.apply_gradients([(tf.identity(grad), weight)])
                    return
                opt.get_scaled_loss(tf.ones([]))
                (unscaled,) = opt.get_unscaled_gradients([grad])
                opt.apply_gradients([(unscaled * 8.0, weight)])

            strategy.run(in_replica)

        for grad, expected in ((3e38, 1.0), (1.0, 1.0 - 2 * RATE)):
            step(tf.constant(grad))
            self.assertEqual(float(weight.numpy()), expected)
