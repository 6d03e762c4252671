"""Train on two workers that take each step together, with Keras' `fit` under mixed_float16 and loss scaling.

`python examples/multi_worker.py` starts both workers as processes of this machine. On two machines the same code runs;
there, somebody else sets `TF_CONFIG`. Each worker has half of the digits. Half-way, the batch of the second one is
damaged: both skip the step, halve the loss scale, and go on with the same weights.

The network and the job are those of `keras_digits.py`.
"""

from __future__ import annotations

import time
from typing import Any

import _cluster
import _digits
import _keras_digits
import tensorflow as tf
import tf_keras

import mpls.keras

WORKERS = 2


def batches(digits: _digits.Digits, worker: int, options: _cluster.Options) -> tf.data.Dataset:
    """Return the same batch for each step, the worker's half of the training set, damaged once."""
    images = digits.train_images[worker::WORKERS]
    targets = tf.one_hot(digits.train_labels[worker::WORKERS], _digits.CLASSES)
    damaged = _cluster.damaged(images) if worker == 1 else images
    return tf.data.Dataset.range(options.steps).map(
        lambda step: (tf.where(step == options.damaged_step, damaged, images), targets)
    )


class Progress(tf_keras.callbacks.Callback):
    """Says what has been done, and counts the skipped steps."""

    def on_train_begin(self, *_: Any) -> None:
        """Start to count."""
        self.skipped = 0
        self._scale = float(self.model.optimizer.loss_scale)

    def on_train_batch_end(self, batch: int, *_: Any) -> None:
        """The scale comes down when, and only when, a step is skipped."""
        scale = float(self.model.optimizer.loss_scale)
        self.skipped += scale < self._scale
        self._scale = scale
        _cluster.say(step=batch + 1, scale=scale)


def work(options: _cluster.Options) -> None:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    job = _keras_digits.Job(tf_keras, options)
    # The same initial weights on all workers.
    tf_keras.utils.set_random_seed(0)
    with strategy.scope():
        model = job.network("mixed_float16")
        model.compile(mpls.keras.LossScaleOptimizer(job.momentum()), loss="mse")

    progress = Progress()
    data = strategy.distribute_datasets_from_function(
        lambda context: batches(job.digits, context.input_pipeline_id, options)
    )
    started = time.perf_counter()
    model.fit(data, steps_per_epoch=options.steps, callbacks=[progress], verbose=0)
    seconds = time.perf_counter() - started

    predicted = model(job.digits.test_images).numpy().argmax(axis=1)
    _cluster.say(
        result=_cluster.Result(
            scale=float(model.optimizer.loss_scale),
            skipped=progress.skipped,
            accuracy=(predicted == job.digits.test_labels).mean(),
            weights=model.get_weights(),
            seconds=seconds,
        ).cells()
    )


if __name__ == "__main__":
    _cluster.main(
        __file__, __doc__, {"worker": work}, {"worker": WORKERS}, "Handwritten digits, MultiWorkerMirroredStrategy"
    )
