"""ParameterServerStrategy: a coordinator, a worker and a parameter server."""

from __future__ import annotations

import unittest
from typing import Any

import pytest
from parameterized import parameterized

from .launcher import Messages, assert_skips, launch, once, said, without_scale

pytestmark = pytest.mark.programs

# The scale and the count after each step, from 8 and 0; it grows after two finite steps.
SCALES = ((8, 1), (16, 0), (8, 0), (8, 1), (4, 0), (2, 0), (1, 0), (1, 0), (1, 1), (2, 0), (2, 1), (1, 0))
APPLIED = (0, 1, 3, 8, 9, 10)

TRAINED = (("v1",), ("keras3_apply",))
REFUSED = (("legacy",), ("new",))


@once
def cluster() -> Messages:
    names = [f"{name} {api}" for (name,) in TRAINED for api in ("mpls", "bare")]
    names += [f"{name} mpls" for (name,) in REFUSED]
    jobs = {"chief": 1, "worker": 1, "ps": 1}
    return launch("parameter_server_training.py", jobs, *names, serving=("worker", "ps"))


def said_by_chief(case: str) -> dict[str, Any]:
    (message,) = said(cluster(), case, ["chief:0"])
    return message


class TrainedTest(unittest.TestCase):
    @parameterized.expand(TRAINED)
    def test_skipped_steps_change_the_scale_alone(self, name: str) -> None:
        found, bare = said_by_chief(f"{name} mpls"), said_by_chief(f"{name} bare")["steps"]
        self.assertLessEqual({"scale", "good_steps", "iterations", "dense", "rows"}, found["devices"].keys())
        self.assertEqual(set(found["devices"].values()), {"/job:ps/replica:0/task:0/device:CPU:0"})
        assert_skips(found["steps"], APPLIED, SCALES)
        self.assertEqual([without_scale(found["steps"][step]) for step in APPLIED], bare)
        self.assertEqual([step["iterations"] for step in bare], [1, 2, 3, 4, 5, 6])


class RefusedTest(unittest.TestCase):
    @parameterized.expand(REFUSED)
    def test_it_is_refused_before_anything_is_created(self, name: str) -> None:
        answer = said_by_chief(f"{name} mpls")
        for part in ("ParameterServerStrategy", "mpls.v1", "mpls docs strategies"):
            self.assertIn(part, answer["refusal"])
        self.assertEqual(answer["created"], [])
        self.assertEqual(answer["changed"], [])
