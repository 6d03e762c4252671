"""`set_scale` and `configure` at odd moments: from elsewhere, of restored and copied loss scales, and in files."""

from __future__ import annotations

import contextlib
import copy
import functools
import unittest
from typing import Any

import pytest
import tensorflow as tf
from parameterized import parameterized

import mpls.v1
from mpls.errors import MplsWarning, TrainingStuckError
from tests.folders import InFolder

from .trainers import FAMILIES, SCALE_SETTINGS, Trainer

v1 = tf.compat.v1
INF = float("inf")


class ElsewhereTest(unittest.TestCase):
    @parameterized.expand(["v1", "legacy"])
    def test_a_session_may_be_passed_outside_of_its_graph(self, family: str) -> None:
        options = {"adjustable": True, "track_overflows": True, "max_consecutive_skips": 1}
        session, other = (v1.Session(graph=tf.Graph()) for _ in range(2))
        self.addCleanup(session.close)
        self.addCleanup(other.close)
        with session.graph.as_default():
            opt, weight = FAMILIES[family](8.0, 2, **options), v1.get_variable("w", initializer=1.0, use_resource=True)
            op = opt.minimize(weight * INF) if family == "v1" else opt.get_updates(weight * INF, [weight])
            session.run(v1.global_variables_initializer())
            for _ in range(2):
                with contextlib.suppress(tf.errors.InvalidArgumentError):
                    session.run(op)
        self.assertEqual([each.count for each in opt.overflow_report(session)], [2])
        with self.assertRaisesRegex(TrainingStuckError, "2 steps in a row"):
            opt.check_skips(session)
        opt.set_scale(4, session=session)
        opt.configure(max_scale=2, session=session)
        opt.load_state_dict({**opt.state_dict(session), "skipped_steps": 7}, session)
        state = opt.state_dict(session)
        self.assertEqual([state[name] for name in ("scale", "max_scale", "skipped_steps")], [2.0, 2.0, 7])
        for method in ("overflow_report", "check_skips", "set_scale", "configure"):
            call = functools.partial(getattr(opt, method), *([2] if method == "set_scale" else []))
            for given, place in ((None, "eager mode"), (other, "this graph, in which it was not used")):
                with self.assertRaisesRegex(RuntimeError, rf"^{method}\(\) must be called for .* got {place}"):
                    call(session=given)

    @parameterized.expand([("adjustable", True), ("constants", None)])
    def test_a_replica_changes_nothing(self, name: str, adjustable: bool | None) -> None:
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        with strategy.scope():
            opt = FAMILIES["new"](8.0, 2, adjustable=adjustable)
        before = opt.get_config(), opt.state_dict()
        for call, method in (
            (lambda: opt.set_scale(4), "set_scale"),
            (lambda: opt.configure(growth_steps=7, max_scale=99), "configure"),
        ):
            with self.assertRaisesRegex(ValueError, rf"^{method}\(\) must be called outside of the function"):
                strategy.run(call)
        self.assertEqual((opt.get_config(), opt.state_dict()), before)

    def test_a_copy_is_not_built_in_where_the_original_is(self) -> None:
        loss_scale = mpls.v1.DynamicLossScale(8.0, 2)
        tf.function(loss_scale.update)([tf.constant(1.0)])
        for again in (copy.deepcopy(loss_scale), copy.copy(loss_scale)):
            again.configure(growth_steps=5)
            self.assertEqual(again.get_config()["increment_period"], 5)

    def test_errors_name_the_method(self) -> None:
        for adjustable in (True, None):
            scale = mpls.v1.DynamicLossScale(8.0, adjustable=adjustable)
            calls = {"set_scale": lambda: scale.set_scale(4), "configure": lambda: scale.configure(min_scale=2)}  # noqa: B023
            for method, call in calls.items():
                with self.assertRaisesRegex(RuntimeError, rf"^{method}\(\) must be called outside of tf.function"):
                    tf.function(call)()
                if method == "set_scale" or adjustable:
                    message = rf"^{method}\(\) needs a session"
                    with tf.Graph().as_default(), self.assertRaisesRegex(RuntimeError, message):
                        call()


class GrowthStepsTest(InFolder, unittest.TestCase):
    def test_fewer_than_were_counted(self) -> None:
        opt = FAMILIES["new"](8.0, 5)
        opt.load_state_dict({**opt.state_dict(), "good_steps": 4})
        opt.configure(growth_steps=2)
        self.assertEqual(opt.state_dict()["good_steps"], 1)

    @parameterized.expand([(family, way) for family in FAMILIES for way in ("checkpoint", "state_dict")])
    def test_what_was_restored_is_shown(self, family: str, way: str) -> None:
        changes = {"growth_steps": 50, "growth_factor": 4.0, "min_scale": 16.0, "max_scale": 32.0, "hysteresis": 3}
        saved, opt = (FAMILIES[family](8.0, 5, adjustable=True) for _ in range(2))
        saved.configure(**changes)
        # More than the other one's growth steps.
        saved.load_state_dict({**saved.state_dict(), "good_steps": 20})
        if way == "checkpoint":
            path = tf.train.Checkpoint(opt=saved).write(str(self.folder / "saved"))
            tf.train.Checkpoint(opt=opt).read(path).assert_existing_objects_matched()
        else:
            opt.load_state_dict(saved.state_dict())
        self.assertEqual(opt.state_dict(), saved.state_dict())
        for owner in (opt, opt._loss_scale):
            self.assertEqual({name: getattr(owner, name) for name in changes}, changes)
        described = opt._loss_scale if family == "v1" else opt
        config = described.get_config()
        # What nobody has changed stays as it was: the backoff factor is still half by default, and not 0.5 by choice.
        given = {
            name: config[name] for name in (*SCALE_SETTINGS, "initial_scale", "initial_loss_scale") if name in config
        }
        first = "initial_loss_scale" if family == "v1" else "initial_scale"
        expected = {name: value for name, value in changes.items() if name != "growth_steps"}
        self.assertEqual(given, {**expected, "adjustable": True, first: 16.0})
        again = type(described).from_config(config).state_dict()
        self.assertEqual(again, {**opt.state_dict(), "scale": 16.0, "good_steps": 0})


class PairsTest(unittest.TestCase):
    """A state of an optimizer with some options, loaded by one with others."""

    @parameterized.expand(FAMILIES)
    def test_what_both_have_is_loaded(self, family: str) -> None:
        options = {"hysteresis": 2, "min_scale": 0.5, "count_steps": True}
        plain, other = FAMILIES[family](8.0, 2000), FAMILIES[family](8.0, 2000, **options)
        changes = {"scale": 4.0, "good_steps": 3}
        other.load_state_dict({**other.state_dict(), **changes, "bad_steps": 1, "skipped_steps": 5})
        state, wanted = other.state_dict(), {**plain.state_dict(), **changes}
        with self.assertWarnsRegex(MplsWarning, r"min_scale=0\.5 \(of min_scale\)") as caught:
            plain.load_state_dict(state)
        self.assertIn("hysteresis=2 (of hysteresis)", str(caught.warning))
        self.assertIn("skipped_steps=5 (of count_steps=True)", str(caught.warning))
        self.assertEqual(len(caught.warnings), 1)
        self.assertEqual(plain.state_dict(), wanted)
        # Where the options are, what the state does not have stays.
        other.load_state_dict({**wanted, "scale": 2.0})
        self.assertEqual(other.state_dict(), {**state, "scale": 2.0})

    @parameterized.expand([(family,) for family in FAMILIES])
    @pytest.mark.default_run("one case")
    def test_other_keys_are_errors(self, family: str) -> None:
        opt = FAMILIES[family](8.0, 2000)
        before = opt.state_dict()
        for change, message in (
            ({"unheard": 1, "applied_steps": 3}, "must have the keys"),
            ({"growth_steps": 5, "applied_steps": 3}, "growth_steps must be 2000"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                opt.load_state_dict({**before, "scale": 2.0, **change})
            self.assertEqual(opt.state_dict(), before)


class ReplacedTest(InFolder, unittest.TestCase):
    """Bounds in the code that an adjustable scale's checkpoint replaces."""

    @parameterized.expand([(family,) for family in FAMILIES])
    @pytest.mark.default_run("one case")
    def test_a_checkpoint(self, family: str) -> None:
        bounds = {"min_scale": 0.5, "max_scale": 64.0}
        saved, opt, same = (
            FAMILIES[family](8.0, 5, adjustable=True, **each)
            for each in (bounds, {**bounds, "max_scale": 32.0}, bounds)
        )
        path = tf.train.Checkpoint(opt=saved).write(f"{self.folder}/saved")
        message = r"max_scale=64\.0 is taken from the checkpoint, .* max_scale=32\.0\. .*configure\(max_scale=32\.0\)"
        with self.assertWarnsRegex(MplsWarning, message) as caught:
            tf.train.Checkpoint(opt=opt).read(path)
            opt.state_dict()
        self.assertEqual(len(caught.warnings), 1)
        self.assertEqual(opt.max_scale, 64.0)
        opt.configure(max_scale=32)
        # It is said once of each bound; and nothing where they agree.
        tf.train.Checkpoint(opt=opt).read(path)
        opt.configure(min_scale=0.25)
        with self.assertWarnsRegex(MplsWarning, r"min_scale=0\.5 is taken from the checkpoint"):
            tf.train.Checkpoint(opt=opt).read(path)
        opt.configure(min_scale=0.25, max_scale=32)
        tf.train.Checkpoint(opt=opt).read(path)
        tf.train.Checkpoint(opt=same).read(path)

    @parameterized.expand([("v1",), ("legacy",), ("experimental",)])
    def test_a_saver(self, family: str) -> None:
        def make(most: float) -> Any:
            return FAMILIES[family](8.0, 5, adjustable=True, max_scale=most)

        with Trainer(family, "session", lambda: make(64.0)) as training:
            path = v1.train.Saver().save(training.session, f"{self.folder}/saved")
        with Trainer(family, "session", lambda: make(32.0)) as training:
            text = "saved: .*max_scale.*: max_scale=64.0 is taken from the checkpoint"
            with self.assertWarnsRegex(MplsWarning, text) as caught:
                v1.train.Saver().restore(training.session, path)
            self.assertEqual(len(caught.warnings), 1)
            self.assertEqual(training.opt.state_dict(training.session)["max_scale"], 64.0)
