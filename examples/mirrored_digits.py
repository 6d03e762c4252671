"""Train on two devices that take each step together, with `fit` under mixed_float16 and loss scaling.

`python examples/mirrored_digits.py` trains the network of `keras_digits.py` under `MirroredStrategy` over all GPUs; if
there are none, the CPU is split in two virtual devices. Each replica has its part of every batch. Three times, that of
the last replica is damaged, so that its gradients are not finite: all replicas skip the step and halve the loss scale.
What each of them holds in the end is in the last table.
"""

from __future__ import annotations

import zlib
from typing import Any

import _digits
import _keras_digits
import _report
import numpy as np
import tensorflow as tf
import tf_keras

import mpls.keras

TITLE = "Handwritten digits, MirroredStrategy"


def make_strategy() -> tf.distribute.Strategy:
    """Return a strategy over all GPUs, or over two virtual devices on the CPU."""
    if tf.config.list_physical_devices("GPU"):
        return tf.distribute.MirroredStrategy()
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def damaged_steps(steps: int) -> list[int]:
    return sorted({steps // 4, steps // 2, 3 * steps // 4})


def batches(digits: _digits.Digits, replicas: int, steps: int) -> tf.data.Dataset:
    """Return the same global batch for each step, of which the strategy gives every replica as many rows."""
    rows = len(digits.train_images) // replicas * replicas
    images = digits.train_images[:rows]
    targets = tf.one_hot(digits.train_labels[:rows], _digits.CLASSES)
    damaged = images.copy()
    damaged[rows - rows // replicas :] = np.inf
    bad = tf.constant(damaged_steps(steps), tf.int64)
    return tf.data.Dataset.range(steps).map(
        lambda step: (tf.where(tf.reduce_any(step == bad), damaged, images), targets)
    )


class Recorder(tf_keras.callbacks.Callback):
    """Records loss, loss scale and skipped steps of each batch, and measures accuracy and underflow."""

    def __init__(self, job: _keras_digits.Job, run: _report.Run) -> None:
        super().__init__()
        self._job, self._run = job, run
        # Twins without a strategy, to measure on: with the dtypes of the run, and in float32.
        self._twins = [job.network("mixed_float16"), job.network("float32")]

    def on_train_begin(self, *_: Any) -> None:
        """Measure the untrained network."""
        self._scale = float(self.model.optimizer.loss_scale)
        self._measure()

    def on_train_batch_begin(self, *_: Any) -> None:
        """Make the logs hold the loss of one batch, not the mean over the epoch so far."""
        self.model.reset_metrics()

    def on_train_batch_end(self, _: int, logs: Any = None) -> None:
        """Record the step; the scale comes down when, and only when, it was skipped."""
        scale = float(self.model.optimizer.loss_scale)
        self._run.skipped += scale < self._scale
        self._scale = scale
        self._run.step(logs["loss"], scale)
        if self._run.is_due():
            self._measure()

    def _measure(self) -> None:
        for twin in self._twins:
            twin.set_weights(self.model.get_weights())
        gradients = [[grad.numpy() for grad in grads] for grads in self._gradients(self._scale)]
        accuracy = accuracy_of(self._twins[0], self._job.digits)
        self._run.measure(accuracy, _report.underflow_share(*gradients))

    @tf.function
    def _gradients(self, scale: Any) -> list[Any]:
        """Compute what the backward pass of this run gives, and what it gives in float32 at the same weights."""
        images, targets = _keras_digits.training_batch(self._job.digits)
        found = []
        for twin, factor in zip(self._twins, (scale, 1.0), strict=True):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf_keras.losses.mean_squared_error(targets, twin(images))) * factor
            found.append([grad / factor for grad in tape.gradient(loss, twin.trainable_variables)])
        return found


def accuracy_of(model: Any, digits: _digits.Digits) -> float:
    # `predict` would spread it over the replicas.
    predicted = model(digits.test_images).numpy().argmax(axis=1)
    return float((predicted == digits.test_labels).mean())


COLUMNS = ["replica", "device", "checksum of weights", "steps", "loss scale", "finite steps at it", "test accuracy"]


def replicas_of(job: _keras_digits.Job, model: Any, strategy: Any) -> list[list[str]]:
    """Return a row of the table for each replica: what it holds itself."""
    opt = model.optimizer
    scales = strategy.run(lambda: tf.identity(opt.loss_scale))
    held = [
        [part.numpy() for part in strategy.experimental_local_results(value)]
        for value in (opt.iterations, scales, opt.dynamic_counter, *model.trainable_variables)
    ]
    twin = job.network("mixed_float16")
    rows = []
    for replica, (device, steps, scale, good_steps, *weights) in enumerate(
        zip(strategy.extended.worker_devices, *held, strict=True)
    ):
        twin.set_weights(weights)
        checksum = zlib.crc32(b"".join(array.tobytes() for array in weights))
        rows.append(
            [
                f"{replica}",
                device.rpartition("device:")[2],
                f"{checksum:08x}",
                f"{steps}",
                f"{scale:g}",
                f"{good_steps}",
                f"{accuracy_of(twin, job.digits):.1%}",
            ]
        )
    return rows


def table(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]
    lines = [" | ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in [COLUMNS, *rows]]
    return "\n".join([lines[0], "-+-".join("-" * width for width in widths), *lines[1:]])


def main() -> None:
    job = _keras_digits.Job(tf_keras, _report.command_line(__doc__, "out/mirrored_digits.png"))
    steps = job.options.steps
    strategy = make_strategy()
    tf_keras.utils.set_random_seed(job.options.seed)
    with strategy.scope():
        model = job.network("mixed_float16")
        model.compile(mpls.keras.LossScaleOptimizer(job.momentum()), loss="mse")
    data = batches(job.digits, strategy.num_replicas_in_sync, steps)
    with _report.Run(_report.SCALED, steps) as run:
        model.fit(data, steps_per_epoch=steps, shuffle=False, callbacks=[Recorder(job, run)], verbose=0)

    rows = replicas_of(job, model, strategy)
    _report.report([run], job.options, TITLE)
    print(f"Damaged batches, all of the last replica: {len(damaged_steps(steps))}\n\n{table(rows)}\n")
    if len({tuple(row[2:]) for row in rows}) > 1:
        raise SystemExit("The replicas do not hold the same.")


if __name__ == "__main__":
    main()
