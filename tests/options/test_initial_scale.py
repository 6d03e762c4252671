"""An initial scale of `'auto'`: the highest scale that does not overflow is found in the first steps."""

from __future__ import annotations

import json
import pathlib
import pickle
import tempfile
import unittest
import warnings
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parameterized import parameterized

import mpls.experimental
import mpls.inspect
import mpls.keras
import mpls.v1
from mpls.core.rule import ScaleState, UpdateRule, next_state
from mpls.errors import MplsDeprecationWarning, SavedStateError

from .model import Model
from .trainers import CELLS, FAMILIES, RATE, REPLICAS, SESSION, SKIPS_COUNT, Trainer, trainer

v1 = tf.compat.v1
INF = float("inf")
START = 256.0
OTHERS: dict[str, dict[str, Any]] = {
    "alone": {},
    "bounds": {"min_scale": 512.0, "max_scale": 2.0**11},
    "factors": {"growth_factor": 4.0, "backoff_factor": 0.125},
    "hysteresis": {"hysteresis": 2},
    "in_a_row": {"hysteresis": 2, "consecutive_hysteresis": True},
    "adjustable": {"adjustable": True},
}
# Two searches, the second of which is over when it overflows, or at a ceiling; growth by the growth steps.
STEPS = [1.0] * 4 + [INF] * 2 + [1.0] * 33 + [INF] * 3 + [1.0] * 65 + [INF, 1.0]


class StepTest(unittest.TestCase):
    @parameterized.expand(
        [(f"{cell}_{others}", family, mode, others) for cell, family, mode in CELLS for others in OTHERS]
    )
    @pytest.mark.default_run("one case", by=lambda name, *values: values)
    def test_steps(self, name: str, family: str, mode: str, others: str) -> None:
        chosen = OTHERS[others]
        model = Model(START, 64, skip_counts_step=SKIPS_COUNT[family], search=1)
        for key, value in chosen.items():
            setattr(model, key, value)
        model.scale = max(START, model.min_scale)
        with trainer(family, mode, "auto", 64, count_steps=True, **chosen) as training:
            self.assertEqual(training.shown(), model.shown())
            for number, value in enumerate(STEPS):
                # What is wrong on one replica is wrong on all.
                training.take(value, only_on_last_replica=number % 2 == 0)
                model.step(value == 1.0)
                # Each look adds ops to a graph.
                if mode != SESSION or value == INF or number % 30 == 0:
                    self.assertEqual(training.shown(), model.shown(), number)
            state = training.opt.state_dict(training.session)
            self.assertEqual(state["search_steps"], model.search)
            summed = 2 if mode == REPLICAS else 1
            self.assertAlmostEqual(training.weight(), 1.0 - RATE * summed * model.applied)

    @parameterized.expand(CELLS)
    @pytest.mark.default_run("one case")
    def test_changes_while_training(self, name: str, family: str, mode: str) -> None:
        model = Model(START, 100, skip_counts_step=SKIPS_COUNT[family], search=1)
        with trainer(family, mode, "auto", 100, count_steps=True, adjustable=True) as training:
            opt, session = training.opt, training.session

            def take(*values: float) -> None:
                for value in values:
                    training.take(value)
                    model.step(value == 1.0)
                    self.assertEqual(training.shown(), model.shown())

            take(1.0, 1.0)
            # Bounds that move the scale leave the search as it is.
            for changes in ({"min_scale": 4096.0}, {"growth_steps": 3}, {"growth_steps": 500, "max_scale": 2.0**14}):
                opt.configure(**changes, session=session)
                model.configure(**changes)
                take(1.0)
            take(1.0, 1.0, INF)
            opt.configure(growth_steps=4, session=session)
            model.configure(growth_steps=4)
            take(1.0, 1.0, 1.0, 1.0)
            # A scale that the user sets is one that is found.
            opt.set_scale(8192, session=session)
            model.set_scale(8192.0)
            take(1.0, 1.0, 1.0, 1.0, INF, 1.0)
            self.assertEqual(opt.state_dict(session)["search_steps"], 2**30)

    @parameterized.expand([("v1", "eager"), ("legacy", SESSION), ("new", "xla"), ("keras3", "function")])
    @pytest.mark.default_run("one case")
    def test_a_ceiling_that_is_reached_ends_the_search(self, family: str, mode: str) -> None:
        with trainer(family, mode, "auto", 2000, max_scale=600) as training:
            for value in (1.0, 1.0, 1.0, INF, *[1.0] * 33):
                training.take(value)
            state = training.opt.state_dict(training.session)
            self.assertEqual((state["scale"], state["search_steps"]), (300.0, 2**30))

    def test_a_scale_that_is_set_in_the_search_ends_it(self) -> None:
        with trainer("new", "function", "auto", 100) as training:
            training.take(1.0)
            training.opt.set_scale(64)
            training.take(1.0)
            self.assertEqual(training.opt.state_dict()["scale"], 64.0)


def _burnt(family: str, initial: Any, limit: float, steps: int = 100) -> tuple[int, float]:
    """Return how many of the first steps are skipped where scales above a limit overflow, and the last scale."""
    with trainer(family, "eager", initial, 2000, count_steps=True) as training:
        for _ in range(steps):
            training.take(1.0 if training.shown()["scale"] <= limit else INF)
        shown = training.shown()
    return shown["skipped_steps"], shown["scale"]


class FoundTest(unittest.TestCase):
    @parameterized.expand(
        [(f"{family}_{power}", family, power) for family in FAMILIES for power in (5, 8, 12, 15, 20, 24)]
    )
    @pytest.mark.default_run("one case")
    def test_fewer_steps_are_skipped(self, name: str, family: str, power: int) -> None:
        skips, scale = _burnt(family, "auto", 2.0**power)
        self.assertEqual(scale, 2.0**power)
        # What overflows at the start; the first search, and one more.
        self.assertLessEqual(skips, max(0, 8 - power) + 2)
        from_above, scale = _burnt(family, 2.0**24, 2.0**power)
        self.assertEqual((from_above, scale), (24 - power, 2.0**power))

    @pytest.mark.matrix
    def test_float16(self) -> None:
        """Where the backward pass itself overflows."""
        inputs = np.random.default_rng(1).normal(size=(32, 16)).astype("float32")
        skipped = {}
        for initial in ("auto", 2.0**24):
            keras.utils.set_random_seed(1)
            model = tf_keras.Sequential(
                [
                    tf_keras.layers.Dense(16, "relu", input_shape=(16,), dtype="mixed_float16"),
                    tf_keras.layers.Dense(1, dtype="mixed_float16"),
                    tf_keras.layers.Activation("linear", dtype="float32"),
                ]
            )
            opt = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD(0.001), initial_scale=initial, count_steps=True)
            model.compile(opt, "mse")
            model.fit(inputs, inputs[:, :1], batch_size=8, epochs=25, shuffle=False, verbose=0)
            skipped[initial] = int(opt.skipped_steps)
            self.assertGreaterEqual(float(opt.loss_scale), 2.0**10)
        self.assertLessEqual(skipped["auto"], 3)
        self.assertGreaterEqual(skipped[2.0**24], 8)


class RuleTest(unittest.TestCase):
    @given(
        st.lists(st.booleans(), max_size=200),
        st.sampled_from([-5, 0, 1, 7, 32, 1024, 2**30, 2**62]),
        st.sampled_from([1, 2, 31, 32, 33, 100, 2000, 2**62]),
    )
    @settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def test_any_state_stays_in_its_bounds_and_ends(self, steps: list[bool], search: int, growth_steps: int) -> None:
        rule = UpdateRule(growth_steps, max_scale=2.0**20)
        state = ScaleState(START, 0, search_steps=search)
        for is_finite in steps:
            before, state = state, next_state(state, is_finite, rule)
            self.assertTrue(1.0 <= state.scale <= 2.0**20)
            self.assertGreaterEqual(
                state.search_steps, before.search_steps if is_finite else min(1, before.search_steps)
            )
            if not is_finite:
                self.assertGreater(state.search_steps, 1)


class StateTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def _trained(self, family: str, initial: Any = "auto", mode: str = "eager", **options: Any) -> Trainer:
        training = Trainer(family, mode, lambda: FAMILIES[family](initial, 2000, **options))
        for value in (1.0, 1.0, INF, 1.0):
            training.take(value)
        return training

    @parameterized.expand(list(FAMILIES))
    def test_configs(self, family: str) -> None:
        opt = FAMILIES[family]("auto", 2000, min_scale=512)
        if family == "v1":
            config = opt._loss_scale.get_config()
            self.assertEqual((config["initial_loss_scale"], opt._loss_scale.initial_loss_scale), ("auto", 512.0))
            again = mpls.v1.DynamicLossScale.from_config(json.loads(json.dumps(config)))
            self.assertEqual((again.get_config(), repr(again)), (config, repr(opt._loss_scale)))
            self.assertIn("initial_loss_scale=auto", repr(again))
            return
        config = opt.get_config()
        self.assertEqual((config["initial_scale"], opt.initial_scale), ("auto", 512.0))
        again = type(opt).from_config(json.loads(json.dumps(config)))
        self.assertEqual((again.get_config(), again.state_dict()), (config, opt.state_dict()))
        path = self.folder / "config.json"
        path.write_text(json.dumps(config))
        self.assertEqual(mpls.inspect.describe(path)["status"], "ok")
        self.assertEqual(FAMILIES[family](8.0, 2000).get_config()["initial_scale"], 8.0)

    @parameterized.expand([("2.2",), ("2.3",), ("2.4",)])
    def test_configs_of_releases(self, release: str) -> None:
        with mpls.install(as_of=release), warnings.catch_warnings():
            warnings.simplefilter("ignore", MplsDeprecationWarning)
            scale = mpls.experimental.DynamicLossScale("auto")
            opt = mpls.experimental.LossScaleOptimizer(tf_keras.optimizers.legacy.SGD(), scale)
            config = opt.get_config()
            again = type(opt).from_config(config)
            path = self.folder / "config.json"
            path.write_text(json.dumps(config))
            self.assertEqual(again.get_config(), config)
            self.assertEqual(again.state_dict()["search_steps"], 1)
        self.assertEqual(mpls.inspect.describe(path)["status"], "ok")

    @parameterized.expand(list(FAMILIES))
    def test_dicts(self, family: str) -> None:
        state = json.loads(json.dumps(self._trained(family).opt.state_dict()))
        self.assertEqual((state["scale"], state["search_steps"], state["good_steps"]), (512.0, 32, 1))
        again = FAMILIES[family]("auto", 2000)
        again.load_state_dict(state)
        self.assertEqual(again.state_dict(), state)
        # A state of a scale that does not search leaves the search as it is.
        again.load_state_dict({**FAMILIES[family](8.0, 2000).state_dict(), "scale": 16.0})
        self.assertEqual((again.state_dict()["scale"], again.state_dict()["search_steps"]), (16.0, 32))
        for bad in (-1, 1.5, "1"):
            with self.assertRaises(SavedStateError):
                again.load_state_dict({**state, "search_steps": bad})
        self.assertNotIn("search_steps", FAMILIES[family](8.0, 2000).state_dict())

    @parameterized.expand(list(FAMILIES))
    @pytest.mark.default_run("one case")
    def test_checkpoints_of_objects(self, family: str) -> None:
        training = self._trained(family)
        written = training.opt.state_dict()
        new, old = str(self.folder / "new"), str(self.folder / "old")
        tf.train.Checkpoint(opt=training.opt).write(new)
        plain = self._trained(family, 8.0)
        tf.train.Checkpoint(opt=plain.opt).write(old)
        again, fresh = self._trained(family), FAMILIES[family]("auto", 2000)
        again.take(INF)
        tf.train.Checkpoint(opt=again.opt).read(new).assert_consumed()
        tf.train.Checkpoint(opt=fresh).read(new)
        self.assertEqual((again.opt.state_dict(), fresh.state_dict()), (written, written))
        # Training goes on as it would have.
        for value in (*[1.0] * 31, INF):
            training.take(value)
            again.take(value)
        self.assertEqual(again.opt.state_dict(), training.opt.state_dict())
        # Without the search, and with it, the other's scale is taken.
        tf.train.Checkpoint(opt=plain.opt).read(new).expect_partial()
        self.assertEqual(plain.opt.state_dict()["scale"], written["scale"])
        tf.train.Checkpoint(opt=again.opt).read(old).expect_partial()
        self.assertEqual(again.opt.state_dict()["scale"], 4.0)

    @parameterized.expand([("v1",), ("legacy",)])
    @pytest.mark.default_run("one case")
    def test_savers(self, family: str) -> None:
        paths = {}
        for name, initial in (("old", 8.0), ("new", "auto")):
            with self._trained(family, initial, SESSION) as training:
                paths[name] = v1.train.Saver().save(training.session, str(self.folder / name))
                written = training.opt.state_dict(training.session)
        for name in paths:
            with self._trained(family, "auto", SESSION) as training:
                v1.train.Saver().restore(training.session, paths[name])
                state = training.opt.state_dict(training.session)
            self.assertEqual((state["scale"], state["search_steps"]), (512.0, 32) if name == "new" else (4.0, 1))
        self.assertEqual(written["search_steps"], 32)

    def test_pickles(self) -> None:
        opt = self._trained("keras3").opt
        self.assertEqual(pickle.loads(pickle.dumps(opt)).state_dict(), opt.state_dict())

    def test_a_graph_of_its_own(self) -> None:
        scale = mpls.v1.DynamicLossScale("auto", min_scale=1024)
        with tf.Graph().as_default(), v1.Session() as session:
            scale.update([tf.constant(1.0)])
            session.run(v1.global_variables_initializer())
            self.assertEqual(session.run(scale()), 1024.0)


class RefusedTest(unittest.TestCase):
    def test_other_strings(self) -> None:
        for value in ("Auto", "high", ""):
            for make in (FAMILIES["v1"], FAMILIES["new"]):
                with self.assertRaisesRegex(ValueError, "must be a number"):
                    make(value, 2)

    def test_a_fixed_scale(self) -> None:
        with self.assertRaisesRegex(ValueError, "initial_scale must be a number if dynamic is False"):
            mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD(), dynamic=False, initial_scale="auto")
        with self.assertRaises(ValueError):
            mpls.v1.FixedLossScale("auto")  # type: ignore[arg-type]

    def test_bounds_that_exclude_each_other(self) -> None:
        with self.assertRaisesRegex(ValueError, "max_scale must be at least min_scale"):
            FAMILIES["new"]("auto", 2, min_scale=8, max_scale=4)


if __name__ == "__main__":
    unittest.main()
