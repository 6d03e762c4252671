"""Bounds, factors and hysteresis, and changes of them while training goes on, in every family and mode."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import tempfile
import unittest
from typing import Any

import pytest
import tensorflow as tf
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from parameterized import parameterized

import mpls.contrib
import mpls.experimental
import mpls.keras
import mpls.v1

from .model import MAX, Model
from .trainers import CELLS, FAMILIES, MODES, SKIPS_COUNT, Trainer, trainer

INF, NAN = float("inf"), float("nan")


CHANGED: dict[str, float] = {
    "growth_steps": 3,
    "growth_factor": 4.0,
    "backoff_factor": 0.25,
    "min_scale": 2.0,
    "max_scale": 64.0,
    "hysteresis": 3,
}
# Bounds that exclude a restored scale of 64, and the bound to which it is moved.
RESTORED: list[tuple[dict[str, float], float]] = [({"max_scale": 12.0}, 12.0), ({"min_scale": 256.0}, 256.0)]


def is_finite(value: float) -> bool:
    return value == 1.0


class WithoutOptionsTest(unittest.TestCase):
    @parameterized.expand(FAMILIES)
    def test_the_state_is_as_before(self, family: str) -> None:
        with trainer(family, "eager", 8.0, 2) as training:
            state = training.opt.state_dict()
            expected = {"dynamic", "scale", "good_steps", "initial_scale", "growth_steps", "multiplier"}
            self.assertEqual(state.keys(), expected)
            with self.assertRaisesRegex(AttributeError, "count_steps=True"):
                _ = training.opt.skipped_steps
            self.assertFalse(hasattr(training.opt, "last_step_applied"))

    @parameterized.expand(FAMILIES)
    @pytest.mark.default_run("one case")
    def test_what_is_built_already_is_not_changed_unless_it_was_asked_for(self, family: str) -> None:
        with trainer(family, "function", 8.0, 2) as training:
            training.opt.configure(growth_steps=1)
            training.take(1.0)
            self.assertEqual(training.opt.state_dict()["scale"], 16.0)
            with self.assertRaisesRegex(RuntimeError, "adjustable=True"):
                training.opt.configure(growth_steps=5)
            training.take(1.0)
            self.assertEqual(training.opt.state_dict()["scale"], 32.0)
            # The scale itself is always a variable.
            training.opt.set_scale(2)
            training.take(INF)
            self.assertEqual(training.opt.state_dict()["scale"], 1.0)

    def test_a_graph_is_not_changed_either(self) -> None:
        for family in ("v1", "legacy"):
            with trainer(family, "session", 8.0, 2) as training:
                with self.assertRaisesRegex(RuntimeError, "adjustable=True"):
                    training.opt.configure(growth_steps=5, session=training.session)
                training.opt.set_scale(2, session=training.session)
                self.assertEqual(training.opt.state_dict(training.session)["scale"], 2.0)

    @parameterized.expand([(f"{family}_{mode}", family, mode) for family in MODES for mode in ("eager", "function")])
    @pytest.mark.default_run("one case", by=lambda name, *values: values)
    def test_a_step_moves_a_restored_scale_between_the_bounds(self, name: str, family: str, mode: str) -> None:
        with tempfile.TemporaryDirectory() as folder, trainer(family, "eager", 64.0, 40) as old:
            old.opt.state_dict()
            path = tf.train.Checkpoint(opt=old.opt).write(f"{folder}/ckpt")
            saved = old.opt.state_dict()
            cases = itertools.product(("checkpoint", "state_dict"), (False, True), (1.0, INF), RESTORED)
            for way, adjustable, value, (bounds, bound) in cases:
                settings = {**bounds, "adjustable": adjustable}
                with (
                    self.subTest(way, value=value, **settings),
                    trainer(family, mode, bound, 40, hysteresis=2, **settings) as training,
                ):
                    training.opt.state_dict()
                    if way == "checkpoint":
                        tf.train.Checkpoint(opt=training.opt).read(path)
                    else:
                        training.opt.load_state_dict(saved)
                    training.take(value)
                    self.assertEqual(training.opt.state_dict()["scale"], bound)

    def test_a_config_has_no_consecutive_hysteresis_that_has_no_effect(self) -> None:
        loss_scale = mpls.v1.DynamicLossScale(hysteresis=2, consecutive_hysteresis=True)
        loss_scale.configure(hysteresis=1)
        again = mpls.v1.DynamicLossScale.from_config(loss_scale.get_config())
        self.assertEqual(again.get_config(), mpls.v1.DynamicLossScale().get_config())

    @parameterized.expand([("eager",), ("function",), ("session",)])
    def test_finite_steps_count_beside_hysteresis_in_a_row(self, mode: str) -> None:
        with trainer("v1", mode, 8.0, 3, hysteresis=2, consecutive_hysteresis=True) as training:
            for value in (INF, 1.0, 1.0, 1.0):
                training.take(value)
            self.assertEqual(training.opt.state_dict(training.session)["scale"], 16.0)

    def test_hysteresis_can_be_set_to_one_and_back(self) -> None:
        model = Model(64.0, 40, hysteresis=2)
        with trainer("v1", "eager", 64.0, 40, hysteresis=2) as training:
            for hysteresis in (1, 2, 1, 3):
                training.opt.configure(hysteresis=hysteresis)
                model.configure(hysteresis=hysteresis)
                for value in (INF, INF, 1.0, INF):
                    training.take(value)
                    model.step(is_finite(value))
                    self.assertEqual(training.opt.state_dict()["scale"], model.scale)

    @parameterized.expand(FAMILIES)
    def test_the_config_after_new_bounds_loads(self, family: str) -> None:
        for adjustable in (True, False):
            opt = FAMILIES[family](1024.0, 2, adjustable=adjustable)
            opt.configure(max_scale=16)
            described = opt._loss_scale if family == "v1" else opt
            again = type(described).from_config(described.get_config())
            self.assertEqual(again.get_config(), described.get_config())
            self.assertEqual(again.state_dict()["scale"], 16.0)


class AttributesTest(unittest.TestCase):
    """Settings are attributes of wrappers and loss scales; setting one is `configure`, or an error."""

    @parameterized.expand([cell for cell in CELLS if cell[2] in ("eager", "session")])
    @pytest.mark.default_run("each value", by=lambda name, *values: values)
    def test_setting_one_is_configure(self, name: str, family: str, mode: str) -> None:
        with trainer(family, mode, 8.0, 40, adjustable=True) as training:
            stack = training.session.as_default() if training.session else contextlib.nullcontext()
            with stack:
                for owner in (training.opt, training.opt._loss_scale):
                    for setting, value in CHANGED.items():
                        before = getattr(owner, setting)
                        setattr(owner, setting, value)
                        found = [getattr(each, setting) for each in (training.opt, training.opt._loss_scale)]
                        self.assertEqual(found, [value, value])
                        self.assertEqual(training.opt.state_dict()[setting], value)
                        owner.configure(**{setting: before})
                        self.assertEqual(getattr(owner, setting), before)
                training.opt.max_scale = 4.0
                self.assertEqual(training.opt.state_dict()["scale"], 4.0)
                self.assertEqual((training.opt.adjustable, training.opt.consecutive_hysteresis), (True, False))

    @parameterized.expand([*FAMILIES, "contrib"])
    def test_no_argument_of_a_constructor_is_set_without_effect(self, family: str) -> None:
        manager = mpls.contrib.ExponentialUpdateLossScaleManager(8.0, 100, incr_ratio=4.0)
        inner = tf.compat.v1.train.GradientDescentOptimizer(0.1)
        opt = mpls.contrib.LossScaleOptimizer(inner, manager) if family == "contrib" else FAMILIES[family](8.0, 100)
        classes = (
            mpls.keras.LossScaleOptimizer,
            mpls.experimental.LossScaleOptimizer,
            mpls.contrib.LossScaleOptimizer,
            mpls.v1.MixedPrecisionLossScaleOptimizer,
            mpls.v1.DynamicLossScale,
        )
        parameters = [each for cls in classes for each in inspect.signature(cls).parameters.values()]
        names = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
        # A name can be set on each optimizer of Keras, and only these share their scale.
        names -= {"name", "share_scale_with"} if family in ("v1", "contrib") else {"name"}
        changed = {"min_scale": 0.5, "max_scale": 64.0, "growth_factor": 3.0, "backoff_factor": 0.25}
        for name in sorted(names):
            with self.subTest(name):
                before = getattr(opt, name, None)
                value = changed.get(name, 3)
                if name in changed and family != "contrib":
                    setattr(opt, name, value)
                    self.assertEqual(getattr(opt, name), value)
                    continue
                if name == "hysteresis" and family != "contrib":
                    with self.assertRaisesRegex(RuntimeError, "nothing counts for"):
                        setattr(opt, name, value)
                    continue
                with self.assertRaisesRegex(AttributeError, f"{name} must (be given to the constructor|not be set)"):
                    setattr(opt, name, value)
                self.assertEqual(hasattr(opt, name), name != "share_scale_with")
                self.assertEqual(getattr(opt, name, None), before)
        self.assertEqual((opt.skip_nonfinite, opt.enabled), (True, True))
        self.assertEqual(opt.growth_factor, 4.0 if family == "contrib" else 3.0)

    def test_a_fixed_scale_has_none(self) -> None:
        opt = mpls.v1.MixedPrecisionLossScaleOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.1), 8)
        self.assertEqual((opt.max_scale, opt.skip_nonfinite), (None, False))
        for call in (
            lambda: setattr(opt, "max_scale", 8.0),
            lambda: opt.set_scale(4),
            lambda: opt.configure(growth_steps=4),
        ):
            with self.assertRaisesRegex(TypeError, "needs a dynamic loss scale"):
                call()

    def test_those_of_a_manager_can_be_read(self) -> None:
        manager = mpls.contrib.ExponentialUpdateLossScaleManager(8.0, 5, max_scale=64)
        self.assertEqual((manager.min_scale, manager.max_scale, manager.consecutive_hysteresis), (1.0, 64.0, False))
        message = r"^ExponentialUpdateLossScaleManager: max_scale must be given to the constructor"
        with self.assertRaisesRegex(AttributeError, message):
            manager.max_scale = 32.0


BAD: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("zero", {"min_scale": 0}, ValueError, "min_scale must be positive"),
    ("denormal", {"min_scale": 1e-40}, ValueError, r"min_scale must be at least 2\*\*-126.* min_scale=0\.5\."),
    ("nan", {"max_scale": NAN}, ValueError, "max_scale must be positive"),
    ("infinite", {"max_scale": INF}, ValueError, "max_scale must be positive"),
    (
        "denormal_cap",
        {"max_scale": 1e-40},
        ValueError,
        r"max_scale must be at least 2\*\*-126.* max_scale=2\.0\*\*24\.",
    ),
    ("number_as_text", {"max_scale": "4096"}, ValueError, "max_scale must be a number"),
    ("bool_bound", {"min_scale": True}, ValueError, "min_scale must be a number"),
    ("crossed", {"min_scale": 4, "max_scale": 2}, ValueError, "max_scale must be at least min_scale"),
    ("no_growth", {"growth_factor": 1}, ValueError, r"growth_factor must be above 1.* growth_factor=2\.0\."),
    ("no_backoff", {"backoff_factor": 1}, ValueError, r"backoff_factor must be below 1.* backoff_factor=0\.5\."),
    ("negative", {"backoff_factor": -0.5}, ValueError, "backoff_factor must be positive"),
    ("no_steps", {"hysteresis": 0}, ValueError, "hysteresis must be a whole number of at least 1.* docs bounds"),
    ("bool_steps", {"hysteresis": True}, ValueError, "hysteresis must be a whole number"),
    ("part_of_a_step", {"hysteresis": 2.5}, ValueError, "hysteresis must be a whole number"),
    ("text_steps", {"hysteresis": "3"}, ValueError, "hysteresis must be a whole number"),
    ("list", {"hysteresis": []}, TypeError, "hysteresis must be a whole number"),
]
OF_CONSTRUCTORS = [
    ("initial_below", {"min_scale": 16}, ValueError, "the initial scale must be from 16"),
    ("initial_above", {"max_scale": 4}, ValueError, "the initial scale must be from 1 to 4"),
    ("no_bool", {"adjustable": 1}, TypeError, "adjustable must be a bool.* docs bounds"),
    ("text_as_bool", {"consecutive_hysteresis": "yes"}, TypeError, "hysteresis must be a bool.* docs bounds"),
]


OF_FAMILIES = [(f"{family}_{row[0]}", family, *row[1:]) for family in FAMILIES for row in BAD + OF_CONSTRUCTORS]


class RefusedTest(unittest.TestCase):
    @parameterized.expand(OF_FAMILIES)
    @pytest.mark.default_run("each value", by=lambda _, *values: (values[0], str(values[1])))
    def test_by_constructors(self, name: str, family: str, given: dict[str, Any], error: type, message: str) -> None:
        with self.assertRaisesRegex(error, message):
            FAMILIES[family](8.0, 2, **given)

    @parameterized.expand(BAD)
    def test_by_configure_and_nothing_changes(
        self, name: str, given: dict[str, Any], error: type, message: str
    ) -> None:
        loss_scale = mpls.v1.DynamicLossScale(8.0, 2, adjustable=True)
        before = loss_scale.state_dict()
        with self.assertRaisesRegex(error, f"configure: {message}"):
            loss_scale.configure(growth_steps=7, **given)
        self.assertEqual(loss_scale.state_dict(), before)

    def test_names_of_wrappers(self) -> None:
        scale = mpls.v1.DynamicLossScale(8.0, 2)
        self.assertIs(scale.adjustable, False)
        for name, of_constructor, of_configure in (
            ("initial_scale", "initial_loss_scale=7", r"set_scale\(7\)"),
            ("dynamic_growth_steps", "increment_period=7", r"configure\(growth_steps=7\)"),
            ("growth_steps", "increment_period=7", None),
            ("increment_period", None, r"configure\(growth_steps=7\)"),
            ("consecutive_hysteresis", None, "Pass it to the constructor"),
            ("adjustable", None, "Pass it to the constructor"),
        ):
            for call, text in ((mpls.v1.DynamicLossScale, of_constructor), (scale.configure, of_configure)):
                if text is not None:
                    with self.assertRaisesRegex(TypeError, f"{name}.* {text}"):
                        call(**{name: 7})

    def test_what_a_setting_excludes(self) -> None:
        opt = FAMILIES["new"](8.0, 2, max_scale=64.0)
        with self.assertRaisesRegex(ValueError, "min_scale must be at most max_scale, 64; got 128.* Pass min_scale=64"):
            opt.configure(min_scale=128)
        with self.assertRaisesRegex(
            TypeError, "min_scale: must be a number; got None|min_scale must be a number; got None"
        ):
            opt.min_scale = None

    @parameterized.expand([(1.5,), (True,), ("5",)])
    def test_growth_steps_that_are_no_whole_number(self, value: Any) -> None:
        loss_scale = mpls.v1.DynamicLossScale(8.0, 2)
        with self.assertRaisesRegex(ValueError, "configure: growth_steps must be a whole number"):
            loss_scale.configure(growth_steps=value)
        self.assertEqual(loss_scale.growth_steps, 2)

    @parameterized.expand([(0,), (-1.0,), (INF,), (NAN,), (0.25,), (128,), ("x",), ("8",), (True,), (None,)])
    def test_scales_that_cannot_be_set(self, scale: Any) -> None:
        loss_scale = mpls.v1.DynamicLossScale(8.0, min_scale=0.5, max_scale=64)
        with self.assertRaises((ValueError, TypeError)):
            loss_scale.set_scale(scale)
        self.assertEqual(float(loss_scale()), 8.0)

    def test_a_multiplier_that_no_saved_state_could_have(self) -> None:
        for multiplier in (1.0, 0.5):
            with self.assertRaisesRegex(ValueError, "multiplier must be above 1 with adjustable=True"):
                mpls.v1.DynamicLossScale(8.0, 2, multiplier, adjustable=True)

    def test_a_factor_that_nobody_passed_is_not_in_the_config(self) -> None:
        loss_scale = mpls.v1.DynamicLossScale(8.0, 2, 3.0, adjustable=True)
        before = loss_scale.get_config()
        # Whoever asks for it may be outside of the strategy that the scale is for.
        self.assertEqual(loss_scale._weights, {})
        loss_scale()
        self.assertEqual(loss_scale.get_config(), before)
        self.assertNotIn("backoff_factor", before)
        with tf.Graph().as_default():
            self.assertEqual(mpls.v1.DynamicLossScale(8.0, 2, 3.0, adjustable=True).get_config(), before)

    @parameterized.expand(FAMILIES)
    def test_the_largest_float32_as_it_is_printed_is_a_scale(self, family: str) -> None:
        largest = 3.4028235e38
        opt = FAMILIES[family](largest, 2, max_scale=largest)
        opt.set_scale(largest)
        opt.load_state_dict({**opt.state_dict(), "scale": largest})
        self.assertEqual(opt.state_dict()["scale"], MAX)


POWERS = st.integers(-20, 120).map(lambda power: 2.0**power)


class ManySteps:
    """An optimizer in a function that is traced once and takes many steps, each of which is shown.

    Args:
        family: a key of `FAMILIES`.
        searches: whether its scale searches.
    """

    def __init__(self, family: str, searches: bool) -> None:
        first = "auto" if searches else 8.0
        # With all that can be changed, so that one serves every example.
        settings = {"min_scale": 2.0**-20, "adjustable": True, "count_steps": True}
        self.trainer = Trainer(family, "function", lambda: FAMILIES[family](first, 40, **settings))
        self.trainer.take(1.0)
        self._begun = FAMILIES[family](first, 40, **settings).state_dict()
        # What steps show is compared in one order.
        self.names = tuple(self.trainer.shown())
        self._run = tf.function(self._steps, input_signature=[tf.TensorSpec([None], tf.float32)])

    @tf.autograph.experimental.do_not_convert
    def _steps(self, values: Any) -> Any:
        number = tf.size(values)

        def step(index: Any, rows: Any) -> Any:
            self.trainer.apply(tf.gather(values, index))
            row = [tf.cast(each, tf.float32) for each in self.trainer.tensors().values()]
            return index + 1, rows.write(index, tf.stack(row))

        rows = tf.TensorArray(tf.float32, size=number, element_shape=[len(self.names)])
        return tf.while_loop(lambda index, _: index < number, step, [0, rows], parallel_iterations=1)[1].stack()

    def begin(self, scale: float, growth_steps: int, least: float) -> None:
        """Put all back to the start."""
        changes = {"scale": scale, "growth_steps": growth_steps, "min_scale": least}
        self.trainer.opt.load_state_dict({**self._begun, **changes})
        self.trainer.reset_counter()

    def take(self, values: list[float]) -> list[dict[str, Any]]:
        """Take a step with each gradient, and return what each step shows."""
        return [dict(zip(self.names, row, strict=True)) for row in self._run(values).numpy().tolist()]


@functools.cache
def many_steps(family: str, searches: bool) -> ManySteps:
    return ManySteps(family, searches)


class ScaleMachine(RuleBasedStateMachine):
    """Steps and changes in any order, in a function that is traced once: the scale stays in its bounds."""

    family = "v1"

    @initialize(initial=POWERS, searches=st.booleans(), growth_steps=st.sampled_from([3, 40]))
    def start(self, initial: float, searches: bool, growth_steps: int) -> None:
        first = 256.0 if searches else initial
        least = min(first, 1.0)
        self.trainer = many_steps(self.family, searches)
        self.trainer.begin(first, growth_steps, least)
        self.opt = self.trainer.trainer.opt
        self.model = Model(first, growth_steps, min_scale=least, search=1 if searches else None)
        self.model.skip_counts_step = SKIPS_COUNT[self.family]

    @rule(data=st.data())
    def steps(self, data: Any) -> None:
        gradients = st.sampled_from([1.0, 1.0, 1.0, INF, NAN])
        values = data.draw(st.lists(gradients, min_size=1, max_size=8))
        for shown, value in zip(self.trainer.take(values), values, strict=True):
            self.model.step(is_finite(value))
            assert shown == {name: float(number) for name, number in self.model.shown().items()}
            assert self.model.min_scale <= shown["scale"] <= self.model.max_scale

    @rule(least=POWERS, ratio=st.integers(0, 30))
    def bounds(self, least: float, ratio: int) -> None:
        most = min(least * 2.0**ratio, MAX)
        self.opt.configure(min_scale=least, max_scale=most)
        self.model.configure(min_scale=least, max_scale=most)

    @rule(
        growth_steps=st.integers(1, 5),
        growth_factor=st.sampled_from([2.0, 8.0, 2.0**60]),
        backoff_factor=st.sampled_from([0.5, 0.25, 2.0**-60]),
        hysteresis=st.integers(1, 3),
    )
    def dynamics(self, **changes: Any) -> None:
        self.opt.configure(**changes)
        self.model.configure(**changes)

    @rule(share=st.integers(0, 30))
    def set_scale(self, share: int) -> None:
        scale = min(self.model.min_scale * 2.0**share, self.model.max_scale)
        self.opt.set_scale(scale)
        self.model.set_scale(scale)

    @invariant()
    def is_as_promised(self) -> None:
        shown = self.trainer.trainer.shown()
        assert shown == self.model.shown()
        assert self.model.min_scale <= shown["scale"] <= self.model.max_scale


def _machine_of(family: str) -> Any:
    case: Any = type(f"MachineOf{family}", (ScaleMachine,), {"family": family}).TestCase
    case.settings = settings(
        deadline=None, suppress_health_check=list(HealthCheck), max_examples=10, stateful_step_count=20
    )
    return case if family == "v1" else pytest.mark.matrix(case)


TestMachineOfV1, TestMachineOfLegacy, TestMachineOfNew, TestMachineOfKeras3 = map(
    _machine_of, ("v1", "legacy", "new", "keras3")
)
