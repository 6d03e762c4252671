"""A program whose two workers train together and show the loss scale; run by a test.

Usage: monitored_training.py FOLDER --task worker:INDEX

Both workers are given the same folder. Each says what its callback has seen.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import _cluster
import numpy as np
import tensorflow as tf
import tf_keras

import mpls.keras
from mpls.monitor import LossScaleCallback, write_scalars

OPTIMIZERS = {"legacy": tf_keras.optimizers.legacy.SGD, "new": tf_keras.optimizers.SGD}
# The second batch of the second worker overflows.
BATCHES = 4


def output(_: Any, y: Any) -> Any:
    return y


def dataset() -> Any:
    x = np.ones([2 * BATCHES, 1], np.float32)
    x[3] = np.inf
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return tf.data.Dataset.from_tensor_slices((x, np.zeros_like(x))).batch(2).with_options(options)


def train(family: str, strategy: Any, folder: Path) -> None:
    with strategy.scope():
        inner = OPTIMIZERS[family](0.25)
        opt = mpls.keras.LossScaleOptimizer(inner, initial_scale=16, dynamic_growth_steps=3, count_steps=True)
        model = tf_keras.Sequential([tf_keras.layers.Dense(1, use_bias=False, input_shape=(1,))])
        model.compile(opt, loss=output)
    callback = LossScaleCallback()
    after = tf_keras.callbacks.TensorBoard(str(folder / family / "fit"), update_freq=1)
    history = model.fit(dataset(), epochs=2, verbose=0, callbacks=[callback, after]).history

    @tf.function
    def step() -> None:
        write_scalars(opt, 8)

    with tf.summary.create_file_writer(str(folder / family / "scalars")).as_default():
        strategy.run(step)
    _cluster.say(case=family, readings=callback.history, scales=history["loss_scale"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--task", type=_cluster.Task.parse, required=True)
    arguments = parser.parse_args()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    for family in OPTIMIZERS:
        train(family, strategy, arguments.folder)


if __name__ == "__main__":
    with _cluster.member():
        main()
