"""What only shows with more than one replica, first on the original's class where that one fails."""

from __future__ import annotations

import itertools
import unittest
from typing import Any

import pytest
import tensorflow as tf
from parameterized import parameterized

from tests.conformance.devices import central_storage, mirrored

from .families import FAMILIES, KERAS_3, KERAS_3_STYLE, LEGACY, NEW, V_1, Family
from .slope import Slope, Summing

INF, NAN = float("inf"), float("nan")
# Two of them are infinite together.
LARGE = 2e38


def by_name(function: Any, index: int, call: Any) -> str:
    return f"{function.__name__}_{'_'.join(str(getattr(arg, 'name', arg)) for arg in call.args[:2])}"


def named(*rows: Any) -> list[Any]:
    return [row if isinstance(row, tuple) else (row,) for row in rows]


class OneReplicaOverflowsTest(unittest.TestCase):
    """Gradients that no one has summed, or that are summed after the decision: replicas must ask each other."""

    @parameterized.expand(
        list(itertools.product((LEGACY, NEW), (INF, NAN))),
        name_func=by_name,
    )
    @pytest.mark.default_run("each value")
    def test_tf_keras_without_aggregation(self, family: Family, bad: float) -> None:
        native = Slope(family, family.native, mirrored(), Summing.NOBODY)
        first, second = native.step(1.0, bad)
        # The first replica's gradient decides for both.
        self.assertEqual(first, 0.875)
        self.assertNotEqual(abs(second), 1.0)
        self.assertFalse(tf.math.is_finite(second))
        for slopes in ((1.0, bad), (bad, 1.0)):
            ours = Slope(family, family.scaled, mirrored(), Summing.NOBODY)
            self.assertEqual(ours.step(*slopes), [1.0, 1.0])
            self.assertEqual(ours.scales(), [4.0, 4.0])
            # Each its own gradient, as the loop wants it.
            self.assertEqual(ours.step(1.0, 2.0), [0.875, 0.75])
            self.assertEqual(ours.counters(), [2, 2])

    @parameterized.expand(
        list(itertools.product((KERAS_3, KERAS_3_STYLE), (INF, NAN))),
        name_func=by_name,
    )
    @pytest.mark.default_run("each value")
    def test_keras_3(self, family: Family, bad: float) -> None:
        native = Slope(KERAS_3_STYLE, KERAS_3_STYLE.native, mirrored())
        self.assertFalse(any(map(tf.math.is_finite, native.step(1.0, bad))))
        for slopes in ((1.0, bad), (bad, 1.0)):
            ours = Slope(family, family.scaled, mirrored())
            self.assertEqual(ours.step(*slopes), [1.0, 1.0])
            self.assertEqual(ours.scales(), [4.0, 4.0])
            self.assertEqual(ours.step(1.0, 2.0), [0.625, 0.625])
            self.assertEqual(ours.counters(), [1, 1])


class SumOverflowsTest(unittest.TestCase):
    """Each replica's gradient is finite, and their sum is not."""

    @parameterized.expand(named(V_1, KERAS_3_STYLE), name_func=by_name)
    def test_original_applies_it(self, family: Family) -> None:
        native = Slope(family, lambda: family.native(1.0), mirrored())
        self.assertEqual(native.step(LARGE, LARGE), [-INF, -INF])

    @parameterized.expand(named(*FAMILIES), name_func=by_name)
    def test_optimizer_sums(self, family: Family) -> None:
        # Scaled by 1, so that it is not the scale that overflows.
        self.check(Slope(family, lambda: family.scaled(1.0), mirrored()), [1.0, 1.0])

    @parameterized.expand(named(LEGACY, NEW, KERAS_3, KERAS_3_STYLE), name_func=by_name)
    def test_loop_sums(self, family: Family) -> None:
        self.check(Slope(family, lambda: family.scaled(1.0), mirrored(), Summing.LOOP), [1.0, 1.0])

    def test_v1_where_replicas_share_their_variables(self) -> None:
        self.check(Slope(V_1, lambda: V_1.scaled(1.0), central_storage()), [1.0])

    def check(self, slope: Slope, ones: list[float]) -> None:
        for sign in (1, -1):
            self.assertEqual(slope.step(sign * LARGE, sign * LARGE), ones)
        count = 2 if slope.family.advances_on_skip else 0
        self.assertEqual(slope.counters(), [count] * len(ones))
        # It stays at its floor; two finite steps in a row, one of them large, double it.
        self.assertEqual(slope.scales(), ones)
        weights = slope.step(1.0, 1.0)
        self.assertEqual(weights, [0.75] * len(ones))
        weights = slope.step(LARGE / 1e10, LARGE / 1e10)
        self.assertTrue(all(-INF < weight < -1e20 for weight in weights))
        self.assertEqual(slope.scales(), [2.0] * len(ones))


class NotBuiltTest(unittest.TestCase):
    """Optimizers make their variables in the first step, inside `strategy.run`."""

    def test_keras_3(self) -> None:
        native = Slope(KERAS_3_STYLE, KERAS_3_STYLE.native, mirrored(), is_built=False)
        with self.assertRaises((tf.errors.InvalidArgumentError, ValueError, RuntimeError)):
            native.step(1.0, 1.0)

    @parameterized.expand(
        [(family, bad) for family in FAMILIES for bad in (1.0, INF)],
        name_func=by_name,
    )
    @pytest.mark.default_run("one case", by=lambda family, first: (family.name, first))
    def test_first_step(self, family: Family, first: float) -> None:
        slope = Slope(family, family.scaled, mirrored(), is_built=False)
        self.assertEqual(slope.step(1.0, first), [0.75 if first == 1.0 else 1.0] * 2)
        self.assertEqual(slope.scales(), [8.0 if first == 1.0 else 4.0] * 2)
        self.assertEqual(slope.step(0.0, 0.0), [0.625 if first == 1.0 else 1.0] * 2)
