"""`mpls.contrib` beside what TensorFlow 1.15 computed, and what the original could not do."""

from __future__ import annotations

import contextlib
import json
import pathlib
import unittest
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.contrib
import mpls.v1
from mpls.errors import MplsError, MplsWarning, UndefinedMethodError
from mpls.inspect import inspect
from mpls.monitor.scale_readings import Readings
from tests.folders import InFolder
from tests.golden.replay import control_flow
from tests.options.trainers import Trainer

from . import traces

v1 = tf.compat.v1
INF, NAN = float("inf"), float("nan")
SGD = v1.train.GradientDescentOptimizer(0.5)
RECORDED = json.loads((pathlib.Path(__file__).parent / "data" / "tf115.json").read_text(encoding="utf-8"))["traces"]


def take_step(optimizer: Any, variable: Any, factor: float = 1.0) -> float:
    optimizer.minimize(lambda: variable * factor, var_list=[variable])
    return float(variable)


class RecordedTest(unittest.TestCase):
    """The numbers of the original, in a graph under either control flow."""

    @parameterized.expand([False, True])
    @pytest.mark.default_run("one case")
    def test_traces(self, is_v2: bool) -> None:
        with control_flow(is_v2):
            found = traces.all_traces(mpls.contrib)
        self.assertEqual(found.keys(), RECORDED.keys())
        for key, trace in found.items():
            with self.subTest(key):
                if key.startswith("manager"):
                    self.assertEqual(trace, RECORDED[key])
                    continue
                for step, recorded in zip(trace, RECORDED[key], strict=True):
                    # A scale that is no power of two rounds twice in the original, in a reciprocal and a product.
                    for value, wanted in zip(step, recorded, strict=True):
                        np.testing.assert_allclose(value, wanted, rtol=1e-6)
                    self.assertEqual(step[2:], recorded[2:])


class ManagerTest(unittest.TestCase):
    def test_the_base_class_is_abstract(self) -> None:
        with self.assertRaises(TypeError):
            mpls.contrib.LossScaleManager()

    def test_variables_have_the_original_names(self) -> None:
        with tf.Graph().as_default(), v1.variable_scope("", use_resource=False):
            mpls.contrib.ExponentialUpdateLossScaleManager(16.0, 2)
            found = {(each.name, each.dtype, each.trainable) for each in v1.global_variables()}
        names = {
            ("loss_scale:0", tf.float32, False),
            ("good_steps:0", tf.int32, False),
            ("bad_steps:0", tf.int32, False),
        }
        self.assertEqual(found, names)

    @parameterized.expand(
        [
            ("zero", "init_loss_scale", 0, ValueError),
            ("nan", "init_loss_scale", NAN, ValueError),
            ("inf", "init_loss_scale", 1e39, ValueError),
            ("none", "init_loss_scale", None, TypeError),
            ("steps", "incr_every_n_steps", None, TypeError),
            ("bad_steps", "decr_every_n_nan_or_inf", "few", ValueError),
            ("ratio", "incr_ratio", 0, ValueError),
            ("falling_ratio", "incr_ratio", 0.99, ValueError),
            ("negative_ratio", "decr_ratio", -0.5, ValueError),
            ("growing_ratio", "decr_ratio", 1.01, ValueError),
        ]
    )
    def test_refusals_of_the_exponential_manager(self, name: str, argument: str, value: Any, error: type) -> None:
        arguments = {"init_loss_scale": 2.0, "incr_every_n_steps": 10, argument: value}
        with self.assertRaisesRegex(error, f"ExponentialUpdateLossScaleManager: {argument} must") as caught:
            mpls.contrib.ExponentialUpdateLossScaleManager(**arguments)
        self.assertIsInstance(caught.exception, MplsError)

    @parameterized.expand(
        [
            ("below_one", 0.5, ValueError),
            ("nan", NAN, ValueError),
            ("inf", INF, ValueError),
            ("without_reciprocal", 2.0**127, ValueError),
            ("no_float", 10**400, OverflowError),
            ("none", None, TypeError),
            ("string", "128", TypeError),
        ]
    )
    def test_refusals_of_the_fixed_manager(self, name: str, value: Any, error: type) -> None:
        with self.assertRaisesRegex(error, "FixedLossScaleManager: loss_scale must"):
            mpls.contrib.FixedLossScaleManager(value)

    def test_updates_of_a_fixed_manager(self) -> None:
        manager = mpls.contrib.FixedLossScaleManager(1)
        self.assertEqual((float(manager.get_loss_scale()), manager.update_loss_scale(True)), (1.0, None))
        self.assertEqual(mpls.contrib.FixedLossScaleManager(8).state_dict(), {"dynamic": False, "scale": 8.0})
        with tf.Graph().as_default():
            self.assertEqual(manager.update_loss_scale(True).type, "NoOp")

    def test_ratios_of_one_keep_the_scale(self) -> None:
        manager = mpls.contrib.ExponentialUpdateLossScaleManager(8.0, 1, 1, incr_ratio=1, decr_ratio=1)
        for is_finite in (True, False):
            manager.update_loss_scale(is_finite)
            self.assertEqual(float(manager.get_loss_scale()), 8.0)


class BoundsTest(unittest.TestCase):
    """The arguments after `decr_ratio`, which the original had not."""

    def scales(self, steps: str, mode: str, initial: float = 8.0, period: int = 1, **options: Any) -> list[float]:
        """Return the scale after each step: `.` is finite, `+` is not."""
        decr = {"decr_every_n_nan_or_inf": 1, "decr_ratio": 0.5, **options}

        def make() -> Any:
            manager = mpls.contrib.ExponentialUpdateLossScaleManager(initial, period, **decr)
            return mpls.contrib.LossScaleOptimizer(v1.train.GradientDescentOptimizer(0.5), manager)

        found = []
        with Trainer("v1", mode, make) as training:
            for step in steps:
                training.take(1.0 if step == "." else INF)
                found.append(float(training.number(training.opt._loss_scale())))
        return found

    @parameterized.expand(["eager", "function", "session"])
    def test_bounds(self, mode: str) -> None:
        self.assertEqual(self.scales("..+++++", mode, min_scale=0.5, max_scale=12), [12, 12, 6, 3, 1.5, 0.75, 0.5])
        self.assertEqual(self.scales("++++", mode), [4, 2, 1, 1])

    @parameterized.expand(["eager", "function", "session"])
    def test_steps_in_a_row(self, mode: str) -> None:
        options = {"decr_every_n_nan_or_inf": 2, "period": 5}
        self.assertEqual(self.scales("+.+.++", mode, **options), [8, 8, 4, 4, 4, 2])
        self.assertEqual(self.scales("+.+.++", mode, consecutive_hysteresis=True, **options), [8, 8, 8, 8, 8, 4])

    def test_states(self) -> None:
        def made(**options: Any) -> Any:
            return mpls.contrib.ExponentialUpdateLossScaleManager(8.0, 2, **options)

        manager = made(max_scale=64, consecutive_hysteresis=True)
        state = manager.state_dict()
        self.assertEqual((state["max_scale"], state["consecutive_hysteresis"]), (64.0, True))
        made(max_scale=64, consecutive_hysteresis=True).load_state_dict(state)
        self.assertNotIn("max_scale", made().state_dict())
        with self.assertRaisesRegex(ValueError, "load_state_dict: max_scale must be 32.0"):
            made(max_scale=32, consecutive_hysteresis=True).load_state_dict(state)
        with self.assertWarnsRegex(MplsWarning, "not used here is max_scale=64.0"):
            made().load_state_dict(state)
        with self.assertRaisesRegex(ValueError, "must have the keys"):
            made().load_state_dict({**state, "unheard": 1})
        readings = Readings(mpls.contrib.LossScaleOptimizer(SGD, manager), "", "")
        manager.load_state_dict(state)
        times_set = readings.times_set
        manager.load_state_dict(state)
        self.assertNotEqual(readings.times_set, times_set)
        own = made().state_dict()
        for changes, message in (
            ({"dynamic": False}, "dynamic must be True"),
            ({"scale": NAN}, "load_state_dict: scale must be"),
            ({"good_steps": 4}, "load_state_dict: good_steps must be .* from 0 to 2, the growth steps"),
            ({"bad_steps": -1}, "load_state_dict: bad_steps must be"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                manager.load_state_dict({**state, **changes})
        self.assertEqual(manager.state_dict(), state)
        with tf.Graph().as_default():
            # Which is not the default session.
            manager, session = made(), v1.Session()
            manager.load_state_dict({**own, "scale": 2.0}, session)
            self.assertEqual(manager.state_dict(session), {**own, "scale": 2.0})

    @parameterized.expand(
        [
            ("crossed", {"min_scale": 4, "max_scale": 2}, ValueError, "max_scale must be at least min_scale"),
            ("initial_below", {"min_scale": 16}, ValueError, "the initial scale must be from 16"),
            ("initial_above", {"max_scale": 4}, ValueError, "the initial scale must be from 1 to 4"),
            ("denormal", {"min_scale": 1e-40}, ValueError, "min_scale must be at least"),
            ("no_bool", {"consecutive_hysteresis": 1}, TypeError, "consecutive_hysteresis must be a bool"),
            ("growth", {"growth_factor": 4}, TypeError, "left out here; got 4 .int.. Write incr_ratio=4"),
            ("hysteresis", {"hysteresis": 2}, TypeError, "Write decr_every_n_nan_or_inf=2"),
            ("adjustable", {"adjustable": True}, TypeError, "must be the name of an argument; got adjustable=True"),
        ]
    )
    def test_refused(self, name: str, options: dict[str, Any], error: type, message: str) -> None:
        with self.assertRaisesRegex(error, message):
            mpls.contrib.ExponentialUpdateLossScaleManager(8.0, 2, **options)

    def test_only_the_constructor_takes_them(self) -> None:
        manager = mpls.contrib.ExponentialUpdateLossScaleManager(8.0, 2)
        opt = mpls.contrib.LossScaleOptimizer(v1.train.GradientDescentOptimizer(1.0), manager)
        text = r"LossScaleOptimizer: min_scale must not be set here; got 2.0 .*Manager\(\.\.\., min_scale=2\.0\)"
        with self.assertRaisesRegex(AttributeError, text):
            opt.min_scale = 2.0

    def test_an_initial_scale_below_the_floor_is_taken_as_by_the_original(self) -> None:
        self.assertEqual(self.scales(".", "eager", initial=0.25), [0.5])

    def test_settings_can_be_read_from_the_optimizer(self) -> None:
        opt = mpls.contrib.LossScaleOptimizer(SGD, mpls.contrib.ExponentialUpdateLossScaleManager(8.0, 5, 3, 4.0, 0.25))
        settings = opt.growth_steps, opt.growth_factor, opt.backoff_factor, opt.hysteresis
        self.assertEqual(settings, (5, 4.0, 0.25, 3))

    def test_what_an_update_returns_in_a_graph(self) -> None:
        with tf.Graph().as_default(), v1.Session() as session:
            finite = v1.placeholder(tf.bool, [])
            due = mpls.contrib.ExponentialUpdateLossScaleManager(8.0, 2, 2).update_loss_scale(finite)
            session.run(v1.global_variables_initializer())
            found = [session.run(due, {finite: step == "."}) for step in "..+.++"]
        self.assertEqual(found, [False, True, False, False, True, False])


class Own(mpls.contrib.LossScaleManager):
    """A manager as users write it."""

    def __init__(self, scale: float) -> None:
        self.scale = tf.Variable(scale)

    def get_loss_scale(self) -> Any:
        return self.scale

    def update_loss_scale(self, finite_grads: Any) -> Any:
        return None if tf.executing_eagerly() else tf.no_op()


class OptimizerTest(unittest.TestCase):
    def test_a_fixed_manager_skips_too(self) -> None:
        manager = mpls.contrib.FixedLossScaleManager(128)
        optimizer = mpls.contrib.LossScaleOptimizer(v1.train.MomentumOptimizer(0.5, 0.5), manager)
        variable = tf.Variable(1.0)
        self.assertEqual([take_step(optimizer, variable, factor) for factor in (NAN, 1.0)], [1.0, 0.5])
        self.assertEqual(float(optimizer.get_slot(variable, "momentum")), 1.0)
        self.assertEqual(optimizer.get_slot_names(), ["momentum"])
        self.assertEqual(optimizer.get_name(), "Momentum")
        self.assertEqual(len(optimizer.variables()), 1)

    def test_floors(self) -> None:
        bounded = mpls.contrib.ExponentialUpdateLossScaleManager(8.0, 5, decr_every_n_nan_or_inf=9, min_scale=8.0)
        managers = [
            (mpls.contrib.FixedLossScaleManager(8), True),
            (bounded, True),
            (mpls.contrib.ExponentialUpdateLossScaleManager(8.0, 5, decr_every_n_nan_or_inf=9), False),
            (Own(8.0), False),
            (Own(1.0), True),
        ]
        for manager, is_at_floor in managers:
            called: list[Any] = []
            options: Any = {"max_consecutive_skips": 1, "on_give_up": called.append}
            optimizer, variable = mpls.contrib.LossScaleOptimizer(SGD, manager, **options), tf.Variable(1.0)
            take_step(optimizer, variable, NAN)
            take_step(optimizer, variable, NAN)
            self.assertEqual([each.at_floor for each in called], [is_at_floor])

    def test_replicas_agree(self) -> None:
        strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
        with strategy.scope():
            manager = mpls.contrib.ExponentialUpdateLossScaleManager(8.0, 2, decr_every_n_nan_or_inf=1, decr_ratio=0.5)
            optimizer = mpls.contrib.LossScaleOptimizer(v1.train.GradientDescentOptimizer(0.25), manager)
            variable = v1.Variable(1.0, use_resource=True)

        @tf.function
        def step(factors: Any) -> None:
            def replica() -> None:
                index = int(tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group))
                optimizer.minimize(lambda: variable * factors[index], var_list=[variable])

            strategy.run(replica)

        for factors, weight, scale in (([1.0, 1.0], 0.5, 8.0), ([1.0, INF], 0.5, 4.0), ([1.0, 1.0], 0.0, 4.0)):
            step(tf.constant(factors))
            self.assertEqual([float(part) for part in strategy.experimental_local_results(variable)], [weight] * 2)
            scales = strategy.experimental_local_results(manager.get_loss_scale())
            self.assertEqual([float(part) for part in scales], [scale] * len(scales))

    @parameterized.expand(
        [
            ("no_optimizer", lambda: (None, mpls.contrib.FixedLossScaleManager(2)), "opt"),
            ("keras", lambda: (tf_keras.optimizers.SGD(), mpls.contrib.FixedLossScaleManager(2)), "opt"),
            ("number", lambda: (SGD, 4.0), "loss_scale_manager"),
            ("loss_scale", lambda: (SGD, mpls.v1.DynamicLossScale()), "loss_scale_manager"),
            ("option", lambda: (SGD, mpls.contrib.FixedLossScaleManager(2), "yes"), "count_steps"),
        ]
    )
    def test_refusals(self, name: str, arguments: Any, subject: str) -> None:
        opt, manager, *option = arguments()
        error = ValueError if subject == "opt" else TypeError
        with self.assertRaisesRegex(error, f"LossScaleOptimizer: {subject} must") as caught:
            mpls.contrib.LossScaleOptimizer(opt, manager, **({"count_steps": option[0]} if option else {}))
        self.assertIsInstance(caught.exception, MplsError)


def managed(optimizer: Any, decr: int = 2) -> Any:
    manager = mpls.contrib.ExponentialUpdateLossScaleManager(64.0, 100, decr_every_n_nan_or_inf=decr, decr_ratio=0.5)
    return mpls.contrib.LossScaleOptimizer(optimizer, manager)


MAKE = {
    "dynamic": managed,
    "fixed": lambda optimizer: mpls.contrib.LossScaleOptimizer(optimizer, mpls.contrib.FixedLossScaleManager(64.0)),
    "v1": lambda optimizer: mpls.v1.MixedPrecisionLossScaleOptimizer(optimizer, "dynamic"),
    "bare": lambda optimizer: optimizer,
}


class CheckpointTest(InFolder, unittest.TestCase):
    """`tf.train.Checkpoint` in eager mode: the next step is that of the run that was not interrupted."""

    def made(self, kind: str, *factors: float) -> tuple[Any, Any]:
        """Return an optimizer and its variable, after a step for each factor."""
        optimizer, variable = MAKE[kind](v1.train.AdamOptimizer(0.125)), tf.Variable(1.0)
        for factor in factors:
            take_step(optimizer, variable, factor)
        return optimizer, variable

    def saved(self, kind: str) -> tuple[str, Any, float]:
        """Return a checkpoint, the optimizer, and its variable after the next step."""
        optimizer, variable = self.made(kind, 3.0, *((INF,) if kind != "bare" else ()), 1.0)
        manager = {"manager": optimizer._loss_scale_manager} if kind in ("dynamic", "fixed") else {}
        path = tf.train.Checkpoint(variable=variable, optimizer=optimizer, **manager).save(f"{self.folder}/ckpt")
        return path, optimizer, take_step(optimizer, variable)

    @parameterized.expand([(kind, when) for kind in ("dynamic", "fixed") for when in ("before", "after", "deferred")])
    def test_next_step(self, kind: str, when: str) -> None:
        path, saved, expected = self.saved(kind)
        optimizer, variable = self.made(kind, *((5.0,) if when == "after" else ()))
        checkpoint = tf.train.Checkpoint()
        status = checkpoint.restore(path) if when == "deferred" else None
        checkpoint.optimizer, checkpoint.variable = optimizer, variable
        checkpoint.manager = optimizer._loss_scale_manager
        status = status or checkpoint.restore(path)
        self.assertEqual(take_step(optimizer, variable), expected)
        status.assert_consumed()
        self.assertEqual(optimizer.state_dict(), saved.state_dict())
        shown = "dynamic, now 64, good steps 1\n    options: bad_steps 1" if kind == "dynamic" else "fixed"
        self.assertIn(f"other state: beta1_power, beta2_power\n    loss scale: {shown}", inspect(path)[1])

    @parameterized.expand(["dynamic", "fixed"])
    def test_bare_optimizers(self, kind: str) -> None:
        path, _, expected = self.saved("bare")
        for steps in ((), (5.0,)):
            optimizer, variable = self.made(kind, *steps)
            warns = self.assertWarnsRegex(MplsWarning, "holds no loss scale.*stays at 64")
            with warns if kind == "dynamic" else contextlib.nullcontext():
                tf.train.Checkpoint(variable=variable, optimizer=optimizer).restore(path)
            self.assertEqual(take_step(optimizer, variable), expected)
        path, _, expected = self.saved(kind)
        optimizer, variable = self.made("bare")
        inside = tf.train.Checkpoint(base_optimizer=optimizer)
        tf.train.Checkpoint(variable=variable, optimizer=inside).restore(path).expect_partial()
        self.assertEqual(take_step(optimizer, variable), expected)

    def test_a_bare_optimizer_in_a_graph(self) -> None:
        path, _, _ = self.saved("bare")
        with tf.Graph().as_default():
            optimizer = MAKE["dynamic"](v1.train.AdamOptimizer(0.125))
            with self.assertWarnsRegex(MplsWarning, "holds no loss scale.*stays at 64"):
                tf.train.Checkpoint(optimizer=optimizer).restore(path)

    @parameterized.expand([("dynamic", "v1", "int64"), ("v1", "dynamic", "int32")])
    def test_scales_of_v1(self, source: str, target: str, dtype: str) -> None:
        path, _, _ = self.saved(source)
        optimizer, variable = self.made(target)
        with self.assertRaisesRegex(MplsError, f"{path}: .*/good_steps.* must be {dtype}"):
            tf.train.Checkpoint(variable=variable, optimizer=optimizer).restore(path)

    def saved_by_mpls_0_3(self, inner: Any, variable: Any) -> str:
        """Return a checkpoint that has only the slots, as those of the wrapper."""
        old = v1.train.Optimizer(False, inner.get_name())
        old.get_slot_names, old.get_slot = inner.get_slot_names, inner.get_slot
        path: str = tf.train.Checkpoint(variable=variable, optimizer=old).save(f"{self.folder}/ckpt")
        return path

    @parameterized.expand(["dynamic", "fixed", "v1"])
    def test_of_mpls_0_3(self, kind: str) -> None:
        path = self.saved_by_mpls_0_3(*self.made("bare", 1.0))
        optimizer, variable = self.made(kind)
        with self.assertWarnsRegex(MplsWarning, "not its beta powers, as mpls.contrib saved it up to mpls 0.3") as told:
            tf.train.Checkpoint(variable=variable, optimizer=optimizer).restore(path)
        self.assertEqual(sum("not its beta powers" in str(each.message) for each in told.warnings), 1)

    def test_of_mpls_0_3_of_an_optimizer_without_powers(self) -> None:
        optimizer, variable = MAKE["fixed"](v1.train.MomentumOptimizer(0.5, 0.5)), tf.Variable(1.0)
        inner = v1.train.MomentumOptimizer(0.5, 0.5)
        take_step(inner, variable)
        path = self.saved_by_mpls_0_3(inner, variable)
        tf.train.Checkpoint(variable=variable, optimizer=optimizer).restore(path)
        take_step(optimizer, variable)
        self.assertEqual(float(optimizer.get_slot(variable, "momentum")), 1.5)

    def test_managers_of_users(self) -> None:
        optimizers = [mpls.contrib.LossScaleOptimizer(v1.train.AdamOptimizer(), Own(scale)) for scale in (2.0, 4.0)]
        path = tf.train.Checkpoint(optimizer=optimizers[0]).save(f"{self.folder}/ckpt")
        tf.train.Checkpoint(optimizer=optimizers[1]).restore(path).assert_consumed()
        self.assertEqual(float(optimizers[1]._loss_scale_manager.scale), 2.0)
        with self.assertRaisesRegex(UndefinedMethodError, "^Own defines no state_dict"):
            optimizers[0].state_dict()
        with tf.Graph().as_default(), v1.Session() as session:
            manager = Own(2.0)
            mpls.contrib.LossScaleOptimizer(SGD, manager).minimize(tf.Variable(1.0) * 1.0)
            session.run(v1.global_variables_initializer())
            session.run(manager.scale.assign(8.0))
            saver = v1.train.Saver()
            path = saver.save(session, f"{self.folder}/ckpt")
            session.run(manager.scale.assign(1.0))
            saver.restore(session, path)
            self.assertEqual(session.run(manager.scale), 8.0)

    def test_a_manager_that_was_shared(self) -> None:
        first, second, *restored = (managed(v1.train.AdamOptimizer()) for _ in range(4))
        shares = mpls.contrib.LossScaleOptimizer(second._opt, first._loss_scale_manager)
        path = tf.train.Checkpoint(one=first, other=shares).save(f"{self.folder}/ckpt")
        with self.assertWarnsRegex(MplsWarning, r"other shared.*stays at 64\.0\..* or call load_state_dict\(\)"):
            tf.train.Checkpoint(one=restored[0], other=restored[1]).restore(path)

    def test_damaged_ones_of_a_manager(self) -> None:
        managers = [mpls.contrib.ExponentialUpdateLossScaleManager(8.0, 5) for _ in range(2)]
        for name, value in (("_loss_scale", NAN), ("_num_good_steps", 9), ("_num_bad_steps", -1)):
            kept = getattr(managers[0], name).numpy()
            getattr(managers[0], name).assign(value)
            path = tf.train.Checkpoint(manager=managers[0]).save(f"{self.folder}/ckpt")
            getattr(managers[0], name).assign(kept)
            key = {"_loss_scale": "current_loss_scale"}.get(name, name.removeprefix("_num_"))
            with self.subTest(name), self.assertRaisesRegex(MplsError, f"{path}: manager/{key}.* must be"):
                tf.train.Checkpoint(manager=managers[1]).restore(path)
        self.assertEqual(managers[1].state_dict(), managers[0].state_dict())

    def test_more_bad_steps_than_the_manager_waits_for(self) -> None:
        variable = tf.Variable(1.0)
        saved, optimizer = (managed(v1.train.AdamOptimizer(), decr) for decr in (3, 1))
        for _ in range(2):
            take_step(saved, variable, INF)
        path = tf.train.Checkpoint(optimizer=saved).save(f"{self.folder}/ckpt")
        tf.train.Checkpoint(optimizer=optimizer).restore(path)
        self.assertEqual(optimizer.state_dict()["bad_steps"], 2)
        take_step(optimizer, variable, INF)
        self.assertEqual(optimizer.state_dict()["scale"], 32.0)
