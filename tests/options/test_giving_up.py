"""Overflows by variable, and giving up after too many skipped steps: in every family and mode."""

from __future__ import annotations

import itertools
import re
import unittest
import unittest.mock
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.keras
import mpls.v1
from mpls.core import fast
from mpls.core.counters import Facts, Stuck, cause_of
from mpls.errors import MplsWarning, TrainingStuckError
from tests.folders import InFolder
from tests.golden.replay import control_flow
from tests.warned import warned

from .trainers import EAGER, FAMILIES, MODES, RATE, SESSION, Trainer, contrib, trainer, unscaled

v1 = tf.compat.v1
INF, NAN = float("inf"), float("nan")


class GivingUpTest(unittest.TestCase):
    @parameterized.expand(["native", "contrib"])
    def test_the_scales_are_those_of_the_steps(self, kind: str) -> None:
        # A session runs ops in any order that they do not exclude.
        for _ in range(6):
            called: list[Stuck] = []
            options: dict[str, Any] = {"max_consecutive_skips": 2, "on_give_up": called.append}

            def make(options: dict[str, Any] = options) -> Any:
                if kind == "contrib":
                    return contrib(8.0, 2, **options)
                inner, scale = v1.train.GradientDescentOptimizer(RATE), v1.mixed_precision.DynamicLossScale(8.0, 2)
                return mpls.v1.MixedPrecisionLossScaleOptimizer(inner, scale, **options)

            with Trainer("v1", SESSION, make) as training:
                for _ in range(3):
                    training.take(INF)
                training.opt.check_skips(training.session)
            self.assertEqual([each.recent_scales for each in called], [(8.0, 4.0, 2.0)])

    @parameterized.expand(
        [
            (f"{next(iter(options))}_{v2}", options, v2)
            for options in ({"count_steps": True}, {"track_overflows": True}, {"max_consecutive_skips": 2})
            for v2 in (False, True)
        ]
    )
    def test_in_a_session_that_calls_no_function(self, name: str, options: dict[str, Any], v2: bool) -> None:
        as_with_xla = unittest.mock.patch.object(fast, "uses_plain_ways", return_value=True)
        with as_with_xla, control_flow(v2=v2), trainer("v1", SESSION, 8.0, 10, **options) as training:
            for _ in range(2):
                training.take(NAN)
            shown = training.shown()
            self.assertEqual((shown["skipped_steps"], shown["consecutive_skips"]), (2, 2))
            if "track_overflows" in options:
                self.assertEqual([each.count for each in training.opt.overflow_report(training.session)], [2])
            if "max_consecutive_skips" in options:
                with self.assertRaisesRegex(tf.errors.InvalidArgumentError, r"skipped.*\[3\].*many of them:\] \[3\]"):
                    training.take(NAN)
                with self.assertRaisesRegex(TrainingStuckError, "not finite in 3 of them.* 8, 4, 2"):
                    training.opt.check_skips(training.session)

    @parameterized.expand(FAMILIES)
    def test_a_refused_loss_is_forgotten(self, family: str) -> None:
        with trainer(family, EAGER, 8.0, 10, max_consecutive_skips=5) as training:
            for refused in (tf.constant(1), tf.constant(True), tf.constant("loss")):
                with self.assertRaises(TypeError):
                    if family == "v1":
                        training.opt.minimize(lambda loss=refused: loss, var_list=[tf.Variable(1.0)])
                    else:
                        training.opt.get_scaled_loss(refused)
            training.take(1.0)
            self.assertEqual(training.weight(), 1 - RATE)

    def test_a_loss_that_was_scaled_elsewhere_is_not_known(self) -> None:
        opt = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD(), max_consecutive_skips=1)
        weight = tf.Variable(1.0)

        @tf.function
        def gradient() -> Any:
            with tf.GradientTape() as tape:
                loss = opt.get_scaled_loss(weight * NAN)
            return opt.get_unscaled_gradients([tape.gradient(loss, weight)])

        for _ in range(2):
            opt.get_unscaled_gradients([tf.ones([])])
        opt.apply_gradients([(gradient()[0], weight)])
        with self.assertRaisesRegex(TrainingStuckError, "Whether the loss was finite is not known") as caught:
            opt.apply_gradients([(gradient()[0], weight)])
        self.assertNotIn("No loss scale can mend that", str(caught.exception))

    @parameterized.expand(["eager", "function"])
    def test_several_losses_and_gradients_that_meet(self, mode: str) -> None:
        for bad in range(3):
            options = {"max_consecutive_skips": 1, "check_unscaled": True}
            opt = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD(), **options)
            weight = tf.Variable(1.0)

            def step(opt: Any = opt, weight: Any = weight, bad: int = bad) -> None:
                with tf.GradientTape(persistent=True) as tape:
                    factors = [NAN if place == bad else 1.0 for place in range(3)]
                    losses = [opt.get_scaled_loss(weight * factor) for factor in factors]
                grads = [opt.get_unscaled_gradients([tape.gradient(loss, weight), None])[0] for loss in losses]
                total = tf.add_n(grads)
                opt.apply_gradients([(total + total, weight)])

            step = tf.function(step) if mode == "function" else step
            with self.assertRaisesRegex(
                (RuntimeError, tf.errors.InvalidArgumentError),
                r"loss itself was not finite in (2|this many of them:\] \[2\])",
            ):
                [step() for _ in range(2)]
            self.assertEqual(opt.get_unscaled_gradients([None]), [None])

    @parameterized.expand([("keras", keras, True), ("keras_plain", keras, False), ("tf_keras", tf_keras, True)])
    @pytest.mark.default_run("one case")
    def test_fit(self, name: str, framework: Any, jit: bool) -> None:
        options = {"max_consecutive_skips": 2, "track_overflows": True}
        opt = mpls.keras.LossScaleOptimizer(framework.optimizers.SGD(0.1), **options)
        model = framework.Sequential([framework.layers.Input([2]), framework.layers.Dense(1)])
        model.compile(opt, "mse", jit_compile=jit)
        data = np.full([8, 2], INF, np.float32), np.ones([8, 1], np.float32)
        text = r"more steps in a row.*\[0 0 .*The gradient of .*(kernel|bias) was not finite.*:\] \[1\] .*No loss scale"
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, text):
            model.fit(*data, batch_size=2, verbose=0)
        with self.assertRaisesRegex(TrainingStuckError, "The loss itself was not finite in [34] of them"):
            opt.check_skips()
        # The step after may run before the one that XLA compiles has been looked at.
        self.assertLessEqual({each.count for each in opt.overflow_report()}, {3, 4} if jit else {3})
        self.assertEqual(len(opt.overflow_report()), 2)
        good = np.ones([8, 2], np.float32), data[1]
        if jit:
            with self.assertRaises(tf.errors.InvalidArgumentError):
                model.fit(*good, batch_size=2, verbose=0)
            opt.load_state_dict({**opt.state_dict(), "consecutive_skips": 0})
        model.fit(*good, batch_size=2, verbose=0)
        self.assertEqual(opt.state_dict()["consecutive_skips"], 0)
        # The path tells layers apart, which a name in Keras 3 does not.
        self.assertTrue(all("/" in each.variable for each in opt.overflow_report()))

    @parameterized.expand(FAMILIES)
    def test_bad_values(self, family: str) -> None:
        for number in (0, "many", True):
            with self.assertRaisesRegex(ValueError, "max_consecutive_skips must be"):
                FAMILIES[family](8.0, 2, max_consecutive_skips=number)
        for value in ("stop", np.array(["raise", "warn"]), None):
            with self.assertRaisesRegex(ValueError, "on_give_up must be 'raise', 'warn' or a function"):
                FAMILIES[family](8.0, 2, max_consecutive_skips=2, on_give_up=value)

    @parameterized.expand(FAMILIES)
    def test_what_only_the_constructor_takes(self, family: str) -> None:
        opt = FAMILIES[family](8.0, 2, max_consecutive_skips=2, on_give_up=print)
        if family != "v1":
            self.assertNotIn("on_give_up", opt.get_config())
        for name, value in (("max_consecutive_skips", 7), ("count_steps", True)):
            text = rf"LossScaleOptimizer\w*: {name} must be given .*; got {value} .*\(\.\.\., {name}=\.\.\.\)"
            with self.assertRaisesRegex(AttributeError, text):
                setattr(opt, name, value)
        if family == "v1":
            with self.assertRaisesRegex(AttributeError, r"Pass it to the loss scale: .*FixedLossScale\(128.0, skip"):
                opt.skip_nonfinite = True

    @parameterized.expand(
        [
            ("check_skips", "max_consecutive_skips=50", "giving-up"),
            ("overflow_report", "track_overflows=True", "overflows"),
            ("unscaled_global_norm", "check_unscaled=True", "clipping"),
        ]
    )
    def test_without_the_options(self, name: str, option: str, anchor: str) -> None:
        opt = FAMILIES["new"](8.0, 2, count_steps=True)
        with self.assertRaisesRegex(AttributeError, f"{name} needs .* Pass {option} to its .* mpls docs {anchor}"):
            getattr(opt, name)()


def _sqrt_at_zero(raw: Any) -> Any:
    """Return 0, whose derivative by a variable of 1 is infinite."""
    return tf.sqrt(raw - 1.0)


def _overflowing(raw: Any) -> Any:
    """Return a finite loss, whose scaled gradient is infinite in float16 from a scale of 2**14 on."""
    return tf.cast(tf.cast(raw, tf.float16) * 4.0, tf.float32)


def _inner_gradient(plant: Plant, raw: Any) -> tuple[Any, Any]:
    """Return a finite score in float16, and its unscaled gradient by an input, which overflows."""
    data = tf.ones([])
    score = lambda: tf.cast(tf.cast(data * raw, tf.float16) * 4.0, tf.float32)  # noqa: E731
    with tf.GradientTape() as tape:
        tape.watch(data)
        inner = plant.opt.get_scaled_loss(score())
    (grad,) = plant.opt.get_unscaled_gradients([tape.gradient(inner, data)])
    return score(), grad


def _penalised(plant: Plant, raw: Any) -> Any:
    """Return a finite score, and what its gradient is penalised with, which is scaled too."""
    score, grad = _inner_gradient(plant, raw)
    return score + (grad - 1.0) ** 2


def _penalised_by_the_first(plant: Plant, raw: Any) -> Any:
    """Return the same, after the program has unscaled finite gradients and none."""
    score, grad = _inner_gradient(plant, raw)
    plant.opt.get_unscaled_gradients([tf.ones([])])
    plant.opt.get_unscaled_gradients([None])
    return score + (grad - 1.0) ** 2


def _penalised_with_nan(plant: Plant, raw: Any) -> Any:
    """Return a loss that is NaN, and has NaN as its gradient, as another gradient overflows."""
    _, grad = _inner_gradient(plant, raw)
    return raw * (grad - grad)


def _beside_an_overflow(plant: Plant, raw: Any) -> Any:
    """Return a finite loss with NaN as its gradient, after another gradient has overflowed that it does not use."""
    _inner_gradient(plant, raw)
    return tf.sqrt(tf.square(raw - 1.0))


def _of_micro_batches(bad: int) -> list[Callable[[Any, Any], Any]]:
    """Return three losses, whose gradients are added up; one of them is NaN."""
    return [lambda _, raw, factor=NAN if place == bad else 1.0: raw * factor for place in range(3)]


# What is planted: the first scale, functions of the optimizer and the variable that return losses, and the cause.
CAUSES: dict[str, tuple[float, Any, str]] = {
    "broken_loss": (8.0, lambda _, raw: raw * NAN, "loss"),
    "infinite_loss_at_the_floor": (1.0, lambda _, raw: raw * INF, "loss"),
    "nan_gradient": (8.0, lambda _, raw: tf.sqrt(tf.square(raw - 1.0)), "unknown"),
    "nan_gradient_at_the_floor": (1.0, lambda _, raw: tf.sqrt(tf.square(raw - 1.0)), "model"),
    "infinite_gradient_at_the_floor": (1.0, lambda _, raw: _sqrt_at_zero(raw), "model"),
    "infinite_gradient_above_it": (8.0, lambda _, raw: _sqrt_at_zero(raw), "scale"),
    "overflow": (2.0**15, lambda _, raw: _overflowing(raw), "scale"),
    "clipped_overflow": (2.0**15, lambda _, raw: _overflowing(raw), "scale"),
    "penalty": (2.0**15, _penalised, "scale"),
    "earlier_penalty": (2.0**15, _penalised_by_the_first, "scale"),
    "nan_penalty": (2.0**15, _penalised_with_nan, "scale"),
    "no_penalty": (2.0**15, _beside_an_overflow, "unknown"),
    **{f"micro_batch_{bad}": (8.0, _of_micro_batches(bad), "loss") for bad in range(3)},
}
ALL_MODES = ("eager", "function", "xla", "session")
PLANTED = [
    (f"{family}_{mode}_{cause}_{how}", family, mode, cause, how)
    for family in (*FAMILIES, "contrib")
    for mode in ALL_MODES
    for cause in CAUSES
    for how in ("raise", "warn", "call")
    if mode in MODES.get(family, ALL_MODES)
    # Gradients of gradients need a tape.
    and not ("penalty" in cause and family in ("v1", "contrib"))
]


class Plant(Trainer):
    """Minimizes a planted loss of one variable, until the optimizer gives up.

    Args:
        family: a key of `FAMILIES`, or `'contrib'`.
        mode: one of `ALL_MODES`.
        initial: the first scale.
        loss: returns the loss; it gets the plant and the variable's value. Or a list of such functions.
        clips: whether the gradients are clipped by their norm.
        options: of the wrapper.
    """

    def __init__(self, family: str, mode: str, initial: float, loss: Any, clips: bool = False, **options: Any) -> None:
        self._losses, self._clips = loss if isinstance(loss, list) else [loss], clips
        make = contrib if family == "contrib" else FAMILIES[family]
        super().__init__("v1" if family == "contrib" else family, mode, lambda: make(initial, 2000, **options))

    def apply(self, value: Any) -> Any:
        grad = sum(self._gradient(loss) for loss in self._losses)
        if self._clips:
            (grad,), _ = tf.clip_by_global_norm([grad], 1.0)
        return self.opt.apply_gradients([(grad, self._variable)])

    def _gradient(self, loss: Callable[[Any, Any], Any]) -> Any:
        (grad,) = unscaled(self.opt, lambda: loss(self, tf.convert_to_tensor(self._variable)), [self._variable])
        return grad

    def give_up(self) -> None:
        # Otherwise the step that XLA compiles has a warning.
        self.opt.check_skips(self.session)
        for _ in range(2):
            self.take(1.0)
        self.opt.check_skips(self.session)


class CauseTest(InFolder, unittest.TestCase):
    @parameterized.expand(PLANTED)
    @pytest.mark.default_run("each value", by=lambda name, *values: values)
    def test_the_planted_cause_is_named(self, name: str, family: str, mode: str, cause: str, how: str) -> None:
        initial, loss, expected = CAUSES[cause]
        called: list[Stuck] = []
        options = {"max_consecutive_skips": 1, "on_give_up": called.append if how == "call" else how}
        with Plant(family, mode, initial, loss, cause.startswith("clipped"), **options) as plant:
            if how == "raise":
                with self.assertRaises(
                    RuntimeError if mode in ("eager", "xla") else tf.errors.InvalidArgumentError
                ) as failed:
                    plant.give_up()
                text = str(failed.exception)
            elif how == "warn":
                with self.assertWarns(MplsWarning) as warned:
                    plant.give_up()
                text = str(warned.warning)
            else:
                plant.give_up()
                self.assertEqual({stuck.cause for stuck in called}, {expected})
                # That of a penalty is computed from gradients.
                self.assertEqual({stuck.nonfinite_losses for stuck in called}, {2 if expected == "loss" else 0})
                text = str(called[0])
        advice = {
            "loss": "No loss scale can mend that",
            "model": "The model is broken",
            "unknown": "Either the model is broken",
            "scale": "scale is too high",
        }
        self.assertEqual([each for each, words in advice.items() if words in text], [expected], text)

    def test_all_steps_in_a_row_count(self) -> None:
        # The scale can still fall in the last row, where the loss was infinite at one scale only.
        for first, initial, cause, losses in ((INF, 1.0, "loss", 1), (1.0, 1.0, "model", 0), (INF, 8.0, "scale", 1)):
            called: list[Stuck] = []
            opt = FAMILIES["new"](initial, 2, max_consecutive_skips=2, on_give_up=called.append)
            weight = tf.Variable(1.0)
            for factor in (first, 1.0, 1.0):
                opt.minimize(lambda factor=factor, weight=weight: _sqrt_at_zero(weight) + factor, [weight])
            (stuck,) = called
            self.assertEqual((stuck.cause, stuck.nonfinite_losses), (cause, losses))
            self.assertIn("not finite in 1 of them" if losses else "finite in all of them", str(stuck))

    def test_the_last_scales_are_eight(self) -> None:
        called: list[Stuck] = []
        with trainer("new", EAGER, 1024.0, 10, max_consecutive_skips=9, on_give_up=called.append) as training:
            for _ in range(10):
                training.take(NAN)
        self.assertEqual(called[0].recent_scales, tuple(256 / 2.0**step for step in range(8)))

    def test_a_fixed_scale_of_tensorflow_cannot_fall(self) -> None:
        class Skips(v1.mixed_precision.FixedLossScale):
            def update(self, grads: Any) -> Any:
                return tf.no_op(), tf.reduce_all(tf.math.is_finite(grads))

        called: list[Stuck] = []
        inner = v1.train.GradientDescentOptimizer(RATE)
        options = {"max_consecutive_skips": 1, "on_give_up": called.append}
        opt = mpls.v1.MixedPrecisionLossScaleOptimizer(inner, Skips(8.0), **options)
        weight = tf.Variable(1.0)
        for _ in range(2):
            opt.minimize(lambda: _sqrt_at_zero(weight), [weight])
        self.assertEqual([(each.cause, each.at_floor) for each in called], [("model", True)])

    @parameterized.expand([(family, bad) for family in ("legacy", "new", "keras3") for bad in (0, 1)])
    @pytest.mark.default_run("each value")
    def test_a_loss_of_one_replica_counts(self, family: str, bad: int) -> None:
        called: list[Stuck] = []
        options = {"max_consecutive_skips": 1, "on_give_up": called.append}
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        with strategy.scope(), trainer(family, EAGER, 1.0, 2000, **options) as training:

            def in_replica() -> None:
                replica = tf.distribute.get_replica_context().replica_id_in_sync_group
                training.apply(tf.where(tf.equal(replica, bad), NAN, 1.0))

            step = tf.function(lambda: strategy.run(in_replica))
            for _ in range(2):
                step()
            training.opt.check_skips()
        self.assertEqual([(each.cause, each.nonfinite_losses) for each in called], [("loss", 2)])

    def test_there_is_one_cause(self) -> None:
        # Scales are numbers; the rest is 0 or 1.
        for facts in itertools.product((1.0, 2.0), (2.0, 4.0), (0.0, 1.0, 2.0), (0.0, 2.0, 4.0), *[(0.0, 1.0)] * 2):
            causes = cause_of(Facts(*map(np.float32, facts)))
            self.assertEqual([bool(each) for each in causes.values()].count(True), 1, facts)

    @parameterized.expand([("eager",), ("function",)])
    def test_steps_before_an_applied_one_do_not_count(self, mode: str) -> None:
        called: list[Stuck] = []
        options = {"max_consecutive_skips": 2, "on_give_up": called.append}
        with trainer("new", mode, 8.0, 2000, **options) as training:
            for value in (NAN, 1.0, NAN, NAN, NAN):
                training.take(value)
            if mode == "function":
                training.opt.check_skips()
        (stuck,) = called
        self.assertEqual((stuck.consecutive_skips, stuck.nonfinite_losses), (3, 3))
        self.assertEqual(stuck.recent_scales, (4.0, 2.0, 1.0))

    @parameterized.expand(
        [
            ("floor_1", Stuck(3, 0, (4.0, 2.0, 1.0), ("w",), "model", True), "4, 2, 1. Variables: w. The model is"),
            ("floor_above_1", Stuck(3, 0, (4.0, 1.5), (*"abcdef",), "model", True), "a, b, c, d, e and 1 more. The"),
            (
                "not_at_the_floor",
                Stuck(2, None, (8.0, 2.0), (), "scale", False),
                "8, 2. Variables: not known. The gradients",
            ),
            ("five_variables", Stuck(2, 2, (0.5, 8.0), (*"abcde",), "loss", True), "a, b, c, d, e. No loss scale"),
        ]
    )
    def test_the_text_says_what_is_known(self, name: str, stuck: Stuck, words: str) -> None:
        self.assertIn(words, str(stuck))
        self.assertEqual("Or the loss was not finite." in str(stuck), stuck.nonfinite_losses is None)
        self.assertEqual("Where the lowest scale is above 1" in str(stuck), name == "floor_above_1")

    def test_no_variable_is_named_where_only_others_overflow(self) -> None:
        opt = FAMILIES["new"](8.0, 2, max_consecutive_skips=1, check_unscaled=True)
        weights = [tf.Variable(1.0, name="frozen"), tf.Variable(1.0, name="trained")]

        @tf.function
        def step() -> None:
            with tf.GradientTape() as tape:
                loss = opt.get_scaled_loss(weights[0] * INF + weights[1])
            both = opt.get_unscaled_gradients(tape.gradient(loss, weights))
            opt.apply_gradients([(tf.clip_by_value(sum(both), -1.0, 1.0), weights[1])])

        step()
        text = r"Number of variables whose gradients were not finite:\] \[0\]"
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, text):
            step()

    def test_a_floor_above_1_may_be_too_high(self) -> None:
        for settings in ({"min_scale": 8.0}, {"min_scale": 8.0, "adjustable": True}):
            plant = Plant("new", EAGER, 8.0, lambda _, raw: _sqrt_at_zero(raw), max_consecutive_skips=1, **settings)
            with self.assertRaisesRegex(TrainingStuckError, "The model is broken.*lower it too: min_scale=1"):
                plant.give_up()

    @parameterized.expand([("function",), ("xla",), ("eager",)])
    @pytest.mark.default_run("each value")
    def test_a_warning_waits_until_the_steps_have_doubled(self, mode: str) -> None:
        options = {"max_consecutive_skips": 5, "on_give_up": "warn"}
        with warned() as texts, trainer("legacy", mode, 8.0, 2, **options) as training:
            for _ in range(50):
                training.take(NAN)
                training.opt.check_skips()
            for value in (1.0, *[NAN] * 60):
                training.take(value)
            training.opt.check_skips()
        found = [int(text.split()[1]) for text in texts]
        # In eager mode, the step warns too.
        expected = [*[6, 6, 12, 12, 24, 24, 48, 48], *[6, 12, 24, 48]] if mode == "eager" else [6, 12, 24, 48, 60]
        self.assertEqual(found, expected)

    def test_a_step_that_xla_compiles_warns_once_where_nobody_looks(self) -> None:
        for looks in (False, True):
            opt = FAMILIES["new"](8.0, 2, max_consecutive_skips=1)
            weight = tf.Variable(1.0)
            if looks:
                opt.check_skips()

            @tf.function(jit_compile=True)
            def step(factor: Any, opt: Any = opt, weight: Any = weight) -> None:
                with tf.GradientTape() as tape:
                    loss = opt.get_scaled_loss(tf.reduce_sum(weight * factor))
                grads = opt.get_unscaled_gradients(tape.gradient(loss, [weight]))
                opt.apply_gradients(zip(grads, [weight], strict=True))

            with warned() as texts:
                step(tf.ones([]))
                step(tf.ones([2]))
            self.assertEqual(sum("XLA compiles" in text for text in texts), 0 if looks else 1)
            # A function around it looks at the step before.
            around = tf.function(step)
            text = r"not finite in this many of them:\] \[[23]\].*The gradient of Variable.*No loss scale can mend that"
            with self.assertRaisesRegex(tf.errors.InvalidArgumentError, text):
                for _ in range(3):
                    around(tf.constant([NAN] * 3))

    @parameterized.expand([(INF, "not finite in 1 of them.*No loss scale"), (1.0, "finite in all of them.*too high")])
    def test_checkpoints_that_lack_the_facts(self, first: float, cause: str) -> None:
        for is_old in (True, False):
            with tf.Graph().as_default(), v1.Session() as session:
                weight = v1.Variable(1.0, use_resource=True, name="weight")
                factor = v1.placeholder_with_default(1.0, [])
                opt = FAMILIES["v1"](2.0**15, 2000, max_consecutive_skips=9 if is_old else 1)
                op = opt.minimize(_sqrt_at_zero(weight) + factor, var_list=[weight])
                session.run(v1.global_variables_initializer())
                kept = [each for each in v1.global_variables() if not is_old or "facts" not in each.name]
                if is_old:
                    session.run(op, {factor: first})
                    session.run(op)
                    v1.train.Saver(kept).save(session, f"{self.folder}/model")
                    continue
                v1.train.Saver().restore(session, f"{self.folder}/model")
                with self.assertRaisesRegex(TrainingStuckError, cause):
                    opt.check_skips(session)
                with self.assertRaisesRegex(tf.errors.InvalidArgumentError, r"skipped.*\[3\].*scale is too high"):
                    session.run(op)


class OverflowsTest(InFolder, unittest.TestCase):
    def make(self) -> Any:
        return FAMILIES["v1"](2.0**15, 2000, track_overflows=True)

    def test_by_variable(self) -> None:
        good, bad = tf.Variable(1.0, name="good"), tf.Variable(1.0, name="bad")
        opt = self.make()
        self.assertEqual(str(opt.overflow_report()), "No gradient was infinite or NaN.")
        for value in (1.0, INF, 1.0, NAN):
            opt.minimize(lambda value=value: good * 2.0 + bad * value, var_list=[good, bad])
        (row,) = opt.overflow_report()
        self.assertEqual((row.variable, row.count, row.last_step), ("bad", 2, 4))
        table = "variable  overflows  last in step\nbad               2             4"
        self.assertEqual(str(opt.overflow_report()), table)
        # Another list of variables has counts of its own.
        others = [tf.Variable(1.0, name=name) for name in ("other", "third")]
        for other in others:
            opt.minimize(lambda other=other: other * INF, var_list=[other])
        self.assertEqual([each.variable for each in opt.overflow_report()], ["bad", "other", "third"])
        keys = str(tf.train.list_variables(tf.train.Checkpoint(opt=opt).write(f"{self.folder}/ckpt")))
        self.assertEqual(sorted(re.findall(r"/overflow_counts(\w*)/", keys)), ["_1", "_1_1", "_2"])

    def test_a_variable_without_a_gradient_has_no_overflow(self) -> None:
        opt = self.make()
        both = [tf.Variable(1.0, name=name) for name in ("trained", "frozen")]
        for variables in (both, both[:1], both[::-1]):
            opt.minimize(lambda: both[0] * INF + both[1], var_list=variables)
        rows = [(each.variable, each.count, each.last_step) for each in opt.overflow_report()]
        self.assertEqual(rows, [("trained", 3, 3)])

    def test_a_list_in_another_order_gets_the_counts_of_its_names(self) -> None:
        first, second, third = (tf.Variable(1.0, name=name) for name in ("first", "second", "third"))
        # What stands for this name is a larger number than those of the others.
        renamed = tf.Variable(1.0, name="moved")
        opt, again = self.make(), self.make()
        for value in (INF, 1.0):
            opt.minimize(lambda value=value: first * INF + second * value + third, var_list=[first, second, third])

        def step(value: float) -> None:
            again.minimize(lambda: third * value + renamed + first, var_list=[third, renamed, first])

        step(1.0)
        path = tf.train.Checkpoint(opt=opt).write(f"{self.folder}/checkpoint")
        tf.train.Checkpoint(opt=again).read(path).assert_consumed()
        self.assertEqual(self.rows(again), [("first", 2, 2)])
        step(INF)
        self.assertEqual(self.rows(again), [("first", 2, 2), ("third", 1, 3)])

    def test_steps_of_several_threads(self) -> None:
        weight = tf.Variable(1.0, name="weight")
        opt = self.make()

        def train() -> None:
            for _ in range(25):
                opt.minimize(lambda: weight * INF, var_list=[weight])

        with ThreadPoolExecutor() as pool:
            for thread in [pool.submit(train) for _ in range(2)]:
                thread.result()
        (row,) = opt.overflow_report()
        self.assertEqual((row.count, int(opt.skipped_steps)), (50, 50))

    def test_sparse_gradients_and_none(self) -> None:
        table, unused = tf.Variable([[1.0], [2.0]], name="table"), tf.Variable(1.0, name="unused")
        opt = self.make()
        opt.minimize(lambda: tf.reduce_sum(tf.gather(table, [1])) * INF, var_list=[table, unused])
        self.assertEqual([each.variable for each in opt.overflow_report()], ["table"])

    def test_variables_of_the_same_name(self) -> None:
        weights = [tf.Variable(1.0, name="same") for _ in range(3)]
        opt = self.make()
        for values in ((1.0, INF, 1.0), (1.0, INF, INF)):
            loss = lambda values=values: sum(w * v for w, v in zip(weights, values, strict=True))  # noqa: E731
            opt.minimize(loss, var_list=weights)
        self.assertEqual(self.rows(opt), [("same", 2, 2), ("same", 1, 2)])

    def test_two_graphs_have_reports_of_their_own(self) -> None:
        opt = self.make()
        built = []
        for names in ("a", "bc"):
            with tf.Graph().as_default() as graph:
                weights = [v1.Variable(1.0, use_resource=True, name=name) for name in names]
                op = opt.minimize(sum(weight * NAN for weight in weights), var_list=weights)
                session = v1.Session()
                session.run(v1.global_variables_initializer())
                graph.finalize()
            built.append((graph, session, op, list(names)))
        for graph, session, op, names in built:
            with graph.as_default():
                session.run(op)
                self.assertEqual([each.variable for each in opt.overflow_report(session)], names)
                session.close()

    def rows(self, opt: Any) -> list[tuple[str, int, int]]:
        return [(each.variable, each.count, each.last_step) for each in opt.overflow_report()]


class FloorTest(unittest.TestCase):
    """In eager mode, a scale that can no longer help is named once, without any option."""

    def told(self, optimizer: Any, gradients: list[float]) -> list[str]:
        variable = tf.Variable(1.0)
        with warned() as texts:
            for gradient in gradients:
                optimizer.minimize(lambda factor=gradient: variable * factor, var_list=[variable])
        return [text for text in texts if "mpls docs the-scale-is-stuck" in text]

    @parameterized.expand(["legacy", "new", "keras3"])
    def test_of_keras(self, family: str) -> None:
        make = FAMILIES[family]
        at_floor = self.told(make(4, 2000), [INF] * 5)
        self.assertEqual(len(at_floor), 1)
        self.assertIn(
            "the last 3 steps were all skipped, as gradients were infinite or NaN, and the loss scale has reached its "
            "floor: it is 1",
            at_floor[0],
        )
        falling = self.told(make(2.0**40, 2000), [INF] * 22)
        self.assertEqual(len(falling), 1)
        self.assertIn("the last 20 steps were all skipped", falling[0])
        self.assertEqual(self.told(make(2.0**40, 2000), [INF] * 12), [])
        self.assertEqual(self.told(make(1, 2000), [INF, INF, 1.0] * 6), [])

    def test_of_tf_1(self) -> None:
        for optimizer in (FAMILIES["v1"](4, 2000), contrib(1, 2)):
            (text,) = self.told(optimizer, [INF] * 5)
            self.assertIn("has reached its floor", text)
