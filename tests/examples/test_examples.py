"""The examples on one machine run, and what they print and plot is true."""

from __future__ import annotations

import functools
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import numpy as np
import pytest
from matplotlib.image import imread
from parameterized import parameterized

from tests.processes import Forks, process_environment, run_python

pytestmark = pytest.mark.programs

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
# How each is started: one is a program of TF 1.15 that knows nothing of mpls.
COMMANDS = {
    "legacy_digits": ("-m", "mpls", "run", "--v1", "--contrib", "--report"),
    "tf1_digits": (),
    "keras_digits": (),
    "keras3_digits": (),
}
SCRIPTS = tuple(COMMANDS)
# One plots into a file that is asked for, the others into the default one.
ASKED_FOR = {"keras_digits": "plots/of/keras.png"}
# It has two replicas, and a table of them.
MIRRORED = "mirrored_digits"
FORKS = Forks()
COLUMNS = ["run", "test accuracy", "gradients underflowed", "final scale", "skipped steps", "seconds"]
FLOAT32, UNSCALED, SCALED = RUNS = ("float32", "float16 without scaling", "float16 + mpls")


def run_script(script: str, *arguments: str, folder: str) -> subprocess.CompletedProcess[str]:
    command = [str(EXAMPLES / f"{script}.py"), *arguments]
    environment = process_environment(needs=["matplotlib", "sklearn"], PYTHONIOENCODING="utf-8")
    if script in SCRIPTS and not COMMANDS[script]:
        return FORKS.run(*command, folder=folder, environment=environment)
    return run_python(*COMMANDS.get(script, ()), *command, folder=folder, environment=environment)


class Outcome:
    """What a run of a script left: its table as numbers, its streams, its plot."""

    def __init__(self, script: str, *arguments: str, plot: str | None = None) -> None:
        with tempfile.TemporaryDirectory() as folder:
            process = run_script(script, *arguments, folder=folder)
            if process.returncode:
                raise AssertionError(f"{script} {arguments}\n{process.stdout[-2000:]}\n{process.stderr[-4000:]}")
            self.files = sorted(str(p.relative_to(folder)) for p in pathlib.Path(folder).rglob("*") if p.is_file())
            self.image = imread(pathlib.Path(folder) / (plot or f"out/{script}.png"))
        self.stdout, self.stderr = process.stdout, process.stderr
        lines = [line for line in self.stdout.splitlines() if " | " in line]
        self.cells = [[cell.strip() for cell in line.split(" | ")] for line in lines]
        self.header, *rows = self.cells[:2] if script == MIRRORED else self.cells
        self.rows = {name: [read_number(cell) for cell in cells] for name, *cells in rows}

    def column(self, name: str) -> dict[str, float]:
        index = self.header.index(name) - 1
        return {run: cells[index] for run, cells in self.rows.items()}


def read_number(cell: str) -> float:
    return float(cell[:-1]) / 100 if cell.endswith("%") else float(cell)


@functools.cache
def quick_outcome(script: str) -> Outcome:
    plot = ASKED_FOR.get(script)
    return Outcome(script, "--quick", *(("--out", plot) if plot else ()), plot=plot)


class BetweenTestCase(unittest.TestCase):
    def assertBetween(self, value: float, low: float, high: float) -> None:  # noqa: N802
        self.assertGreaterEqual(value, low)
        self.assertLessEqual(value, high)


class QuickRunTest(BetweenTestCase):
    @parameterized.expand(SCRIPTS)
    def test_table(self, script: str) -> None:
        outcome = quick_outcome(script)
        self.assertEqual(outcome.header, COLUMNS)
        self.assertEqual(tuple(outcome.rows), RUNS)
        # The first gradients overflow in float16, and nothing else: each skipped step has halved the scale.
        skipped = outcome.column("skipped steps")
        self.assertEqual({**skipped, SCALED: 0}, dict.fromkeys(RUNS, 0.0))
        self.assertBetween(skipped[SCALED], 3, 8)
        scale = 2.0 ** (30 - skipped[SCALED])
        self.assertEqual(outcome.column("final scale"), {FLOAT32: 1.0, UNSCALED: 1.0, SCALED: scale})
        for run in RUNS:
            self.assertGreater(outcome.column("seconds")[run], 0)
            # Nothing is learned yet: around the 10 % of a guess.
            self.assertBetween(outcome.column("test accuracy")[run], 0.02, 0.4)
        underflow = outcome.column("gradients underflowed")
        self.assertEqual(underflow[FLOAT32], 0)
        self.assertBetween(underflow[UNSCALED], 0.2, 0.5)
        self.assertLess(underflow[SCALED], 0.01)

    @parameterized.expand(SCRIPTS)
    def test_progress_bar_and_no_warnings(self, script: str) -> None:
        stderr = quick_outcome(script).stderr
        for run in RUNS:
            self.assertRegex(stderr, rf"{re.escape(run)} *: 100%.* 40/40 ")
        self.assertNotIn("Warning", stderr)
        self.assertNotIn("WARNING:tensorflow", stderr)

    @parameterized.expand(SCRIPTS)
    def test_plot(self, script: str) -> None:
        outcome, path = quick_outcome(script), ASKED_FOR.get(script, f"out/{script}.png")
        self.assertEqual(outcome.files, [path])
        self.assertIn(f"Plot: {path}", outcome.stdout)
        height, width, _ = outcome.image.shape
        self.assertGreater(width, 1000)
        self.assertGreater(height, 700)
        # It shows something.
        self.assertGreater(len(np.unique(outcome.image.reshape(-1, outcome.image.shape[-1]), axis=0)), 10)

    def test_legacy_names_are_reported(self) -> None:
        _, _, report = quick_outcome("legacy_digits").stderr.partition("mpls run: the historical names")
        for name in ("ExponentialUpdateLossScaleManager", "LossScaleOptimizer"):
            self.assertRegex(
                report, rf"tf\.contrib\.mixed_precision\.{name} \(1\.13 to 1\.15\)\n    mpls\.contrib\.{name}\n"
            )

    def test_bad_arguments_end_with_a_message(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            process = run_script(SCRIPTS[0], "--steps", "0", folder=folder)
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual(process.returncode, 2)
        self.assertEqual(process.stdout, "")
        self.assertIn("argument --steps: must be a whole number from 1 to 2147483647; got '0'", process.stderr)
        self.assertNotIn("Traceback", process.stderr)


@pytest.mark.long
class FullRunTest(BetweenTestCase):
    @parameterized.expand(SCRIPTS)
    def test_scaling_matches_float32_and_without_it_nothing_is_learned(self, script: str) -> None:
        outcome = Outcome(script)
        underflow, accuracy = outcome.column("gradients underflowed"), outcome.column("test accuracy")
        self.assertGreater(accuracy[FLOAT32], 0.94)
        self.assertLessEqual(round(abs(accuracy[SCALED] - accuracy[FLOAT32]), 6), 0.01)
        self.assertGreater(underflow[UNSCALED], 0.3)
        self.assertLess(underflow[SCALED], 0.01)
        self.assertLess(accuracy[UNSCALED], accuracy[FLOAT32] - 0.3)


class MirroredTest(BetweenTestCase):
    def replicas(self, outcome: Outcome) -> list[dict[str, str]]:
        _, _, header, *rows = outcome.cells
        first, second = replicas = [dict(zip(header, row, strict=True)) for row in rows]
        self.assertEqual([each["replica"] for each in replicas], ["0", "1"])
        self.assertEqual([each["device"] for each in replicas], ["CPU:0", "CPU:1"])
        same = ("checksum of weights", "steps", "loss scale", "finite steps at it", "test accuracy")
        self.assertEqual([first[name] for name in same], [second[name] for name in same])
        self.assertRegex(first["checksum of weights"], "^[0-9a-f]{8}$")
        return replicas

    def test_damaged_batches_of_one_replica_are_skipped_on_both(self) -> None:
        outcome = Outcome(MIRRORED, "--quick")
        self.assertIn("Damaged batches, all of the last replica: 3", outcome.stdout)
        self.assertEqual(outcome.header, COLUMNS)
        self.assertEqual(outcome.column("skipped steps"), {SCALED: 3})
        # Of 40 steps, those with the indices 10, 20 and 30; the last nine are finite.
        self.assertEqual(outcome.column("final scale"), {SCALED: 2.0**12})
        self.assertLess(outcome.column("gradients underflowed")[SCALED], 0.01)
        for replica in self.replicas(outcome):
            self.assertEqual([replica["steps"], replica["finite steps at it"]], ["40", "9"])
            self.assertEqual(float(replica["loss scale"]), 2.0**12)
            self.assertEqual(read_number(replica["test accuracy"]), outcome.column("test accuracy")[SCALED])
        self.assertRegex(outcome.stderr, r"float16 \+ mpls *: 100%.* 40/40 ")
        self.assertNotRegex(outcome.stderr, "Warning|WARNING:tensorflow")
