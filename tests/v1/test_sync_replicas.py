"""`SyncReplicasOptimizer` around the wrapper and inside it, with overflows in the middle of training."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import unittest
from typing import Any, ClassVar

import pytest

from tests.processes import process_environment

PROGRAM = pathlib.Path(__file__).with_name("sync_training.py")
ORDERS = ("bare", "outside", "inside")
# What a process is started for: one for all that must go well, one for each that cannot.
RUNS = (("mpls", *ORDERS), ("original", "outside"), ("original", "inside"))


class SyncReplicasTest(unittest.TestCase):
    """Sessions run in processes of their own, since a hanging one cannot be ended otherwise."""

    processes: ClassVar[dict[tuple[str, ...], subprocess.Popen[str]]] = {}
    results: ClassVar[dict[tuple[str, ...], tuple[int, list[str], str]]] = {}

    @classmethod
    def start(cls, run: tuple[str, ...]) -> None:
        cls.processes[run] = subprocess.Popen(
            [sys.executable, str(PROGRAM), *run],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=process_environment(),
        )

    @classmethod
    def tearDownClass(cls) -> None:
        for process in cls.processes.values():
            if process.poll() is None:
                process.kill()
                process.communicate()

    def result(self, *run: str) -> tuple[int, list[str], str]:
        if run not in self.results:
            # Those of the original wait for what does not come; they wait side by side.
            for each in {*(RUNS[1:] if run in RUNS[1:] else ()), run} - self.processes.keys():
                self.start(each)
            process = self.processes[run]
            out, err = process.communicate(timeout=180)
            self.results[run] = (process.returncode, out.splitlines(), err)
        return self.results[run]

    def report(self, order: str, api: str) -> dict[str, Any]:
        run = RUNS[0] if api == "mpls" else (api, order)
        code, lines, err = self.result(*run)
        self.assertEqual(code, 0, err)
        self.assertEqual(len(lines), len(run) - 1)
        return json.loads(lines[run.index(order) - 1])

    @pytest.mark.matrix
    def test_finite_steps_are_those_of_the_bare_optimizer(self) -> None:
        bare = [step[:2] for step in self.report("bare", "mpls")["steps"]]
        self.assertEqual([step for _, step in bare], [1, 2, 3, 4])
        for order in ("outside", "inside"):
            with self.subTest(order):
                report = self.report(order, "mpls")
                self.assertFalse(report["stuck"])
                steps = [step[:2] for step in report["steps"]]
                # The third and the fifth are skipped: nothing moves.
                self.assertEqual([steps[i] for i in (0, 1, 3, 5)], bare)
                self.assertEqual([steps[i] for i in (2, 4)], [steps[i] for i in (1, 3)])

    def test_the_scale_follows_the_rule(self) -> None:
        for order in ("outside", "inside"):
            with self.subTest(order):
                scales = [step[2:] for step in self.report(order, "mpls")["steps"]]
                self.assertEqual(scales, [[8, 1], [16, 0], [8, 0], [8, 1], [4, 0], [4, 1]])

    def test_slots_are_found(self) -> None:
        for order in ORDERS:
            self.assertEqual(self.report(order, "mpls")["slots"], ["momentum"])

    @pytest.mark.matrix
    def test_the_original_around_which_it_stood_waited_for_ever_after_an_overflow(self) -> None:
        report = self.report("outside", "original")
        self.assertTrue(report["stuck"])
        self.assertEqual([step[1] for step in report["steps"]], [1, 2, 2])

    @pytest.mark.matrix
    def test_the_original_inside_which_it_stood_could_not_start_a_session(self) -> None:
        code, _, err = self.result("original", "inside")
        self.assertNotEqual(code, 0)
        self.assertRegex(err, "not fetchable|cannot be interpreted as a Tensor")
