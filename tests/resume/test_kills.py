"""Training that is killed, ended or interrupted at any moment goes on from the last state that was saved."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

import pytest
from parameterized import parameterized

from tests.processes import ROOT, process_environment

pytestmark = pytest.mark.programs

# One family for each format; the files are written by the same functions for the others.
JOBS = ("v1-saver", "v1-object", "legacy-checkpoint", "legacy-h5", "new-saved_model", "keras3-keras")
# Signals in turn.
ENDS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def start(job: str, folder: Path, output: Path, *last: str) -> subprocess.Popen[bytes]:
    """Start a process that trains on from what was saved; to a last step, without saving, if that is given."""
    command = [sys.executable, "-m", "tests.resume.training", "on", str(folder), job, *last]
    with output.open("wb") as file:
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=process_environment(ROOT))


class KillTest(unittest.TestCase):
    def states(self, output: Path) -> list[dict[str, Any]]:
        lines = output.read_text().splitlines() if output.exists() else []
        # The last line may be half a line.
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def wait_for_states(self, output: Path, number: int) -> None:
        ends_at = time.monotonic() + 60
        while len(self.states(output)) < number:
            if time.monotonic() > ends_at:
                self.fail(f"not {number} states after 60 seconds:\n{output.read_text()[-3000:]}")
            time.sleep(0.01)

    def kill(self, job: str, folder: Path, output: Path, seed: int) -> list[dict[str, Any]]:
        """Let it train on, kill it, and return the state that it had found and those that it had saved."""
        chance = random.Random(seed)
        child = start(job, folder, output)
        self.addCleanup(child.kill)
        self.wait_for_states(output, 2 + chance.randrange(3))
        time.sleep(chance.uniform(0, 0.3))
        number = ENDS[seed % len(ENDS)]
        child.send_signal(number)
        self.assertEqual(child.wait(60), -number, output.read_text()[-3000:])
        return self.states(output)

    def check(self, job: str, kills: int) -> None:
        with tempfile.TemporaryDirectory() as parent:
            folder, empty = Path(parent) / "saved", Path(parent) / "empty"
            folder.mkdir()
            empty.mkdir()
            # One more, which shows what the last kill has left.
            outputs = [Path(parent) / f"output-{life}" for life in range(kills + 1)]
            lives = [self.kill(job, folder, output, seed) for seed, output in enumerate(outputs)]
            last = lives[-1][-1]["step"]
            output = Path(parent) / "output"
            self.assertEqual(start(job, empty, output, str(last)).wait(60), 0, output.read_text()[-3000:])
            expected = {state["step"]: state for state in self.states(output)}
        saved = 0
        for life in lives:
            # What was reported is saved; one more may be, whose report was cut off.
            self.assertIn(life[0]["step"], (saved, saved + 1))
            for state in life:
                self.assertEqual(state, expected[state["step"]])
            saved = life[-1]["step"]
        self.assertGreater(last, kills)

    @parameterized.expand(JOBS)
    @pytest.mark.default_run("one case", rest="full")
    def test_three_kills(self, job: str) -> None:
        self.check(job, 3)

    @parameterized.expand(JOBS)
    @pytest.mark.long
    def test_fifty_kills(self, job: str) -> None:
        self.check(job, 50)
