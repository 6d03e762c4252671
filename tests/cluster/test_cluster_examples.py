"""The examples of several machines: one command each starts all processes, trains, and shows a table."""

from __future__ import annotations

import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import uuid
from typing import Any

import pytest
from parameterized import parameterized

from .launcher import EXAMPLES, environment, once, processes_of

pytestmark = pytest.mark.programs

COLUMNS = ["process", "final scale", "skipped steps", "test accuracy", "weights", "seconds"]
# Each script with the processes that its table shows.
SCRIPTS = (
    ("multi_worker", ("worker:0", "worker:1")),
    ("between_graph", ("worker:0", "worker:1")),
    ("parameter_server", ("chief:0",)),
)
TOY = pathlib.Path(__file__).with_name("toy_example.py")


def run_script(script: pathlib.Path, *arguments: str) -> dict[str, Any]:
    """Return the exit status of a script, its streams, and what it has left: processes and files."""
    marker = uuid.uuid4().hex
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.run(
            [sys.executable, str(script), *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=400,
            check=False,
            env={**os.environ, **environment(marker, ["matplotlib", "sklearn"])},
        )
        files = os.listdir(folder)
    return {
        "status": process.returncode,
        "stdout": process.stdout,
        "stderr": process.stderr,
        "processes": processes_of(marker),
        "files": files,
    }


@functools.cache
def quick_run(script: str) -> dict[str, Any]:
    return run_script(EXAMPLES / f"{script}.py", "--quick")


@once
def full_runs() -> dict[str, Any]:
    return {script: run_script(EXAMPLES / f"{script}.py") for script, _ in SCRIPTS}


def table_of(run: dict[str, Any]) -> tuple[list[str], dict[str, dict[str, str]]]:
    """Return the columns, and the rows by process."""
    lines = [line for line in run["stdout"].splitlines() if " | " in line]
    header, *rows = ([cell.strip() for cell in line.split(" | ")] for line in lines)
    return header, {row[0]: dict(zip(header, row, strict=True)) for row in rows}


class QuickRun(unittest.TestCase):
    """The tests of one script."""

    script: str
    processes: tuple[str, ...]

    def test_table(self) -> None:
        run = quick_run(self.script)
        self.assertEqual(run["status"], 0, run["stderr"])
        header, rows = table_of(run)
        self.assertEqual(header, COLUMNS)
        self.assertEqual(tuple(rows), self.processes)
        for row in rows.values():
            # One overflow, from 2**15, on one worker.
            self.assertEqual((row["final scale"], row["skipped steps"]), ("16384", "1"))
            self.assertRegex(row["weights"], "^[0-9a-f]{8}$")
            # Nothing is learned yet: around the 10 % of a guess.
            self.assertLess(abs(float(row["test accuracy"][:-1]) - 10), 20)
            self.assertGreater(float(row["seconds"]), 0)
        self.assertEqual(len({row["weights"] for row in rows.values()}), 1)

    def test_progress_bar_and_no_warnings(self) -> None:
        errors = quick_run(self.script)["stderr"]
        self.assertRegex(errors, rf"{re.escape(self.script)}: 100%.* 40/40 .*scale=")
        self.assertNotIn("Warning", errors)
        self.assertNotIn("Traceback", errors)

    def test_nothing_is_left(self) -> None:
        run = quick_run(self.script)
        self.assertEqual(run["processes"], [])
        self.assertEqual(run["files"], [])


class MultiWorkerTest(QuickRun):
    script, processes = SCRIPTS[0]


@pytest.mark.full
class BetweenGraphTest(QuickRun):
    script, processes = SCRIPTS[1]


@pytest.mark.full
class ParameterServerTest(QuickRun):
    script, processes = SCRIPTS[2]


del QuickRun


@pytest.mark.long
class FullRunTest(unittest.TestCase):
    @parameterized.expand(SCRIPTS)
    def test_it_learns_in_time_in_spite_of_the_overflow(self, script: str, processes: tuple[str, ...]) -> None:
        run = full_runs()[script]
        self.assertEqual(run["status"], 0, run["stderr"])
        _, rows = table_of(run)
        for row in rows.values():
            self.assertEqual((row["final scale"], row["skipped steps"]), ("16384", "1"))
            self.assertGreater(float(row["test accuracy"][:-1]), 90)
            self.assertLess(float(row["seconds"]), 90)


class ToyExampleTest(unittest.TestCase):
    """A script that does not train takes a hundredth of a second for a step."""

    def test_processes_that_see_different_weights_are_an_error(self) -> None:
        run = run_script(TOY, "--steps", "3")
        self.assertEqual(run["status"], 1)
        _, rows = table_of(run)
        self.assertEqual(tuple(rows), ("worker:0", "worker:1"))
        self.assertTrue(run["stderr"].endswith("The processes do not see the same weights.\n"), run["stderr"])

    def test_a_deadline_that_passes_ends_all(self) -> None:
        run = run_script(TOY, "--steps", "6000", "--deadline", "2")
        self.assertEqual(run["status"], 1)
        self.assertIn("toy_example.py: not done after 2 seconds; all processes have been ended\n", run["stderr"])
        self.assertEqual(run["stdout"], "")
        self.assertEqual(run["processes"], [])
