"""The example runs, and its tables say what there is to see."""

from __future__ import annotations

import functools
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import pytest
from matplotlib.image import imread

from tests.processes import process_environment

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "mirrored_digits.py"
RUN = ["run", "test accuracy", "gradients underflowed", "final scale", "skipped steps", "seconds"]
REPLICAS = ["replica", "device", "checksum of weights", "steps", "loss scale", "finite steps at it", "test accuracy"]


def run(folder: str, *arguments: str, timeout: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLE), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=timeout,
        check=False,
        env=process_environment(needs=["matplotlib", "sklearn"], PYTHONIOENCODING="utf-8"),
    )


class Outcome:
    """What a run left: its two tables, its streams, its plot."""

    def __init__(self, *arguments: str, timeout: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            process = run(folder, "--out", "plots/of/two.png", *arguments, timeout=timeout)
            if process.returncode:
                raise AssertionError(f"{arguments}\n{process.stdout[-2000:]}\n{process.stderr[-4000:]}")
            self.files = sorted(str(p.relative_to(folder)) for p in pathlib.Path(folder).rglob("*") if p.is_file())
            self.image = imread(pathlib.Path(folder) / "plots/of/two.png")
        self.stdout, self.stderr = process.stdout, process.stderr
        lines = [line for line in self.stdout.splitlines() if " | " in line]
        cells = [[cell.strip() for cell in line.split(" | ")] for line in lines]
        self.run_header, self.run, self.header, *replicas = cells
        self.replicas = [dict(zip(self.header, row, strict=True)) for row in replicas]


@functools.cache
def quick() -> Outcome:
    return Outcome("--quick", timeout=240)


class QuickRunTest(unittest.TestCase):
    @pytest.mark.programs
    def test_both_replicas_hold_the_same(self) -> None:
        outcome = quick()
        self.assertEqual(outcome.header, REPLICAS)
        first, second = outcome.replicas
        self.assertEqual([first.pop("replica"), second.pop("replica")], ["0", "1"])
        self.assertEqual([first.pop("device"), second.pop("device")], ["CPU:0", "CPU:1"])
        self.assertEqual(first, second)
        self.assertRegex(first["checksum of weights"], "^[0-9a-f]{8}$")

    @pytest.mark.programs
    def test_damaged_batches_of_one_replica_are_skipped(self) -> None:
        outcome = quick()
        self.assertIn("Damaged batches, all of the last replica: 3", outcome.stdout)
        run = dict(zip(outcome.run_header, outcome.run, strict=True))
        self.assertEqual(outcome.run_header, RUN)
        self.assertEqual(run["skipped steps"], "3")
        # Of 40 steps, those with the indices 10, 20 and 30; the last nine are finite.
        self.assertEqual(float(run["final scale"]), 2.0**15 / 2**3)
        for replica in outcome.replicas:
            self.assertEqual([replica["steps"], replica["finite steps at it"]], ["40", "9"])
            self.assertEqual(float(replica["loss scale"]), 2.0**12)
            self.assertEqual(replica["test accuracy"], run["test accuracy"])
        self.assertLess(float(run["gradients underflowed"].rstrip("%")), 1.0)

    @pytest.mark.programs
    def test_progress_bar_plot_and_no_warnings(self) -> None:
        outcome = quick()
        self.assertRegex(outcome.stderr, r"float16 \+ mpls *: 100%.* 40/40 ")
        self.assertIsNone(re.search("Warning|WARNING:tensorflow", outcome.stderr), outcome.stderr)
        self.assertEqual(outcome.files, ["plots/of/two.png"])
        self.assertIn("Plot: plots/of/two.png", outcome.stdout)
        height, width, _ = outcome.image.shape
        self.assertGreater(min(height, width), 700)


@pytest.mark.long
class FullRunTest(unittest.TestCase):
    def test_it_learns_through_the_damaged_batches(self) -> None:
        outcome = Outcome(timeout=1200)
        first, second = outcome.replicas
        self.assertEqual(first["checksum of weights"], second["checksum of weights"])
        self.assertEqual(first["steps"], "4500")
        self.assertGreater(float(first["test accuracy"].rstrip("%")), 90.0)
