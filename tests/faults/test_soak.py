"""200,000 steps of each family, some of them bad: scale and counts stay those of the rule, and memory does not grow."""

from __future__ import annotations

import pathlib
import random
import unittest

import pytest
from parameterized import parameterized

from tests.options.model import Model
from tests.options.trainers import FAMILIES, FUNCTION, MODES, SESSION, SKIPS_COUNT, trainer

STEPS, SEEN_EVERY = 200_000, 997
# The weights stay exact: each step adds or takes the same power of two.
GOOD = (1.0, -1.0)
BAD = (float("nan"), float("inf"), float("-inf"))


def resident() -> int:
    """Return the memory of this process in MiB, as Linux tells it."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 // 2**20


@pytest.mark.long
class SoakTest(unittest.TestCase):
    @parameterized.expand(
        [
            (f"{family}_{mode}", family, mode)
            for family in FAMILIES
            for mode in (FUNCTION, SESSION)
            if mode in MODES[family]
        ]
    )
    def test_many_steps(self, name: str, family: str, mode: str) -> None:
        chance = random.Random(name)
        model = Model(2.0**15, 50, skip_counts_step=SKIPS_COUNT[family])
        expected, memory = 1.0, 0
        with trainer(family, mode, 2.0**15, 50, count_steps=True) as training:
            for number in range(STEPS):
                value = chance.choice(BAD if chance.random() < 0.01 else GOOD)
                training.take(value)
                model.step(value in GOOD)
                if value in GOOD:
                    expected -= 0.25 * value
                if number % SEEN_EVERY == 0 or number == STEPS - 1:
                    self.assertEqual(training.shown(), model.shown(), number)
                    self.assertEqual(training.weight(), expected)
                if number == STEPS // 10:
                    memory = resident()
        self.assertLess(resident() - memory, 64)
        self.assertGreater(model.skipped, STEPS // 200)
