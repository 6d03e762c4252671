"""The update rule: the published table, corners, and a great many random runs against an independent model."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parameterized import parameterized

from mpls.core import dynamic
from mpls.core.fast import select
from mpls.core.rule import FLOAT32_MAX, ScaleState, UpdateRule, next_state

INF, NAN = math.inf, math.nan
MAX = float(np.finfo(np.float32).max)
MODES = ("eager", "function", "jit_compile", "graph")

# (name, growth_steps, multiplier, scale, good_steps, finite or not, scale after, good_steps after)
TABLE = [
    ("counts", 3, 2.0, 8.0, 0, True, 8.0, 1),
    ("counts_again", 3, 2.0, 8.0, 1, True, 8.0, 2),
    ("grows_at_the_nth_step", 3, 2.0, 8.0, 2, True, 16.0, 0),
    ("shrinks_and_counts_anew", 3, 2.0, 8.0, 2, False, 4.0, 0),
    ("shrinks_at_once", 3, 2.0, 8.0, 0, False, 4.0, 0),
    ("period_1_grows_every_step", 1, 2.0, 8.0, 0, True, 16.0, 0),
    ("period_0_is_period_1", 0, 2.0, 8.0, 0, True, 16.0, 0),
    ("negative_period_is_period_1", -7, 2.0, 8.0, 0, True, 16.0, 0),
    ("counter_restored_above_the_period_grows_at_once", 3, 2.0, 8.0, 100, True, 16.0, 0),
    ("counter_restored_at_the_period_grows_at_once", 3, 2.0, 8.0, 3, True, 16.0, 0),
    ("floor_1", 3, 2.0, 1.0, 2, False, 1.0, 0),
    ("floor_1_from_just_above", 3, 2.0, 1.5, 0, False, 1.0, 0),
    ("floor_1_from_2", 3, 2.0, 2.0, 0, False, 1.0, 0),
    ("an_initial_half_is_lifted_by_an_overflow", 3, 2.0, 0.5, 0, False, 1.0, 0),
    ("an_initial_half_stays_while_finite", 3, 2.0, 0.5, 0, True, 0.5, 1),
    ("an_initial_half_grows", 1, 2.0, 0.5, 0, True, 1.0, 0),
    ("multiplier_1_never_changes", 1, 1.0, 8.0, 0, True, 8.0, 0),
    ("multiplier_1_never_shrinks", 1, 1.0, 8.0, 0, False, 8.0, 0),
    ("multiplier_below_1_goes_the_other_way", 1, 0.5, 8.0, 0, True, 4.0, 0),
    ("multiplier_below_1_goes_up_on_overflow", 1, 0.5, 8.0, 0, False, 16.0, 0),
    ("multiplier_10", 1, 10.0, 8.0, 0, True, 80.0, 0),
    ("saturated_stays_and_counts_anew", 1, 2.0, 2.0**127, 0, True, 2.0**127, 0),
    ("saturated_at_the_largest_float32", 1, 2.0, MAX, 0, True, MAX, 0),
    ("saturated_shrinks", 1, 2.0, 2.0**127, 0, False, 2.0**126, 0),
    ("grows_up_to_the_last_power", 1, 2.0, 2.0**126, 0, True, 2.0**127, 0),
    ("restored_inf_recovers", 3, 2.0, INF, 0, False, MAX, 0),
    ("restored_minus_inf_recovers", 3, 2.0, -INF, 0, False, 1.0, 0),
    ("restored_nan_recovers", 3, 2.0, NAN, 0, False, 1.0, 0),
    ("restored_0_recovers", 3, 2.0, 0.0, 0, False, 1.0, 0),
    ("restored_negative_recovers", 3, 2.0, -8.0, 0, False, 1.0, 0),
]

# Multipliers whose products are rounded in float32: value of the scale after one growth, by NumPy.
ROUNDED = [(1.3, 1.5), (1.3, 3.0e38), (1.0000001, 3.0), (1.0000001, MAX), (1.7, 12345.678)]


def float32_model(scale: Any, good_steps: Any, finite: Any, period: Any, multiplier: Any) -> tuple[Any, Any]:
    """The published rule over NumPy arrays, written from its description and not from mpls."""
    scale, multiplier = np.float32(scale), np.float32(multiplier)
    with np.errstate(over="ignore"):
        product, quotient = scale * multiplier, scale / multiplier
    due = np.asarray(good_steps) + 1 >= period
    larger = np.where(np.isfinite(product), product, scale)
    scale_if_finite = np.where(due, larger, scale)
    steps_if_finite = np.where(due, 0, np.asarray(good_steps) + 1)
    smaller = np.maximum(quotient, np.float32(1))
    return np.where(finite, scale_if_finite, smaller), np.where(finite, steps_if_finite, 0)


class TableTest(unittest.TestCase):
    """Each row of the table, with every kind of number."""

    @parameterized.expand(TABLE)
    def test_python_floats(
        self, name: str, period: int, multiplier: float, scale: float, good: int, finite: bool, *after: float
    ) -> None:
        state = next_state(ScaleState(scale, good), finite, UpdateRule(period, multiplier))
        self.assertEqual(state[:2], after)

    @parameterized.expand(TABLE)
    def test_tensors(
        self, name: str, period: int, multiplier: float, scale: float, good: int, finite: bool, *after: float
    ) -> None:
        before = ScaleState(tf.constant(scale), tf.constant(good, tf.int64))
        state = next_state(before, tf.constant(finite), UpdateRule(period, multiplier), select)
        self.assertEqual((state.scale.dtype, state.good_steps.dtype), (tf.float32, tf.int64))
        self.assertEqual((float(state.scale), int(state.good_steps)), after)

    @parameterized.expand(TABLE)
    def test_state_of_a_loss_scale(
        self, name: str, period: int, multiplier: float, scale: float, good: int, finite: bool, *after: float
    ) -> None:
        loss_scale = dynamic.DynamicLossScale(8, period, multiplier)
        loss_scale._current_loss_scale.assign(scale)
        loss_scale._num_good_steps.assign(good)
        _, should_apply = loss_scale.update([tf.constant(1.0 if finite else INF)])
        self.assertEqual(bool(should_apply), finite)
        self.assertEqual((float(loss_scale()), int(loss_scale._num_good_steps)), after)

    @parameterized.expand(ROUNDED)
    def test_products_are_rounded_as_in_float32(self, multiplier: float, scale: float) -> None:
        for finite in (True, False):
            expected, _ = float32_model(scale, 0, finite, 1, multiplier)
            state = next_state(
                ScaleState(tf.constant(scale), tf.constant(0, tf.int64)),
                tf.constant(finite),
                UpdateRule(1, multiplier),
                select,
            )
            self.assertEqual(np.float32(state.scale), expected)

    def test_other_bounds(self) -> None:
        rule = UpdateRule(1, 2.0, min_scale=0.25, max_scale=8.0)
        self.assertEqual(next_state(ScaleState(8.0, 0), True, rule)[:2], (8.0, 0))
        self.assertEqual(next_state(ScaleState(4.0, 0), True, rule)[:2], (8.0, 0))
        self.assertEqual(next_state(ScaleState(0.5, 0), False, rule)[:2], (0.25, 0))
        self.assertEqual(next_state(ScaleState(0.25, 0), False, rule)[:2], (0.25, 0))
        self.assertEqual(next_state(ScaleState(INF, 0), False, rule)[:2], (8.0, 0))

    @parameterized.expand([(kind,) for kind in ("floats", "constants", "tensors")])
    def test_growth_that_leaves_float32_stops_at_a_ceiling(self, kind: str) -> None:
        for ceiling, after in ((2.0**127, 2.0**127), (MAX, 2.0**126)):
            with self.subTest(ceiling):
                self.assertEqual(self._step(kind, 2.0**126, True, UpdateRule(1, 8.0, max_scale=ceiling)), (after, 0))

    @parameterized.expand([(kind,) for kind in ("floats", "constants", "tensors")])
    def test_a_step_moves_a_scale_between_given_bounds(self, kind: str) -> None:
        for bounds, scale, after in (
            ({"max_scale": 8.0}, 64.0, 8.0),
            ({"min_scale": 256.0}, 64.0, 256.0),
            ({"min_scale": 0.5}, 0.25, 0.5),
            ({"min_scale": 0.5, "max_scale": 8.0}, 4.0, 4.0),
            ({"max_scale": 8.0}, 0.5, 0.5),
            ({}, 0.5, 0.5),
        ):
            with self.subTest(bounds, scale=scale):
                rule = UpdateRule(3, 2.0, **bounds)
                self.assertEqual(self._step(kind, scale, True, rule), (after, 1))

    def _step(self, kind: str, scale: float, finite: bool, rule: UpdateRule) -> tuple[float, int]:
        if kind == "floats":
            return next_state(ScaleState(scale, 0), finite, rule)[:2]
        if kind == "tensors":
            bounds = {"min_scale": tf.constant(rule.min_scale), "max_scale": tf.constant(rule.max_scale)}
            rule = dataclasses.replace(rule, **bounds)
        after = next_state(ScaleState(tf.constant(scale), tf.constant(0, tf.int64)), finite, rule, select)
        return float(after.scale), int(after.good_steps)

    def test_defaults_are_those_of_the_originals(self) -> None:
        self.assertEqual(dataclasses.astuple(UpdateRule()), (2000, 2.0, 1.0, MAX, None, 1, False))
        self.assertEqual(FLOAT32_MAX, MAX)

    def test_neither_rule_nor_state_can_be_changed(self) -> None:
        with self.assertRaises(dataclasses.FrozenInstanceError):
            UpdateRule().growth_steps = 1  # type: ignore[misc]
        with self.assertRaises(AttributeError):
            ScaleState(1.0, 0).scale = 2.0  # type: ignore[misc]

    def test_there_is_no_branch(self) -> None:
        """A select that counts its calls sees the same number of them on every path."""

        def calls(scale: float, good: int, finite: Any) -> int:
            count = 0

            def select(condition: bool, if_true: Any, if_false: Any) -> Any:
                nonlocal count
                count += 1
                return if_true if condition else if_false

            next_state(ScaleState(scale, good), finite, UpdateRule(2), select)
            return count

        cases = [(s, g) for s in (0.5, 8.0, MAX, INF) for g in (0, 5)]
        unknown, finite, non_finite = (
            {calls(*case, each) for case in cases for each in kind}
            for kind in ([np.bool_(True), np.bool_(False)], [True], [False])
        )
        self.assertEqual((len(unknown), len(finite), len(non_finite)), (1, 1, 1))
        # What is known not to be needed is not computed.
        self.assertGreater(min(unknown), max(finite | non_finite))


POWERS = st.integers(0, 127).map(lambda power: 2.0**power)
SCALES = st.one_of(POWERS, st.floats(1, MAX, width=32))
MULTIPLIERS = st.one_of(
    st.sampled_from([1.0, 1.3, 2.0, 4.0, 10.0, 1.0000001]), st.floats(1, 1e6, width=32), st.just(MAX)
)
PERIODS = st.integers(-2, 7)
# Mostly finite, so that the scale climbs as well.
STEPS = st.lists(st.sampled_from([True, True, True, False]), max_size=150)


def check_float32_run(scale: float, period: int, multiplier: float, steps: list[bool]) -> None:
    """Drive the rule with np.float32 numbers beside the model; check what must always hold."""
    rule = UpdateRule(period, np.float32(multiplier), np.float32(1), np.float32(MAX))
    state = ScaleState(np.float32(scale), 0)
    model: tuple[Any, Any] = (np.float32(scale), 0)
    is_power = math.frexp(scale)[0] == 0.5 and math.frexp(multiplier)[0] == 0.5
    with np.errstate(over="ignore"):
        for finite in steps:
            before = state
            state = next_state(state, finite, rule)
            model = float32_model(*model, finite, period, multiplier)
            assert state[:2] == model
            assert isinstance(state.scale, np.float32)
            assert np.isfinite(state.scale)
            assert 1 <= state.scale <= MAX
            assert 0 <= state.good_steps < max(period, 1)
            assert state.scale >= before.scale if finite else state.scale <= before.scale
            assert not is_power or math.frexp(state.scale)[0] == 0.5


class PropertyTest(unittest.TestCase):
    """Random settings and random steps."""

    @settings(max_examples=150, deadline=None)
    @given(scale=SCALES, period=PERIODS, multiplier=MULTIPLIERS, steps=STEPS)
    def test_float32_numbers(self, scale: float, period: int, multiplier: float, steps: list[bool]) -> None:
        check_float32_run(scale, period, multiplier, steps)

    @pytest.mark.long
    @settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        scale=SCALES,
        period=PERIODS,
        multiplier=MULTIPLIERS,
        steps=st.lists(st.sampled_from([True, True, True, False]), min_size=100, max_size=150),
    )
    def test_float32_numbers_a_million_times(
        self, scale: float, period: int, multiplier: float, steps: list[bool]
    ) -> None:
        check_float32_run(scale, period, multiplier, steps)

    @settings(max_examples=150, deadline=None)
    @given(power=st.integers(0, 127), period=PERIODS, log_multiplier=st.integers(0, 20), steps=STEPS)
    def test_python_floats_of_powers_of_two(
        self, power: int, period: int, log_multiplier: int, steps: list[bool]
    ) -> None:
        """Powers of two are exact in every kind of number: a model of integer exponents is enough."""
        state, good, rule = ScaleState(2.0**power, 0), 0, UpdateRule(period, 2.0**log_multiplier)
        for finite in steps:
            state = next_state(state, finite, rule)
            good = good + 1 if finite else 0
            if not finite:
                power = max(power - log_multiplier, 0)
            elif good >= period:
                power, good = power + log_multiplier * (power + log_multiplier <= 127), 0
            assert state[:2] == (2.0**power, good)

    @settings(max_examples=100, deadline=None)
    @given(
        scale=st.one_of(st.floats(width=32), SCALES),
        good=st.integers(-5, 10),
        period=PERIODS,
        multiplier=st.floats(1.0009765625, 1e6, width=32),
        steps=STEPS,
    )
    def test_whatever_was_restored_one_overflow_brings_it_back_in_range(
        self, scale: float, good: int, period: int, multiplier: float, steps: list[bool]
    ) -> None:
        state, rule = ScaleState(scale, good), UpdateRule(period, multiplier)
        for finite in (False, *steps):
            state = next_state(state, finite, rule)
            assert 1 <= state.scale <= MAX
            assert 0 <= state.good_steps < max(period, 1)

    def test_a_broken_rule_is_found(self) -> None:
        """What the properties are worth: each planted fault fails them."""
        faults: dict[str, Callable[[ScaleState, ScaleState], ScaleState]] = {
            "counts one too many": lambda _, after: after._replace(good_steps=after.good_steps + 1),
            "loses the floor": lambda before, after: (
                after._replace(scale=before.scale / np.float32(2)) if after.scale < before.scale else after
            ),
            "halves too little": lambda before, after: (
                after._replace(scale=before.scale) if after.scale < before.scale else after
            ),
        }
        right = next_state
        for name, fault in faults.items():
            with self.subTest(name), pytest.MonkeyPatch.context() as patch:

                def broken(state: ScaleState, *args: Any, fault: Any = fault) -> ScaleState:
                    return fault(state, right(state, *args))

                patch.setitem(check_float32_run.__globals__, "next_state", broken)
                with self.assertRaises(AssertionError):
                    check_float32_run(3.0, 2, 2.0, [True, False, False, False])


class ManyRunsAtOnce(unittest.TestCase):
    """The rule works elementwise too, so that arrays of runs go through the very same lines."""

    def random_runs(self, runs: int, steps: int) -> tuple[Any, ...]:
        rng = np.random.default_rng(0)
        scale = np.float32(2.0 ** rng.uniform(0, 127, runs))
        scale[::2] = 2.0 ** rng.integers(0, 127, len(scale[::2]))
        multiplier = rng.choice(np.float32([1.0, 1.0000001, 1.3, 2.0, 2.0, 4.0, 10.0]), runs)
        period = rng.integers(-1, 6, runs)
        # Streaks of either kind, so that both bounds are reached.
        finite = rng.random((steps, runs)) < rng.choice([0.1, 0.5, 0.9, 1.0], runs)
        return scale, multiplier, period, finite

    def expected(self, scale: Any, multiplier: Any, period: Any, finite: Any) -> tuple[Any, Any]:
        good = np.zeros(scale.shape, np.int64)
        for step in finite:
            scale, good = float32_model(scale, good, step, period, multiplier)
        return scale, good

    def drive(self, step: Callable[..., Any], scale: Any, finite: Any) -> tuple[Any, Any]:
        good = np.zeros(scale.shape, np.int64)
        for each in finite:
            scale, good = step(scale, good, each)
        return np.asarray(scale), np.asarray(good)

    def assert_same(self, result: tuple[Any, Any], expected: tuple[Any, Any]) -> None:
        np.testing.assert_array_equal(result[0], expected[0])
        np.testing.assert_array_equal(result[1], expected[1])
        self.assertGreater(len(np.unique(result[0])), 10)

    def test_a_million_steps_in_numpy(self) -> None:
        scale, multiplier, period, finite = self.random_runs(2000, 500)
        rule = UpdateRule(period, multiplier, np.float32(1), np.float32(MAX))

        def step(*state: Any) -> Any:
            return next_state(ScaleState(*state[:2]), state[2], rule, np.where)[:2]

        with np.errstate(over="ignore"):
            result = self.drive(step, scale, finite)
        self.assert_same(result, self.expected(scale, multiplier, period, finite))
        self.assertEqual(result[0].dtype, np.float32)

    @parameterized.expand([(m, p, x) for m in MODES for p, x in ((1, 2.0), (3, 2.0), (0, 1.0), (2, 1024.0))])
    @pytest.mark.default_run("one case")
    def test_tensors_with_powers_of_two(self, mode: str, period: int, multiplier: float) -> None:
        scale, _, _, finite = self.random_runs(300, 60)
        expected = self.expected(scale, multiplier, period, finite)
        with stepping(UpdateRule(period, multiplier), mode, 300) as step:
            self.assert_same(self.drive(step, scale, finite), expected)

    @parameterized.expand([(m, x) for m in MODES for x in (1.0000001, 1.3, 10.0)])
    @pytest.mark.default_run("one case")
    def test_tensors_with_other_multipliers(self, mode: str, multiplier: float) -> None:
        """One step, to the last bit but one: graphs turn a division by a constant into a product."""
        scale, _, _, finite = self.random_runs(300, 1)
        expected = self.expected(scale, multiplier, 1, finite)
        with stepping(UpdateRule(1, multiplier), mode, 300) as step:
            result = self.drive(step, scale, finite)
        np.testing.assert_array_max_ulp(result[0], expected[0], 1)
        np.testing.assert_array_equal(result[1], expected[1])
        if mode == "eager":
            np.testing.assert_array_equal(result[0], expected[0])


@contextlib.contextmanager
def stepping(rule: UpdateRule, mode: str, runs: int) -> Iterator[Callable[..., Any]]:
    """Yield a function of NumPy arrays that makes one step of all runs, in a mode of TensorFlow."""

    def step(scale: Any, good: Any, finite: Any) -> Any:
        return next_state(ScaleState(scale, good), finite, rule, select)[:2]

    dtypes = (tf.float32, tf.int64, tf.bool)
    if mode == "graph":
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            feeds = [tf.compat.v1.placeholder(dtype, [runs]) for dtype in dtypes]
            yield session.make_callable(step(*feeds), feeds)
        return
    if mode != "eager":
        step = tf.function(step, jit_compile=mode == "jit_compile")
    yield lambda *args: step(*map(tf.constant, args, dtypes))
