"""A program that trains Keras models on two workers that take each step together; run by a test.

Usage: multi_worker_training.py CASE... --task worker:INDEX

A case is `FAMILY LOOP API`. The workers train one after the other, and say for each what they saw after each step.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import _cluster
import numpy as np
import tensorflow as tf
from optimizers import Optimizer

ROWS, FEATURES, OUTPUTS = 4, 4, 2
INF, NAN = math.inf, math.nan

# For each step, what multiplies the features on the two workers.
STEPS = ((1, 1), (2, 1), (1, INF), (0.5, 1), (NAN, 1), (INF, NAN), (1, 2), (1, 1), (1, 0.5), (1, INF))
FINITE_STEPS = tuple(factors for factors in STEPS if all(map(math.isfinite, factors)))


class Training:
    """A model, its optimizer, and what was seen of them after each step."""

    def __init__(self, family: str, loop: str, api: str) -> None:
        self._strategy = tf.distribute.get_strategy()
        self._loop = loop
        self.host = Optimizer(family, api)
        layers = self.host.keras.layers
        if loop == "fit":
            half, cast = layers.Dense(OUTPUTS, use_bias=False, dtype="mixed_float16"), layers.Activation("linear")
            self.model = self.host.keras.Sequential([self.host.keras.Input([FEATURES]), half, cast])
            self.model.compile(self.host.opt, loss="mse")
        else:
            hidden, last = layers.Dense(3, activation="tanh"), layers.Dense(OUTPUTS)
            self.model = self.host.keras.Sequential([self.host.keras.Input([FEATURES]), hidden, last])
        shapes = [weight.shape for weight in self.model.get_weights()]
        self.model.set_weights([np.linspace(-0.7, 0.8, math.prod(shape)).reshape(shape) for shape in shapes])
        self.seen: list[dict[str, Any]] = []

    def look(self, *_: Any) -> None:
        """Note what there is after a step."""
        state = {name: float(value.numpy()) for name, value in self.host.state().items()}
        self.seen.append({**state, "weights": [weight.tolist() for weight in self.model.get_weights()]})

    def run(self, steps: tuple[tuple[float, float], ...]) -> None:
        batches = dataset(steps, has_one_hot_features=self._loop == "fit")
        if self._loop == "fit":
            callback = self.host.keras.callbacks.LambdaCallback(on_train_batch_end=self.look)
            self.model.fit(batches.map(lambda x, y, factors: (scaled(x, factors), y)), callbacks=[callback], verbose=0)
            return
        for batch in self._strategy.experimental_distribute_dataset(batches):
            self._step(batch)
            self.look()

    @tf.function
    def _step(self, batch: Any) -> None:
        self._strategy.run(self._replica_step, batch)

    def _replica_step(self, features: Any, targets: Any, factors: Any) -> None:
        is_reduced = self._loop == "reduced"
        features = features if is_reduced else scaled(features, factors)

        def loss() -> Any:
            # Divided by the size of the whole batch, of which this may be half.
            return tf.reduce_sum((self.model(features) - targets) ** 2) / (ROWS * OUTPUTS)

        def sum_up(grads: list[Any]) -> list[Any]:
            grads = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, grads)
            poison = tf.reduce_sum(factors)
            return [grad * tf.where(tf.math.is_finite(poison), 1.0, poison) for grad in grads]

        self.host.step(loss, self.model.trainable_variables, sum_up if is_reduced else None)


def dataset(steps: tuple[tuple[float, float], ...], has_one_hot_features: bool) -> Any:
    """Return batches of features, targets and factors; the first half of the rows is the first worker's.

    Of one-hot features, sums in float16 are the same for half of the rows as for all.
    """
    general = np.sin(np.arange(ROWS * FEATURES)).reshape(ROWS, FEATURES)
    features = np.eye(ROWS, FEATURES) if has_one_hot_features else general
    targets = np.linspace(-1, 1, ROWS * OUTPUTS).reshape(ROWS, OUTPUTS)
    factors = np.repeat(np.array(steps), ROWS // 2, axis=1)
    arrays = (np.broadcast_to(array, (len(steps), *array.shape)) for array in (features, targets))
    tensors = tuple(tf.constant(array, tf.float32) for array in (*arrays, factors))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return tf.data.Dataset.from_tensor_slices(tensors).with_options(options)


def scaled(features: Any, factors: Any) -> Any:
    return tf.where(features == 0, 0.0, features * factors[:, tf.newaxis])


def train(name: str, strategy: Any) -> list[dict[str, Any]]:
    """Return what was seen after each step of a case."""
    family, loop, api = name.split()
    steps = FINITE_STEPS if api == "bare" else STEPS
    with strategy.scope():
        training = Training(family, loop, api)
    training.run(steps)
    return training.seen


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--task", type=_cluster.Task.parse, required=True)
    arguments = parser.parse_args()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    for name in arguments.cases:
        _cluster.say(case=name, steps=train(name, strategy))


if __name__ == "__main__":
    with _cluster.member():
        main()
