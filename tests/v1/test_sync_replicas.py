"""`SyncReplicasOptimizer` around the wrapper and inside it, with overflows in the middle of training."""

from __future__ import annotations

import functools
import json
import pathlib
import unittest
from typing import Any

from tests.processes import run_python

PROGRAM = pathlib.Path(__file__).with_name("sync_training.py")
ORDERS = ("bare", "outside", "inside")
RUNS = (*ORDERS, "counted", "disabled")


@functools.cache
def reports() -> dict[str, Any]:
    """Return what came out, by order: of a process of its own, since a session that hangs cannot be ended otherwise."""
    done = run_python(str(PROGRAM), *RUNS)
    assert done.returncode == 0, done.stderr
    return dict(zip(RUNS, map(json.loads, done.stdout.splitlines()), strict=True))


class SyncReplicasTest(unittest.TestCase):
    def test_finite_steps_are_those_of_the_bare_optimizer(self) -> None:
        bare = [step[:2] for step in reports()["bare"]["steps"]]
        self.assertEqual([step for _, step in bare], [1, 2, 3, 4])
        for order in ("outside", "inside"):
            with self.subTest(order):
                steps = [step[:2] for step in reports()[order]["steps"]]
                # The third and the fifth are skipped: nothing moves.
                self.assertEqual([steps[i] for i in (0, 1, 3, 5)], bare)
                self.assertEqual([steps[i] for i in (2, 4)], [steps[i] for i in (1, 3)])

    def test_the_scale_follows_the_rule(self) -> None:
        for order in ("outside", "inside"):
            with self.subTest(order):
                scales = [step[2:] for step in reports()[order]["steps"]]
                self.assertEqual(scales, [[8, 1], [16, 0], [8, 0], [8, 1], [4, 0], [4, 1]])

    def test_slots_are_found(self) -> None:
        for order in ORDERS:
            self.assertEqual(reports()[order]["slots"], ["momentum"])

    def test_a_step_counts_when_it_is_applied(self) -> None:
        """And not when a worker has given its gradients, though a fixed scale never skips."""
        self.assertEqual(reports()["counted"]["steps"], [[-1, 2, 2, 0]])

    def test_nothing_is_skipped_where_scaling_is_off(self) -> None:
        self.assertEqual(reports()["disabled"]["steps"], ["-inf", "1"])
