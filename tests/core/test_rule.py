"""The update rule: the published table and corners of `DynamicLossScale`, and random runs beside a model."""

from __future__ import annotations

import math
import unittest
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from parameterized import parameterized

from mpls.v1 import DynamicLossScale

INF, NAN = math.inf, math.nan
MAX = float(np.finfo(np.float32).max)

# (name, growth_steps, multiplier, scale, good_steps, finite or not, scale after, good_steps after)
TABLE = [
    ("counts", 3, 2.0, 8.0, 0, True, 8.0, 1),
    ("grows_at_the_nth_step", 3, 2.0, 8.0, 2, True, 16.0, 0),
    ("shrinks_and_counts_anew", 3, 2.0, 8.0, 2, False, 4.0, 0),
    ("period_0_is_period_1", 0, 2.0, 8.0, 0, True, 16.0, 0),
    ("negative_period_is_period_1", -7, 2.0, 8.0, 0, True, 16.0, 0),
    ("counter_restored_above_the_period_grows_at_once", 3, 2.0, 8.0, 100, True, 16.0, 0),
    ("floor_1_from_just_above", 3, 2.0, 1.5, 0, False, 1.0, 0),
    ("an_initial_half_is_lifted_by_an_overflow", 3, 2.0, 0.5, 0, False, 1.0, 0),
    ("an_initial_half_stays_while_finite", 3, 2.0, 0.5, 0, True, 0.5, 1),
    ("multiplier_1_never_changes", 1, 1.0, 8.0, 0, True, 8.0, 0),
    ("multiplier_below_1_goes_the_other_way", 1, 0.5, 8.0, 0, True, 4.0, 0),
    ("saturated_stays_and_counts_anew", 1, 2.0, 2.0**127, 0, True, 2.0**127, 0),
    ("saturated_at_the_largest_float32", 1, 2.0, MAX, 0, True, MAX, 0),
    ("grows_up_to_the_largest_float32", 1, 2.0, MAX / 2, 0, True, MAX, 0),
    ("restored_inf_recovers", 3, 2.0, INF, 0, False, MAX, 0),
    ("restored_minus_inf_recovers", 3, 2.0, -INF, 0, False, 1.0, 0),
    ("restored_nan_recovers", 3, 2.0, NAN, 0, False, 1.0, 0),
    ("restored_0_recovers", 3, 2.0, 0.0, 0, False, 1.0, 0),
    ("restored_negative_recovers", 3, 2.0, -8.0, 0, False, 1.0, 0),
]
MODES = ("eager", "function", "xla")


def float32_model(scale: Any, good_steps: int, finite: bool, period: int, multiplier: float) -> tuple[Any, int]:
    """The published rule, written from its description and not from mpls."""
    scale, multiplier = np.float32(scale), np.float32(multiplier)
    with np.errstate(over="ignore"):
        product, quotient = scale * multiplier, scale / multiplier
    if not finite:
        return max(quotient, np.float32(1)), 0
    if good_steps + 1 < period:
        return scale, good_steps + 1
    return product if np.isfinite(product) else scale, 0


def stepping(mode: str, *arguments: float, **bounds: float) -> tuple[Any, Callable[[bool], bool]]:
    """Return a loss scale, and what takes a step: eagerly, in a function or in one that XLA compiles."""
    scale = DynamicLossScale(*arguments, **bounds)
    scale()

    def update(grad: Any) -> Any:
        return scale.update([grad])[1]

    run = update if mode == "eager" else tf.function(update, jit_compile=mode == "xla")
    return scale, lambda finite: bool(run(tf.constant(1.0 if finite else INF)))


class TableTest(unittest.TestCase):
    @parameterized.expand([(f"{row[0]}_{mode}", mode, *row[1:]) for row in TABLE for mode in MODES])
    @pytest.mark.default_run("each value", by=lambda name, mode, *row: (mode, row))
    def test_rows(
        self,
        name: str,
        mode: str,
        period: int,
        multiplier: float,
        before: float,
        good: int,
        finite: bool,
        *after: float,
    ) -> None:
        scale, step = stepping(mode, 8, period, multiplier)
        scale._current_loss_scale.assign(before)
        scale._num_good_steps.assign(good)
        self.assertEqual(step(finite), finite)
        self.assertEqual((float(scale()), int(scale._num_good_steps)), after)

    def test_a_factor_leaves_the_other_direction_to_the_multiplier(self) -> None:
        for factor, grown, shrunk in (({"growth_factor": 4.0}, 40.0, 5.0), ({"backoff_factor": 0.25}, 20.0, 2.5)):
            for finite, after in ((True, grown), (False, shrunk)):
                scale, step = stepping("eager", 10.0, 1, 2.0, **factor)
                step(finite)
                self.assertEqual(float(scale()), after)

    @parameterized.expand([(mode, adjustable) for mode in MODES for adjustable in (False, True)])
    def test_only_overflows_in_a_row_shrink_the_scale_if_told_so(self, mode: str, adjustable: bool) -> None:
        for in_a_row, expected in ((True, [8.0, 8.0, 8.0, 4.0]), (False, [8.0, 8.0, 4.0, 4.0])):
            settings = {"hysteresis": 2, "consecutive_hysteresis": in_a_row, "adjustable": adjustable}
            scale, step = stepping(mode, 8.0, 100, **settings)
            shown = []
            for finite in (False, True, False, False):
                step(finite)
                shown.append(float(scale()))
            self.assertEqual(shown, expected)

    @parameterized.expand([("constants", False), ("variables", True)])
    def test_a_step_moves_a_scale_between_given_bounds(self, name: str, adjustable: bool) -> None:
        for bounds, before, finite, after in (
            ({"max_scale": 8.0}, 64.0, True, 8.0),
            ({"min_scale": 256.0}, 64.0, True, 256.0),
            ({"min_scale": 0.5}, 0.25, True, 0.5),
            ({"min_scale": 0.5, "max_scale": 8.0}, 4.0, True, 4.0),
            ({"max_scale": 8.0}, 0.5, True, 0.5),
            ({"min_scale": 0.25, "max_scale": 8.0}, 0.5, False, 0.25),
            ({"min_scale": 0.25, "max_scale": 8.0}, 0.25, False, 0.25),
            ({"max_scale": 8.0}, INF, False, 8.0),
            # Growth that leaves float32, and a ceiling that it may reach.
            ({"max_scale": 2.0**127, "growth_factor": 8.0, "growth_steps": 1}, 2.0**126, True, 2.0**127),
            ({"max_scale": MAX, "growth_factor": 8.0, "growth_steps": 1}, 2.0**126, True, 2.0**126),
            ({"max_scale": MAX, "growth_factor": 8.0, "growth_steps": 1}, MAX / 8, True, MAX),
        ):
            options = {key: value for key, value in bounds.items() if key != "growth_steps"}
            start = min(max(8.0, options.get("min_scale", 1.0)), options.get("max_scale", MAX))
            period = int(bounds.get("growth_steps", 3))
            with self.subTest(bounds, before=before):
                scale, step = stepping("eager", start, period, adjustable=adjustable, **options)
                scale._current_loss_scale.assign(before)
                step(finite)
                self.assertEqual(float(scale()), after)


class RunsTest(unittest.TestCase):
    """Random settings and steps, each run beside the model; recorded runs and the conformance suite have each mode."""

    @settings(max_examples=25, deadline=None)
    @given(
        start=st.one_of(st.integers(0, 127).map(lambda power: 2.0**power), st.floats(1, MAX, width=32)),
        period=st.integers(-2, 7),
        multiplier=st.one_of(
            st.sampled_from([1.0, 1.3, 2.0, 4.0, 10.0, 1.0000001]), st.floats(1, 1e6, width=32), st.just(MAX)
        ),
        # Mostly finite, so that the scale climbs as well.
        steps=st.lists(st.sampled_from([True, True, True, False]), max_size=40),
    )
    def test_any(self, start: float, period: int, multiplier: float, steps: list[bool]) -> None:
        expected, good = np.float32(start), 0
        scale, step = stepping("eager", start, period, multiplier)
        for finite in steps:
            self.assertEqual(step(finite), finite)
            expected, good = float32_model(expected, good, finite, period, multiplier)
            self.assertEqual((np.float32(scale()), int(scale._num_good_steps)), (expected, good))
            self.assertTrue(1 <= expected <= MAX)
