"""Workers that train together all see the scale, and the chief alone writes it, to be drawn."""

from __future__ import annotations

import pathlib
import shutil
import tempfile
import unittest

import pytest
from parameterized import parameterized

from tests.monitor.events import scalars

from .launcher import Messages, launch, once, said

pytestmark = pytest.mark.programs

FAMILIES = ("legacy", "new")
# From 16; three finite steps double it. The second step of each epoch of four is skipped.
SCALES = [16, 16, 8, 8, 8, 16, 8, 8, 8]
SKIPPED = [0, 0, 1, 1, 1, 1, 2, 2, 2]
COUNTS = {
    "loss_scale": 8.0,
    "loss_scale/applied_steps": 6.0,
    "loss_scale/skipped_steps": 2.0,
    "loss_scale/consecutive_skips": 0.0,
}

FOLDER = pathlib.Path(tempfile.mkdtemp())


def tearDownModule() -> None:
    shutil.rmtree(FOLDER)


@once
def cluster() -> Messages:
    return launch("monitored_training.py", {"worker": 2}, str(FOLDER))


class WorkersTest(unittest.TestCase):
    @parameterized.expand(FAMILIES)
    def test_each_worker_sees_the_scale(self, family: str) -> None:
        for seen in said(cluster(), family):
            self.assertEqual([each["step"] for each in seen["readings"]], list(range(9)))
            self.assertEqual([each["loss_scale"] for each in seen["readings"]], SCALES)
            self.assertEqual([each["skipped_steps"] for each in seen["readings"]], SKIPPED)
            self.assertEqual(seen["scales"], [8.0, 8.0])

    @parameterized.expand(FAMILIES)
    def test_the_chief_writes_what_fit_shows(self, family: str) -> None:
        cluster()
        files = [path for path in (FOLDER / family / "fit").rglob("*") if path.is_file()]
        self.assertEqual(len(files), 1, files)
        found = scalars(FOLDER / family / "fit")
        self.assertEqual([scale for _, scale in found["batch_loss_scale"]], SCALES[1:])
        self.assertEqual([skipped for _, skipped in found["batch_skipped_steps"]], SKIPPED[1:])

    @parameterized.expand(FAMILIES)
    def test_of_the_replicas_that_of_the_chief_writes(self, family: str) -> None:
        cluster()
        files = list((FOLDER / family / "scalars").iterdir())
        self.assertEqual(len(files), 2)
        # One file is empty.
        found = scalars(FOLDER / family / "scalars")
        self.assertEqual(found, {tag: [(8, value)] for tag, value in COUNTS.items()})
