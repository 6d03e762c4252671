"""A program that trains under a ParameterServerStrategy: a chief, a worker and a parameter server; run by a test.

Usage: parameter_server_training.py CASE... --task (chief | worker | ps):INDEX

A case is `FAMILY API`. The chief has the worker train one after the other, and says for each what it saw after each
step, or how the wrapper was refused.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import _cluster
import keras
import tensorflow as tf
import tf_keras

import mpls.keras
import mpls.v1
from mpls.errors import UnsupportedStrategyError

INF, NAN = math.inf, math.nan

# The factor of the loss at each step.
STEPS = (1, 2, INF, 1, NAN, -INF, INF, INF, 0.5, 1, 1, NAN)
FINITE_STEPS = tuple(filter(math.isfinite, STEPS))
DENSE, ROWS = [1.0, -0.3], [[0.9], [0.5], [-0.4]]


def loss(factor: Any, dense: Any, rows: Any) -> Any:
    looked_up = tf.nn.embedding_lookup(rows, [0, 2, 2])
    return factor * (tf.reduce_sum((dense - 0.7) ** 2) + tf.reduce_sum((looked_up - 0.1) ** 2))


class V1:
    """An optimizer of TensorFlow 1, with or without loss scaling."""

    def __init__(self, api: str) -> None:
        self._variables = [tf.Variable(DENSE), tf.Variable(ROWS)]
        self._counter = tf.Variable(0, trainable=False)
        self._inner = self._opt = tf.compat.v1.train.MomentumOptimizer(0.125, 0.5)
        self._scale = None
        if api == "mpls":
            self._scale = mpls.v1.DynamicLossScale(8, 2)
            self._opt = mpls.v1.MixedPrecisionLossScaleOptimizer(self._inner, self._scale)

    def step(self, factor: Any) -> None:
        self._opt.minimize(lambda: loss(factor, *self._variables), self._counter, self._variables)

    def variables(self) -> dict[str, Any]:
        dense, rows = self._variables
        slots = {"slot of dense": self._inner.get_slot(dense, "momentum")}
        scale = {}
        if self._scale is not None:
            scale = {"scale": self._scale._current_loss_scale, "good_steps": self._scale._num_good_steps}
        return {"iterations": self._counter, "dense": dense, "rows": rows, **slots, **scale}


class Keras3:
    """An optimizer of Keras 3, with or without loss scaling."""

    def __init__(self, api: str) -> None:
        self._variables = [keras.Variable(DENSE), keras.Variable(ROWS)]
        self._opt = keras.optimizers.SGD(0.125, 0.5)
        wrappers = {"mpls": mpls.keras.LossScaleOptimizer, "original": keras.optimizers.LossScaleOptimizer}
        self._is_scaled = api in wrappers
        if self._is_scaled:
            self._opt = wrappers[api](self._opt, initial_scale=8.0, dynamic_growth_steps=2)

    def step(self, factor: Any) -> None:
        with tf.GradientTape() as tape:
            value = self._opt.scale_loss(loss(factor, *self._variables))
        grads = tape.gradient(value, [variable.value for variable in self._variables])
        self._opt.apply(grads, self._variables)

    def variables(self) -> dict[str, Any]:
        dense, rows = self._variables
        scale = {}
        if self._is_scaled:
            scale = {"scale": self._opt.dynamic_scale, "good_steps": self._opt.step_counter}
        variables = {"iterations": self._opt.iterations, "dense": dense, "rows": rows, **scale}
        return {name: variable.value for name, variable in variables.items()}


TRAINED: dict[str, Callable[[str], Any]] = {"v1": V1, "keras3": Keras3}
REFUSED = {
    "legacy": lambda: tf_keras.optimizers.legacy.SGD(0.125, 0.5),
    "new": lambda: tf_keras.optimizers.SGD(0.125, 0.5),
}


def train(family: str, api: str, strategy: Any, coordinator: Any) -> dict[str, Any]:
    """Return what there was after each step."""
    with strategy.scope():
        host = TRAINED[family](api)

    @tf.function
    def step(factor: Any) -> None:
        strategy.run(host.step, args=(factor,))

    seen = []
    for factor in FINITE_STEPS if api == "bare" else STEPS:
        coordinator.schedule(step, args=(tf.constant(factor, tf.float32),))
        coordinator.join()
        seen.append({name: variable.numpy().tolist() for name, variable in host.variables().items()})
    return {"steps": seen, "devices": {name: variable.device for name, variable in host.variables().items()}}


def refuse(family: str, api: str, strategy: Any) -> dict[str, Any]:
    """Return how a wrapper was refused, and how many variables it had created."""
    wrapper = {"mpls": mpls.keras.LossScaleOptimizer, "original": tf_keras.mixed_precision.LossScaleOptimizer}[api]
    created = []

    def creator(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        created.append(kwargs.get("name"))
        return next_creator(**kwargs)

    with strategy.scope():
        inner = REFUSED[family]()
        before = set(vars(inner))
        try:
            with tf.variable_creator_scope(creator):
                wrapper(inner)
        except ValueError as error:
            return {
                "refusal": str(error),
                "is_of_mpls": isinstance(error, UnsupportedStrategyError),
                "created": created,
                "changed": sorted(set(vars(inner)) - before),
            }
    return {"refusal": ""}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--task", type=_cluster.Task.parse, required=True)
    arguments = parser.parse_args()
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if arguments.task.job != "chief":
        tf.distribute.Server(resolver.cluster_spec(), job_name=arguments.task.job, task_index=0).join()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    for name in arguments.cases:
        started = time.monotonic()
        family, api = name.split()
        is_refused = family in REFUSED
        outcome = refuse(family, api, strategy) if is_refused else train(family, api, strategy, coordinator)
        _cluster.say(case=name, seconds=time.monotonic() - started, **outcome)


if __name__ == "__main__":
    with _cluster.member():
        main()
