"""A variable on which each replica has the gradient that it is told, in a custom loop."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.conformance.devices import quick_joins

from .families import Family, Optimizer
from .strategies import parts, replica_slice


class Summing(enum.Enum):
    """Who sums gradients over replicas."""

    OPTIMIZER = "optimizer"
    LOOP = "loop"
    NOBODY = "nobody"


class Slope:
    """One weight, which starts at 1, and its optimizer under a strategy.

    Args:
        family: the family of the optimizer.
        make: makes the optimizer.
        strategy: the strategy.
        summing: who sums gradients over replicas; whoever does not leave it to the optimizer tells it so.
        is_built: whether a Keras 3 optimizer has its variables before the first step.
    """

    def __init__(
        self,
        family: Family,
        make: Callable[[], Optimizer],
        strategy: Any,
        summing: Summing = Summing.OPTIMIZER,
        is_built: bool = True,
    ) -> None:
        self.family, self.strategy, self._summing = family, strategy, summing
        with strategy.scope():
            self.weight = family.variable(np.array([1.0], np.float32), "weight")
            self.opt = make()
            if is_built and hasattr(self.opt.outer, "build"):
                self.opt.outer.build([self.weight])
        self._run = tf.function(self._step)

    def _step(self, slopes: Any) -> None:
        self.strategy.run(lambda: self._replica_step(replica_slice(slopes)[0]))

    def _replica_step(self, slope: Any) -> None:
        family, opt, variables = self.family, self.opt, [self.weight]
        grads = family.grads(opt, lambda: slope * tf.reduce_sum(tf.convert_to_tensor(self.weight)), variables)
        if self._summing is Summing.OPTIMIZER:
            family.apply(opt, grads, variables)
            return
        if self._summing is Summing.LOOP:
            grads = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, grads)
        family.apply_summed(opt, grads, variables)

    def step(self, *slopes: float) -> list[float]:
        """Take a step with a slope for each replica; return the weight on each, or once where they share it."""
        with self.strategy.scope(), quick_joins():
            self._run(tf.constant(slopes, tf.float32))
        return [part.item() for part in parts(self.strategy, self.weight)]

    def scales(self) -> list[float]:
        with self.strategy.scope():
            return [part.item() for part in parts(self.strategy, self.family.scale(self.opt))]

    def counters(self) -> list[int]:
        with self.strategy.scope():
            return [part.item() for part in parts(self.strategy, self.opt.counter)]
