"""A regression on a global batch of four rows, trained in a custom loop under any strategy, scaled or bare.

A row is `(inputs, target, factor)`, and its loss is `factor * (inputs . weights + bias - target)**2`; the loss of the
batch is the sum. Whichever way the rows are divided among replicas, the gradients to apply are the same. A factor
of infinity or NaN makes the gradients of the replica that has the row non-finite.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from .families import Family, Optimizer
from .strategies import agreed, quick_joins, replica_slice

ROWS = 4


def batch(index: int, bad_row: int | None = None, bad_factor: float = np.nan) -> np.ndarray:
    """Return the global batch of a step, an array of rows, with one that is bad."""
    rng = np.random.default_rng(index)
    rows = rng.uniform(-1.0, 1.0, [ROWS, 4]).astype(np.float32)
    factors = np.full([ROWS, 1], 0.25, np.float32)
    if bad_row is not None:
        factors[bad_row] = bad_factor
    return np.concatenate([rows, factors], axis=1)


def loss_of(variables: list[Any], rows: Any) -> Any:
    weights, bias = map(tf.convert_to_tensor, variables)
    error = tf.linalg.matvec(rows[:, :3], weights) + bias[0] - rows[:, 3]
    return tf.reduce_sum(rows[:, 4] * error * error)


@dataclasses.dataclass
class State:
    """What all replicas hold after a step."""

    weights: list[np.ndarray]
    slots: list[np.ndarray]
    counter: int
    scale: float | None
    good_steps: int | None


class Training:
    """One regression, its optimizer and its strategy.

    Args:
        family: the family of the optimizer.
        make: the method of the family that makes it.
        strategy: the strategy.
        sums_itself: whether the loop sums the gradients over replicas, and tells the optimizer so.
        is_function: whether a step is a `tf.function`.
    """

    def __init__(
        self,
        family: Family,
        make: Callable[[], Optimizer],
        strategy: Any,
        sums_itself: bool = False,
        is_function: bool = True,
    ) -> None:
        self.family, self.strategy, self._sums_itself = family, strategy, sums_itself
        with self.scope():
            self.variables = [
                family.variable(np.array([0.3, -0.7, 1.1], np.float32), "weights"),
                family.variable(np.array([0.1], np.float32), "bias"),
            ]
            self.opt = make()
        step = self._step
        self._run = tf.function(step) if is_function else step

    def scope(self) -> Any:
        return self.strategy.scope()

    def _step(self, rows: Any) -> None:
        self.strategy.run(lambda: self._replica_step(replica_slice(rows)))

    def _replica_step(self, rows: Any) -> None:
        family, opt, variables = self.family, self.opt, self.variables
        grads = family.grads(opt, lambda: loss_of(variables, rows), variables)
        if self._sums_itself:
            context = tf.distribute.get_replica_context()
            family.apply_summed(opt, context.all_reduce(tf.distribute.ReduceOp.SUM, grads), variables)
        else:
            family.apply(opt, grads, variables)

    def step(self, rows: np.ndarray) -> State:
        with self.scope(), quick_joins():
            self._run(tf.constant(rows))
        return self.state()

    def state(self) -> State:
        with self.scope():
            is_scaled = self.opt.outer is not self.opt.inner
            values = {
                "weights": self.variables,
                "slots": self.family.slots(self.opt, self.variables),
                "counter": [self.opt.counter],
                "scale": [self.family.scale(self.opt)] if is_scaled else [],
                "good_steps": [self.family.good_steps(self.opt)] if is_scaled else [],
            }
            read = {
                name: [agreed(self.strategy, variable, name) for variable in variables]
                for name, variables in values.items()
            }
        first = {name: read[name][0].item() if read[name] else None for name in ("counter", "scale", "good_steps")}
        return State(read["weights"], read["slots"], **first)
