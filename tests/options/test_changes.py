"""`set_scale` and `configure` at odd moments: from elsewhere, of restored and copied loss scales, and in files."""

from __future__ import annotations

import contextlib
import copy
import itertools
import pathlib
import sys
import tempfile
import threading
import unittest
import warnings
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.contrib
import mpls.experimental
import mpls.keras
import mpls.v1
from mpls.errors import MplsWarning, TrainingStuckError

from .trainers import FAMILIES, RATE, SCALE_SETTINGS, Trainer

v1 = tf.compat.v1
INF = float("inf")


class ElsewhereTest(unittest.TestCase):
    @parameterized.expand(["v1", "legacy", "experimental", "contrib"])
    @pytest.mark.default_run("one case")
    def test_a_session_may_be_passed_outside_of_its_graph(self, family: str) -> None:
        options = {"track_overflows": True, "max_consecutive_skips": 1}

        def make() -> Any:
            if family != "contrib":
                return FAMILIES[family](8.0, 2, adjustable=True, **options)
            inner = v1.train.GradientDescentOptimizer(0.25)
            manager = mpls.contrib.ExponentialUpdateLossScaleManager(8.0, 5)
            return mpls.contrib.LossScaleOptimizer(inner, manager, on_give_up="warn", **options)

        graph = tf.Graph()
        session, other = v1.Session(graph=graph), v1.Session(graph=tf.Graph())
        self.addCleanup(session.close)
        self.addCleanup(other.close)
        with graph.as_default():
            opt, weight = make(), v1.get_variable("weight", initializer=1.0, use_resource=True)
            loss = weight * INF
            is_keras = family in ("legacy", "experimental")
            op = opt.get_updates(loss, [weight]) if is_keras else opt.minimize(loss, var_list=[weight])
            session.run(v1.global_variables_initializer())
            for _ in range(2):
                with contextlib.suppress(tf.errors.InvalidArgumentError):
                    session.run(op)
            inside = opt.overflow_report(session), opt.state_dict(session)
        self.assertEqual([each.count for each in inside[0]], [2])
        self.assertEqual((opt.overflow_report(session), opt.state_dict(session)), inside)
        if family == "contrib":
            opt.load_state_dict({**inside[1], "skipped_steps": 7}, session)
            self.assertEqual(opt.state_dict(session)["skipped_steps"], 7)
            with self.assertWarnsRegex(MplsWarning, "2 steps in a row"):
                opt.check_skips(session)
        else:
            with self.assertRaisesRegex(TrainingStuckError, "2 steps in a row"):
                opt.check_skips(session)
            opt.set_scale(4, session)
            self.assertEqual(opt.state_dict(session)["scale"], 4.0)
        calls = {"overflow_report": opt.overflow_report, "check_skips": opt.check_skips}
        if family != "contrib":
            calls["set_scale"] = lambda session=None: opt.set_scale(2, session)
            calls["configure"] = lambda session=None: opt.configure(growth_factor=3, session=session)
        for method, call in calls.items():
            for given, place in ((None, "eager mode"), (other, "this graph, in which it was not used")):
                with self.assertRaisesRegex(RuntimeError, rf"^{method}\(\) must be called for .* got {place}"):
                    call(session=given)
            if family not in ("legacy", "experimental"):
                with graph.as_default(), self.assertRaisesRegex(RuntimeError, rf"^{method}\(\) needs a session in"):
                    call()
        self.assertEqual(other.graph.get_operations(), [])

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

    def test_errors_name_the_method(self) -> None:
        loss_scale = mpls.v1.DynamicLossScale(8.0, adjustable=True)
        calls = {"set_scale": lambda: loss_scale.set_scale(4), "configure": lambda: loss_scale.configure(min_scale=2)}
        for method, call in calls.items():
            with self.assertRaisesRegex(RuntimeError, rf"^{method}\(\) must be called outside of tf.function"):
                tf.function(call)()
            with tf.Graph().as_default(), self.assertRaisesRegex(RuntimeError, rf"^{method}\(\) needs a session"):
                call()

    @pytest.mark.matrix
    def test_an_eager_step_of_another_thread_does_not_undo_a_change(self) -> None:
        loss_scale = mpls.v1.DynamicLossScale(2.0**15, 1)
        finite, infinite = [tf.constant(1.0)], [tf.constant(INF)]
        stopped = threading.Event()

        def train() -> None:
            while not stopped.is_set():
                loss_scale.update(finite)
                loss_scale.update(infinite)

        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        thread = threading.Thread(target=train)
        thread.start()
        try:
            for _ in range(3000):
                loss_scale.set_scale(2.0**15)
                loss_scale.set_scale(2.0**10)
                # The steps double and halve it in turns.
                self.assertLessEqual(float(loss_scale()), 2.0**12)
        finally:
            stopped.set()
            thread.join()
            sys.setswitchinterval(before)

    def test_a_copy_is_not_built_in_where_the_original_is(self) -> None:
        loss_scale = mpls.v1.DynamicLossScale(8.0, 2)
        tf.function(loss_scale.update)([tf.constant(1.0)])
        for again in (copy.deepcopy(loss_scale), copy.copy(loss_scale)):
            again.configure(growth_steps=5)
            self.assertEqual(again.get_config()["increment_period"], 5)


MAKE = {"legacy": tf_keras.optimizers.legacy.SGD, "new": tf_keras.optimizers.SGD, "keras3": keras.optimizers.SGD}


def model_of(family: str, growth_steps: int) -> Any:
    framework = keras if family == "keras3" else tf_keras
    model = framework.Sequential([framework.layers.Input([2]), framework.layers.Dense(1)])
    opt = mpls.keras.LossScaleOptimizer(
        MAKE[family](RATE), initial_scale=8, dynamic_growth_steps=growth_steps, adjustable=True
    )
    model.compile(opt, "mse", jit_compile=False)
    return model


def train(model: Any, steps: int) -> None:
    for _ in range(steps):
        model.train_on_batch(np.zeros([2, 2], np.float32), np.zeros([2, 1], np.float32))


def shown_settings(opt: Any) -> dict[str, Any]:
    """Return the settings that the attributes and the config show, by the names of `configure`."""
    loss_scale = opt._loss_scale
    config = loss_scale.get_config()
    shown = {
        "initial_scale": config.pop("initial_loss_scale"),
        "growth_steps": config.pop("increment_period"),
        **config,
    }
    assert (loss_scale.initial_loss_scale, loss_scale.increment_period) == (
        shown["initial_scale"],
        shown["growth_steps"],
    )
    if hasattr(opt, "initial_scale"):
        own = opt.get_config()
        assert (opt.initial_scale, opt.dynamic_growth_steps) == (shown["initial_scale"], shown["growth_steps"])
        assert (own["initial_scale"], own["dynamic_growth_steps"]) == (shown["initial_scale"], shown["growth_steps"])
        assert {name: own[name] for name in own if name in SCALE_SETTINGS} == {
            name: config[name] for name in config if name != "multiplier"
        }
    return shown


def again_of(opt: Any) -> dict[str, Any]:
    """Return the state that a loss scale begins with which is made from the config of another."""
    state = opt._loss_scale.state_dict()
    return {**state, "scale": opt._loss_scale.initial_loss_scale, "good_steps": 0}


class GrowthStepsTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def _saved_and_loaded(self, model: Any, suffix: str) -> Any:
        path = str(self.folder / f"model{suffix}")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "You are saving your model as an HDF5 file", UserWarning)
            warnings.filterwarnings("ignore", ".*does not hold the optimizer's iterations", MplsWarning)
            mpls.keras.save_model(model, path)
            return mpls.keras.load_model(path)

    @parameterized.expand([(family, way) for family in FAMILIES for way in ("checkpoint", "state_dict")])
    def test_what_was_restored_is_shown(self, family: str, way: str) -> None:
        changes = {"growth_steps": 50, "growth_factor": 4.0, "min_scale": 16.0, "max_scale": 32.0, "hysteresis": 3}
        saved, opt = (FAMILIES[family](8.0, 5, adjustable=True) for _ in range(2))
        saved.configure(**changes)
        # More than the other one's growth steps.
        saved.load_state_dict({**saved.state_dict(), "good_steps": 20})
        wanted = shown_settings(opt)
        self.assertEqual(wanted["growth_steps"], 5)
        path = tf.train.Checkpoint(opt=saved).write(str(self.folder / "saved"))
        if way == "checkpoint":
            tf.train.Checkpoint(opt=opt).read(path).assert_existing_objects_matched()
        else:
            opt.load_state_dict(saved.state_dict())
        # What nobody has changed stays as it was: the backoff factor is still half by default, and not 0.5 by choice.
        self.assertEqual(shown_settings(opt), {**wanted, **changes, "initial_scale": 16.0})
        self.assertEqual(opt.state_dict(), saved.state_dict())
        self.assertIn("max_scale=32.0", repr(opt._loss_scale))
        self.assertIn("increment_period=50", repr(opt._loss_scale))
        again = type(opt._loss_scale).from_config(opt._loss_scale.get_config()) if family == "v1" else None
        if again is None:
            again = type(opt).from_config(opt.get_config())._loss_scale
        self.assertEqual(again.state_dict(), again_of(opt))

    @parameterized.expand([(family, suffix) for family in MAKE for suffix in (".keras", ".h5")])
    @pytest.mark.default_run("one case")
    def test_what_was_restored_is_in_a_model_that_is_saved_afterwards(self, family: str, suffix: str) -> None:
        model, restored = model_of(family, 50), model_of(family, 5)
        train(model, 20)
        train(restored, 1)
        path = tf.train.Checkpoint(opt=model.optimizer).write(str(self.folder / "saved"))
        tf.train.Checkpoint(opt=restored.optimizer).read(path).expect_partial()
        loaded = self._saved_and_loaded(restored, suffix)
        self.assertEqual(loaded.optimizer.state_dict(), model.optimizer.state_dict())
        self.assertEqual(loaded.optimizer.dynamic_growth_steps, 50)


OPTIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "floor": {"min_scale": 0.5},
    "ceiling": {"max_scale": 64.0},
    "lower_ceiling": {"max_scale": 32.0},
    "growth": {"growth_factor": 4.0},
    "backoff": {"backoff_factor": 0.25},
    "hysteresis": {"hysteresis": 2},
    "in_a_row": {"hysteresis": 2, "consecutive_hysteresis": True},
    "adjustable": {"adjustable": True},
    "adjustable_ceiling": {"adjustable": True, "max_scale": 16.0},
    "counted": {"count_steps": True},
    "tracked": {"track_overflows": True},
    "gives_up": {"max_consecutive_skips": 3},
    "unscaled": {"check_unscaled": True},
    "told": {"skip_counts_step": True},
    "disabled": {"enabled": False},
}
# Keys that only options bring, and what messages say of the option.
OF_KEYS = {
    "bad_steps": "hysteresis=2 or adjustable=True",
    "search_steps": "initial_scale='auto'",
    **dict.fromkeys(("applied_steps", "skipped_steps", "consecutive_skips"), "count_steps=True"),
    **{name: name for name in SCALE_SETTINGS},
}


class PairsTest(unittest.TestCase):
    """A state of an optimizer with some options, loaded by one with others."""

    @parameterized.expand([(family,) for family in FAMILIES])
    @pytest.mark.default_run("one case")
    def test_what_both_have_is_loaded(self, family: str) -> None:
        states = {"auto": FAMILIES[family]("auto", 2000).state_dict()}
        for name, options in OPTIONS.items():
            opt = FAMILIES[family](8.0, 2000, **options)
            opt.load_state_dict({**opt.state_dict(), "scale": 4.0, "good_steps": 3})
            states[name] = opt.state_dict()
        for (saved, state), (loaded, options) in itertools.product(states.items(), OPTIONS.items()):
            with self.subTest(saved=saved, loaded=loaded):
                opt = FAMILIES[family](8.0, 2000, **options)
                before = opt.state_dict()
                variables = {*opt._loss_scale._initial_extras(), "scale", "good_steps", "applied_steps"}
                surplus = [
                    name for name in state if name in OF_KEYS and not (name in before and state[name] == before[name])
                ]
                surplus = [name for name in surplus if name not in variables]
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always", MplsWarning)
                    opt.load_state_dict(state)
                texts = [str(each.message) for each in caught]
                self.assertEqual(len(texts), bool(surplus), texts)
                for name in surplus:
                    self.assertIn(f"{name}={state[name]!r} (of {OF_KEYS[name]})", texts[0])
                after = opt.state_dict()
                wanted = {name: state.get(name, before[name]) for name in before}
                constants = {name: before[name] for name in before if name in surplus or name == "initial_scale"}
                bounds = {name: after[name] for name in ("initial_scale",)}
                self.assertEqual(after, {**wanted, **constants, **bounds})

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


class ReplacedTest(unittest.TestCase):
    """Bounds in the code that an adjustable scale's checkpoint replaces."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

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
        # It is said once; and nothing where they agree.
        tf.train.Checkpoint(opt=opt).read(path)
        tf.train.Checkpoint(opt=same).read(path)

    @parameterized.expand([("v1",), ("legacy",), ("experimental",)])
    @pytest.mark.default_run("one case")
    def test_a_saver(self, family: str) -> None:
        def make(most: float) -> Any:
            return FAMILIES[family](8.0, 5, adjustable=True, max_scale=most)

        with Trainer(family, "session", lambda: make(64.0)) as training:
            path = v1.train.Saver().save(training.session, f"{self.folder}/saved")
        with Trainer(family, "session", lambda: make(32.0)) as training:
            with self.assertWarnsRegex(MplsWarning, "max_scale=64.0 is taken from the checkpoint") as caught:
                v1.train.Saver().restore(training.session, path)
            self.assertEqual(len(caught.warnings), 1)
            self.assertEqual(training.opt.state_dict(training.session)["max_scale"], 64.0)
