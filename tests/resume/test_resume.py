"""Training that is resumed in a new process is, bit by bit, the training that was not interrupted."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path
from typing import Any, ClassVar

import pytest
from parameterized import parameterized

from tests.processes import ROOT, process_environment, run_python
from tests.resume.jobs import INITIAL_SCALE, JOBS
from tests.resume.training import SAVED_AT, STEPS

pytestmark = pytest.mark.programs

BACKUPS = ("legacy-backup", "new-backup", "keras3-backup")
# Stopped half way, and saved by that.
REFERENCES = {"v1-monitored": "v1-saver"}


def run(task: str, folder: Path) -> dict[str, Any]:
    command = ["-m", "tests.resume.training", task, str(folder), *JOBS, *BACKUPS]
    result = run_python(*command, environment=process_environment(ROOT))
    assert result.returncode == 0, f"{task} ended with {result.returncode}\n{result.stdout}\n{result.stderr}"
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith('{"job"')]
    return {line["job"]: line["states"] for line in lines}


class ResumeTest(unittest.TestCase):
    whole: ClassVar[dict[str, Any]]
    rest: ClassVar[dict[str, Any]]

    @classmethod
    def setUpClass(cls) -> None:
        with tempfile.TemporaryDirectory() as folder:
            cls.whole = run("whole", Path(folder))
            cls.rest = run("rest", Path(folder))

    @parameterized.expand(sorted(JOBS))
    def test_the_steps_after_it_are_the_same(self, job: str) -> None:
        whole, rest = self.whole[REFERENCES.get(job, job)], self.rest[job]
        self.assertEqual(rest[0]["step"], SAVED_AT)
        self.assertEqual(whole[-1]["step"], STEPS)
        # There is something to lose.
        self.assertNotEqual(rest[0]["scale"], INITIAL_SCALE.hex())
        self.assertGreater(rest[0]["good_steps"], 0)
        self.assertGreater(len({state["scale"] for state in rest}), 1)
        for expected, found in zip(whole[SAVED_AT:], rest, strict=True):
            self.assertEqual(found, expected)

    @parameterized.expand(BACKUPS)
    def test_a_fit_that_was_interrupted(self, job: str) -> None:
        (whole,), (rest,) = self.whole[job], self.rest[job]
        self.assertEqual(whole.pop("epochs"), [0, 1, 2, 3])
        self.assertEqual(rest.pop("epochs"), [2, 3])
        self.assertEqual(rest, whole)
