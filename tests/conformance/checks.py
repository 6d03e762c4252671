"""What the tests share: trainings of a cell, and comparisons."""

from __future__ import annotations

import dataclasses
from typing import Any

import ml_dtypes
import numpy as np
import tensorflow as tf

from .cells import Cell
from .devices import DEVICES
from .hosts import HOSTS
from .setups import SETUPS, Scaling
from .stages import MODES, Factors, Stage
from .training import State, Training, Values


def stage_of(cell: Cell) -> Stage:
    return MODES[cell.mode](DEVICES[cell.devices])


def by_name(function: Any, index: int, call: Any) -> str:
    del index
    return f"{function.__name__}_{call.args[0]}"


def assert_equal(actual: Values, expected: Values, what: str, ulps: int = 0) -> None:
    """Require the same numbers, to the last bit or but for a few, on every replica."""
    assert actual.keys() == expected.keys(), f"{what}: {sorted(actual)} is not {sorted(expected)}"
    for name, parts in actual.items():
        for replica, (part, wanted) in enumerate(zip(parts, expected[name], strict=True)):
            assert part.dtype == wanted.dtype, f"{what}: {name} is {part.dtype}"
            is_same = part.tobytes() == wanted.tobytes() or is_within(ulps, part, wanted)
            assert is_same, f"{what}: {name} on replica {replica}: {part!r} is not {wanted!r}"


def is_within(ulps: int, actual: np.ndarray, expected: np.ndarray) -> bool:
    """Return whether arrays differ by a few last bits of the largest element; sums that cancel lose those of theirs."""
    if not ulps:
        return False
    allowed = ulps * float(ml_dtypes.finfo(expected.dtype).eps) * np.max(np.abs(expected))
    return bool(np.allclose(actual.astype(np.float64), expected.astype(np.float64), rtol=0.0, atol=float(allowed)))


def assert_changed(after: Values, before: Values, names: list[str], what: str) -> None:
    for name in names:
        for part, old in zip(after[name], before[name], strict=True):
            assert part.tobytes() != old.tobytes(), f"{what}: {name}: no weight has changed"


def assert_same_training(actual: State, expected: State, what: str, ulps: int = 0) -> None:
    assert_equal(actual.weights, expected.weights, f"{what}: weights", ulps)
    assert_equal(actual.slots, expected.slots, f"{what}: slots", ulps)
    assert_equal(actual.counter, expected.counter, f"{what}: step counter")


def assert_scalar(values: Values, expected: Any, what: str) -> None:
    """Require a scalar to have a value on every replica."""
    for parts in values.values():
        assert [part.item() for part in parts] == [expected] * len(parts), f"{what}: {parts!r} is not {expected!r}"


def assert_replicas_agree(state: State, what: str) -> None:
    for kind in dataclasses.fields(state):
        values = getattr(state, kind.name)
        assert_equal(values, {name: parts[:1] * len(parts) for name, parts in values.items()}, f"{what}: {kind.name}")


def close_all(trainings: dict[Any, Training]) -> None:
    for training in trainings.values():
        training.stage.close()
    trainings.clear()


class Pair:
    """Two trainings with an optimizer each, that take their steps together."""

    setup = "float16"

    def __init__(self, cell: Cell) -> None:
        self.stage = stage_of(cell)
        host, setup = HOSTS[cell.family], SETUPS[self.setup]
        self.one = Training(host, self.stage, setup, is_scaled=True, prefix="one_")
        other_setup = dataclasses.replace(setup, scaling=Scaling(64.0, 3))
        self.other = Training(host, self.stage, other_setup, is_scaled=True, prefix="other_")
        terms = len(setup.terms)

        def step_both(factors: Any) -> Any:
            results = self.one.replica_step(factors[:terms]), self.other.replica_step(factors[terms:])
            return tf.group([op for op in results if isinstance(op, tf.Operation)])

        with self.stage.scope():
            self._step = self.stage.step(step_both, 2 * terms)

    def step(self, factors: Factors, others: Factors) -> None:
        self._step([[*numbers, *more] for numbers, more in zip(factors, others, strict=True)])
