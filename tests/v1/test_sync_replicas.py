"""`SyncReplicasOptimizer` inside the wrapper; `tests/cluster/test_between_graph.py` has overflows, and it outside."""

from __future__ import annotations

import functools
import json
import pathlib
import unittest
from typing import Any

from tests.processes import run_python

PROGRAM = pathlib.Path(__file__).with_name("sync_training.py")
RUNS = ("counted", "disabled")


@functools.cache
def reports() -> dict[str, Any]:
    """Return what came out, by name: of a process of its own, since a session that hangs cannot be ended otherwise."""
    done = run_python(str(PROGRAM), *RUNS)
    assert done.returncode == 0, done.stderr
    return dict(zip(RUNS, map(json.loads, done.stdout.splitlines()), strict=True))


class SyncReplicasTest(unittest.TestCase):
    def test_a_step_counts_when_it_is_applied(self) -> None:
        """And not when a worker has given its gradients, though a fixed scale never skips."""
        self.assertEqual(reports()["counted"], [-1, 2, 2, 0])

    def test_nothing_is_skipped_where_scaling_is_off(self) -> None:
        self.assertEqual(reports()["disabled"], ["-inf", "1"])
