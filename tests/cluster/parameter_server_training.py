"""A program that trains under a ParameterServerStrategy: a chief, a worker and a parameter server; run by a test.

Usage: parameter_server_training.py CASE... --task (chief | worker | ps):INDEX

A case is `FAMILY API`. The chief has the worker train one after the other, and says for each what it saw after each
step, or how the wrapper was refused.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import _cluster
import keras
import tensorflow as tf
from optimizers import Optimizer, wrapped

from mpls.errors import UnsupportedStrategyError
from tests.conformance.devices import tf_variable

INF, NAN = math.inf, math.nan

# The factor of the loss at each step.
STEPS = (1, 2, INF, 1, NAN, -INF, INF, INF, 0.5, 1, 1, NAN)
FINITE_STEPS = tuple(filter(math.isfinite, STEPS))
DENSE, ROWS = [1.0, -0.3], [[0.9], [0.5], [-0.4]]


def loss(factor: Any, dense: Any, rows: Any) -> Any:
    looked_up = tf.nn.embedding_lookup(rows, [0, 2, 2])
    return factor * (tf.reduce_sum((dense - 0.7) ** 2) + tf.reduce_sum((looked_up - 0.1) ** 2))


class Training:
    """An optimizer, and two variables that it trains.

    Args:
        family: `v1` or `keras3_apply`.
        api: as `Optimizer` takes it.
        strategy: that of the chief.
    """

    def __init__(self, family: str, api: str, strategy: Any) -> None:
        self._strategy, self._coordinator = strategy, tf.distribute.coordinator.ClusterCoordinator(strategy)
        with strategy.scope():
            self.host = Optimizer(family, api)
            make = keras.Variable if self.host.keras is keras else tf.Variable
            self.dense, self.rows = make(DENSE), make(ROWS)
        self.opt, self.counter = self.host.opt, self.host.counter

    def take(self, factor: float) -> None:
        """Have the worker take a step."""
        self._coordinator.schedule(self._step, args=(tf.constant(factor, tf.float32),))
        self._coordinator.join()

    @tf.function
    def _step(self, factor: Any) -> None:
        self._strategy.run(self._replica_step, args=(factor,))

    def _replica_step(self, factor: Any) -> None:
        trained = [self.dense, self.rows]
        self.host.step(lambda: loss(factor, *map(tf_variable, trained)), trained)

    def variables(self) -> dict[str, Any]:
        trained = {"dense": self.dense, "rows": self.rows}
        found = {**trained, **self.host.slots(trained), **self.host.state()}
        return {name: tf_variable(variable) for name, variable in found.items()}


def strategy_of_chief(job: str) -> Any:
    """Return the strategy; other jobs than the chief serve it until they are ended."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if job != "chief":
        tf.distribute.Server(resolver.cluster_spec(), job_name=job, task_index=0).join()
    return tf.distribute.ParameterServerStrategy(resolver)


def train(family: str, api: str, strategy: Any) -> dict[str, Any]:
    """Return what there was after each step."""
    training, seen = Training(family, api, strategy), []
    for factor in FINITE_STEPS if api == "bare" else STEPS:
        training.take(factor)
        seen.append({name: variable.numpy().tolist() for name, variable in training.variables().items()})
    return {"steps": seen, "devices": {name: variable.device for name, variable in training.variables().items()}}


def refuse(family: str, strategy: Any) -> dict[str, Any]:
    """Return how a wrapper was refused, and how many variables it had created."""
    created = []

    def creator(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        created.append(kwargs.get("name"))
        return next_creator(**kwargs)

    with strategy.scope():
        inner = Optimizer(family, "bare").inner
        before = set(vars(inner))
        try:
            with tf.variable_creator_scope(creator):
                wrapped(inner, family)
        except UnsupportedStrategyError as error:
            return {"refusal": str(error), "created": created, "changed": sorted(set(vars(inner)) - before)}
    return {"refusal": ""}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--task", type=_cluster.Task.parse, required=True)
    arguments = parser.parse_args()
    strategy = strategy_of_chief(arguments.task.job)
    for name in arguments.cases:
        family, api = name.split()
        is_refused = family in ("legacy", "new")
        outcome = refuse(family, strategy) if is_refused else train(family, api, strategy)
        _cluster.say(case=name, **outcome)


if __name__ == "__main__":
    with _cluster.member():
        main()
