"""An initial scale of `'auto'`: the highest scale that does not overflow is found in the first steps."""

from __future__ import annotations

import unittest
from typing import Any

import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.keras
import mpls.v1

from .trainers import FAMILIES, trainer

INF = float("inf")


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


class SearchTest(unittest.TestCase):
    """After which steps the scale grows, once the search has met an overflow or the ceiling."""

    def _runs(self, scale: Any, values: list[tuple[int, float]]) -> list[float]:
        """Take runs of steps, each of a number of steps and their gradient; return the scale after each run."""
        shown = []
        for steps, value in values:
            for _ in range(steps):
                scale.update([tf.constant(value)])
            shown.append(float(scale()))
        return shown

    def test_after_overflows_it_waits_longer_each_time(self) -> None:
        scale = mpls.v1.DynamicLossScale("auto", increment_period=1500)
        runs = [
            (1, 1.0),
            (1, INF),
            (31, 1.0),
            (1, 1.0),
            (1, INF),
            (1023, 1.0),
            (1, 1.0),
            (1, INF),
            (1499, 1.0),
            (1, 1.0),
        ]
        expected = [512.0, 256.0, 256.0, 512.0, 256.0, 256.0, 512.0, 256.0, 256.0, 512.0]
        self.assertEqual(self._runs(scale, runs), expected)

    def test_with_a_counter_of_the_program(self) -> None:
        class Small(mpls.v1.DynamicLossScale):
            def __init__(self) -> None:
                super().__init__("auto")
                self._num_good_steps = self._add_weight("counted", 0, tf.int32)

        values = [(1, 1.0), (2, INF), (9, 1.0), (1, INF), (9, 1.0)]
        self.assertEqual(self._runs(Small(), values), self._runs(mpls.v1.DynamicLossScale("auto"), values))

    def test_a_ceiling_ends_it(self) -> None:
        scale = mpls.v1.DynamicLossScale("auto", increment_period=100, max_scale=512.0)
        runs = [(1, 1.0), (1, 1.0), (1, INF), (99, 1.0), (1, 1.0)]
        self.assertEqual(self._runs(scale, runs), [512.0, 512.0, 256.0, 256.0, 512.0])

    def test_a_damaged_number_of_steps_counts_as_one(self) -> None:
        scale = mpls.v1.DynamicLossScale("auto", increment_period=1500)
        scale()
        (steps,) = (each for (name, _), each in scale._weights.items() if name == "search_steps")
        steps.assign(0)
        runs = [(1, INF), (31, 1.0), (1, 1.0)]
        self.assertEqual(self._runs(scale, runs), [128.0, 128.0, 256.0])


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
