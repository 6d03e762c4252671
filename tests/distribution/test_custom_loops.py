"""Custom loops: whichever replica a non-finite value is on, all do the same, and what one device would do."""

from __future__ import annotations

import functools
import itertools
import unittest

import numpy as np
import pytest
from parameterized import parameterized

from .families import FAMILIES, LEGACY, NEW, V_1, Family
from .regression import State, Training, batch
from .strategies import MAKERS

INF, NAN = float("inf"), float("nan")

# Step by step: the row that is bad, if one is, with what; the scale and the count of finite steps after it.
# With two replicas, rows 0 and 1 are the first one's.
STEPS: tuple[tuple[int | None, float, float, int], ...] = (
    (None, NAN, 8.0, 1),
    (0, INF, 4.0, 0),
    (None, NAN, 4.0, 1),
    (None, NAN, 8.0, 0),
    (3, NAN, 4.0, 0),
    (2, -INF, 2.0, 0),
    (1, NAN, 1.0, 0),
    (3, INF, 1.0, 0),
    (None, NAN, 1.0, 1),
    (None, NAN, 2.0, 0),
)
FINITE = [index for index, (row, *_) in enumerate(STEPS) if row is None]


def batches() -> list[np.ndarray]:
    return [batch(index, row, factor) for index, (row, factor, *_) in enumerate(STEPS)]


@functools.cache
def on_one_device(family: Family) -> list[State]:
    """Return what each step leaves without a strategy."""
    training = Training(family, family.scaled, MAKERS["no_strategy"]())
    return [training.step(rows) for rows in batches()]


@functools.cache
def without_scaling(family: Family) -> list[State]:
    """Return what a bare optimizer leaves after the finite steps, on one device."""
    training = Training(family, family.bare, MAKERS["no_strategy"]())
    return [training.step(batches()[index]) for index in FINITE]


def assert_near(actual: list[np.ndarray], expected: list[np.ndarray], what: str) -> None:
    assert len(actual) == len(expected) > 0, f"{what}: {len(actual)} arrays are not {len(expected)}"
    for found, wanted in zip(actual, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, err_msg=what)


def assert_same_weights(actual: State, expected: State, what: str) -> None:
    assert_near(actual.weights, expected.weights, f"{what}: weights")
    assert_near(actual.slots, expected.slots, f"{what}: slots")


def loops() -> list[tuple[str, Family, str, bool, bool]]:
    """Return what is run: a family, a strategy, whether the loop sums gradients itself, and in a function."""
    rows = []
    for family, strategy, sums_itself, is_function in itertools.product(FAMILIES, MAKERS, (False, True), (False, True)):
        if sums_itself and (family is V_1 or strategy == "one_device"):
            # v1 optimizers have no such argument; and with one replica it says nothing that no strategy does not say.
            continue
        if strategy == "central_storage" and not family.works_with_central_storage:
            continue
        if strategy == "without_merge_calls" and (not is_function or family not in (LEGACY, NEW)):
            # Collective ops are for functions, in which the others, scaled or not, need merge_call.
            continue
        how = f"{'sums_itself' if sums_itself else 'optimizer_sums'}_{'function' if is_function else 'eager'}"
        rows.append((f"{family.name}_{strategy}_{how}", family, strategy, sums_itself, is_function))
    return rows


class NonFiniteStepsTest(unittest.TestCase):
    @parameterized.expand(loops())
    @pytest.mark.default_run("one case")
    def test_on_each_replica_in_turn(
        self, name: str, family: Family, strategy: str, sums_itself: bool, is_function: bool
    ) -> None:
        training = Training(family, family.scaled, MAKERS[strategy](), sums_itself, is_function)
        finite = 0
        for index, (rows, step) in enumerate(zip(batches(), STEPS, strict=True)):
            # Reading fails if replicas disagree in a single bit.
            state = training.step(rows)
            what = f"step {index}"
            finite += index in FINITE
            self.assertEqual((state.scale, state.good_steps), step[2:], what)
            self.assertEqual(state.counter, index + 1 if family.advances_on_skip else finite, what)
            assert_same_weights(state, on_one_device(family)[index], f"{what} beside one device")
            assert_same_weights(state, without_scaling(family)[finite - 1], f"{what} beside no scaling")
