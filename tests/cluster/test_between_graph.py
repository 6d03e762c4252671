"""Workers that share variables on a parameter server, with and without SyncReplicasOptimizer."""

from __future__ import annotations

import math
import unittest
from typing import Any

import pytest
from parameterized import parameterized

from .launcher import Messages, assert_skips, launch, once, said, without_scale

pytestmark = pytest.mark.programs

# The scale and the count after each step, from 8 and 0; it grows after two finite steps.
SCALES = ((8, 1), (16, 0), (8, 0), (4, 0), (2, 0), (1, 0), (1, 0), (1, 1), (2, 0), (2, 1), (1, 0))
APPLIED = (0, 1, 7, 8, 9)

# A case, and the control that has taken the same finite steps.
TOGETHER = (
    ("outside", "bare"),
    ("outside-references", "bare-references"),
    ("outside-control-flow-v2", "bare"),
    ("inside", "bare"),
    ("inside-references", "bare-references"),
    ("inside-control-flow-v2", "bare"),
)
# Cases in which workers may be ahead of each other, so that it is not known which gradients make a step.
AHEAD = ("outside-tokens", "inside-tokens", "outside-backup-worker", "inside-two-batches")


@once
def cluster() -> Messages:
    names = [name for pair in TOGETHER for name in pair]
    names += [*AHEAD, "asynchronous", "overtaken"]
    return launch("between_graph_training.py", {"ps": 1, "worker": 2}, *dict.fromkeys(names))


class TogetherTest(unittest.TestCase):
    """SyncReplicasOptimizer without tokens to begin with: each step is one of both workers."""

    @parameterized.expand(TOGETHER)
    def test_skipped_steps_change_the_scale_alone(self, case: str, control: str) -> None:
        first, second = said(cluster(), case)
        bare, _ = said(cluster(), control)
        self.assertEqual(first["steps"], second["steps"])
        self.assertFalse(first["is_stuck"] or second["is_stuck"])
        assert_skips(first["steps"], APPLIED, SCALES)
        applied = [without_scale(first["steps"][step]) for step in APPLIED]
        self.assertEqual(applied, [without_scale(step) for step in bare["steps"]])
        self.assertEqual([step["global_step"] for step in bare["steps"]], [1, 2, 3, 4, 5])
        self.assertEqual(set(first["devices"].values()), {"/job:ps/task:0"})
        self.assertEqual((first["slots"], bare["slots"]), (["momentum"], ["momentum"]))


class AheadTest(unittest.TestCase):
    """SyncReplicasOptimizer with tokens to begin with, or fewer or more gradients a step than there are workers.

    The second worker has six overflows at first, more than there are tokens.
    """

    @parameterized.expand(AHEAD)
    def test_nobody_waits_for_ever_and_weights_and_scale_stay_sound(self, case: str) -> None:
        for worker in said(cluster(), case):
            self.assertFalse(worker["is_stuck"])
            # One that is not waited for may be some steps behind when the other ends.
            self.assertGreaterEqual(max(step["global_step"] for step in worker["steps"]), 6)
        # The chief may see that the twelfth step was taken, and end, before the other worker has read it.
        self.assertGreaterEqual(max(worker["steps"][-1]["global_step"] for worker in said(cluster(), case)), 11)
        for worker in said(cluster(), case):
            assert_sound(worker["steps"])
            self.assertLess(distance(worker["steps"][-1]), 0.2)


class AsynchronousTest(unittest.TestCase):
    def test_both_train_to_the_end(self) -> None:
        workers = said(cluster(), "asynchronous")
        self.assertEqual([worker["is_stuck"] for worker in workers], [False, False])
        # What there is after both have ended.
        first, second = (worker["steps"][-1] for worker in workers)
        self.assertEqual(first, second)
        # Of the first worker four gradients were not finite, of the second ten.
        self.assertEqual(first["global_step"], 2 * 42 - 4 - 10)
        self.assertLess(distance(first), 1e-3)
        for worker in workers:
            self.assertEqual(len(worker["steps"]), 42 + 1)
            # Both may count a step before one of them finds that growth is due.
            assert_sound(worker["steps"], most_good_steps=2)

    def test_a_finite_step_does_not_undo_what_an_overflow_on_the_other_worker_did_meanwhile(self) -> None:
        for worker in said(cluster(), "overtaken"):
            (step,) = worker["steps"]
            self.assertEqual((step["scale"], step["good_steps"], step["global_step"]), (4, 1, 1))


def assert_sound(steps: list[dict[str, Any]], most_good_steps: int = 1) -> None:
    """Require scales that the rule can reach, and finite numbers."""
    for step in steps:
        mantissa, exponent = math.frexp(step["scale"])
        assert mantissa == 0.5, step
        assert 1 <= exponent <= 44, step
        assert 0 <= step["good_steps"] <= most_good_steps, step
        assert all(map(math.isfinite, numbers(step))), step


def numbers(step: dict[str, Any]) -> list[float]:
    return [*step["dense"], *(row for (row,) in step["rows"])]


def distance(step: dict[str, Any]) -> float:
    """Return how far the weights are from those at which the loss is smallest; the second row is never used."""
    dense_0, dense_1, row_0, _, row_2 = numbers(step)
    return max(abs(dense_0 - 0.7), abs(dense_1 - 0.7), abs(row_0 - 0.1), abs(row_2 - 0.1))
