"""`fit` under mixed_float16: whichever replica overflows, all do the same, and what one device would do."""

from __future__ import annotations

import functools
import itertools
import unittest
from typing import Any

import numpy as np
import pytest
from parameterized import parameterized

from .fitting import FAMILIES, State, examples, fit, states
from .strategies import MAKERS

INF, NAN = float("inf"), float("nan")

# Batch by batch: the example that is bad, if one is, with what; the scale and the count of finite steps after it.
# With two replicas, examples 0 and 1 are the first one's.
STEPS: tuple[tuple[int | None, float, float, int], ...] = (
    (None, NAN, 8.0, 1),
    (0, INF, 4.0, 0),
    (None, NAN, 4.0, 1),
    (3, NAN, 2.0, 0),
    (None, NAN, 2.0, 1),
    (None, NAN, 4.0, 0),
    (1, NAN, 2.0, 0),
    (2, -INF, 1.0, 0),
    (None, NAN, 1.0, 1),
    (3, INF, 1.0, 0),
    (None, NAN, 1.0, 1),
)
FINITE = [index for index, (bad, *_) in enumerate(STEPS) if bad is None]
INPUTS = [examples(bad, value) for bad, value, *_ in STEPS]


@functools.cache
def on_one_device(name: str) -> list[State]:
    return states(name, MAKERS["no_strategy"](), INPUTS)


@functools.cache
def without_scaling(name: str) -> list[np.ndarray]:
    """Return the kernel after each finite batch, trained by a bare optimizer on one device."""
    return fit(name, "bare", MAKERS["no_strategy"](), [INPUTS[index] for index in FINITE], kernel)


def kernel(opt: Any, model: Any) -> np.ndarray:
    return np.array(model.get_weights()[0])


class FitTest(unittest.TestCase):
    @parameterized.expand(itertools.product(FAMILIES, ("no_strategy", "mirrored", "one_device")))
    @pytest.mark.default_run("one case")
    def test_bad_batches_on_each_replica_in_turn(self, name: str, strategy: str) -> None:
        # Reading fails if replicas disagree in a single bit.
        found = states(name, MAKERS[strategy](), INPUTS)
        self.assertEqual(len(found), len(STEPS))
        for index, (state, step, expected) in enumerate(zip(found, STEPS, on_one_device(name), strict=True)):
            what = f"step {index}"
            self.assertEqual((state.scale, state.good_steps), step[2:], what)
            finite = sum(each <= index for each in FINITE)
            self.assertEqual(state.counter, index + 1 if FAMILIES[name].advances_on_skip else finite, what)
            for kind in ("weights", "slots"):
                arrays, wanted = getattr(state, kind), getattr(expected, kind)
                self.assertEqual(len(arrays), 1, what)
                np.testing.assert_allclose(arrays[0], wanted[0], rtol=1e-6, err_msg=f"{what}: {kind}")
            np.testing.assert_allclose(state.weights[0], without_scaling(name)[finite - 1], rtol=1e-6, err_msg=what)
            self.assertTrue(np.isfinite(state.weights[0]).all(), what)
