"""MultiWorkerMirroredStrategy: two processes take each step together, and one of them finds a gradient not finite."""

from __future__ import annotations

import unittest
from typing import Any

import numpy as np
import pytest
from parameterized import parameterized

from .launcher import Messages, assert_skips, launch, once, said

pytestmark = pytest.mark.programs

# The scale and the count after each step, from 8 and 0; it grows after two finite steps.
SCALES = ((8, 1), (16, 0), (8, 0), (8, 1), (4, 0), (2, 0), (2, 1), (4, 0), (4, 1), (2, 0))
APPLIED = (0, 1, 3, 6, 7, 8)

# Family and loop: `fit` under mixed_float16; `custom`, where the optimizer sums the gradients; `reduced`, where the
# loop does, and the sum is not finite on one worker.
TRAINED = (
    ("legacy fit",),
    ("new fit",),
    ("legacy custom",),
    ("new custom",),
    ("keras3 custom",),
    ("keras3_apply custom",),
    ("v1 custom",),
    ("legacy reduced",),
    ("new reduced",),
    ("keras3 reduced",),
)


@once
def cluster() -> Messages:
    names = [f"{name} {what}" for (name,) in TRAINED for what in ("mpls", "bare")]
    return launch("multi_worker_training.py", {"worker": 2}, *names)


def weights(step: dict[str, Any]) -> Any:
    return np.concatenate([np.ravel(weight) for weight in step["weights"]])


class TogetherTest(unittest.TestCase):
    @parameterized.expand(TRAINED)
    def test_skipped_steps_change_the_scale_alone_on_both_workers(self, name: str) -> None:
        (first, second), (bare, _) = said(cluster(), f"{name} mpls"), said(cluster(), f"{name} bare")
        self.assertEqual(first["steps"], second["steps"])
        steps = first["steps"]
        # With tf_keras, a skipped step counts.
        counts_skipped = name.startswith(("legacy", "new"))
        expected = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] if counts_skipped else [1, 2, 2, 3, 3, 3, 4, 5, 6, 6]
        self.assertEqual([step.pop("iterations") for step in steps], expected)
        assert_skips(steps, APPLIED, SCALES)
        applied = [steps[step] for step in APPLIED]
        for step, bare_step in zip(applied, bare["steps"], strict=True):
            np.testing.assert_allclose(weights(step), weights(bare_step), rtol=0, atol=1e-6)
