"""Train a float16 network with Keras' `fit`, without and with loss scaling, beside float32.

The twin of `tf1_digits.py` under the policy `mixed_float16`: the computations are in float16, the variables in float32.
`_digits.py` says why float16 gradients underflow in this job.
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import _digits
import _report
import tensorflow as tf
import tf_keras

import mpls.keras

tf.get_logger().setLevel("ERROR")


def dense(units: int, policy: str, activation: str | None = None) -> tf_keras.layers.Layer:
    return tf_keras.layers.Dense(
        units,
        activation=activation,
        kernel_initializer=tf_keras.initializers.TruncatedNormal(stddev=_digits.INITIAL_STDDEV),
        # Of the squared norm, not of half of it.
        kernel_regularizer=tf_keras.regularizers.L2(_digits.WEIGHT_DECAY / 2),
        dtype=policy,
    )


def network(policy: str) -> tf_keras.Model:
    return tf_keras.Sequential(
        [
            tf_keras.Input([_digits.PIXELS]),
            *(dense(_digits.WIDTH, policy, "sigmoid") for _ in range(_digits.HIDDEN_LAYERS)),
            dense(_digits.CLASSES, policy),
            tf_keras.layers.Softmax(dtype="float32"),
        ]
    )


class Recorder(tf_keras.callbacks.Callback):
    """Records loss, loss scale and skipped steps of each batch, and measures accuracy and underflow."""

    def __init__(self, run: _report.Run, digits: _digits.Digits) -> None:
        super().__init__()
        self._run = run
        self._digits = digits
        self._float32_model = network("float32")

    def on_train_begin(self, *_: Any) -> None:
        """Measure the untrained network."""
        self._scale = self._current_scale()
        self._measure()

    def on_train_batch_begin(self, *_: Any) -> None:
        """Make the logs hold the loss of one batch, not the mean over the epoch so far."""
        self.model.reset_metrics()

    def on_train_batch_end(self, _: int, logs: Any = None) -> None:
        """Record the step; the scale comes down when, and only when, it was skipped."""
        scale = self._current_scale()
        self._run.skipped += scale < self._scale
        self._scale = scale
        self._run.step(logs["loss"], scale)
        if self._run.is_due():
            self._measure()

    def _current_scale(self) -> float:
        opt = self.model.optimizer
        return float(opt.loss_scale) if isinstance(opt, mpls.keras.LossScaleOptimizer) else 1.0

    def _measure(self) -> None:
        self._float32_model.set_weights(self.model.get_weights())
        gradients, references = self._gradients()
        underflow = _report.underflow_share([g.numpy() for g in gradients], [r.numpy() for r in references])
        predicted = self.model.predict_on_batch(self._digits.test_images).argmax(axis=1)
        self._run.measure((predicted == self._digits.test_labels).mean(), underflow)

    @tf.function
    def _gradients(self) -> tuple[Any, Any]:
        """Compute what the backward pass of this run gives, and what it gives in float32 at the same weights."""
        images, targets = training_batch(self._digits)
        opt = self.model.optimizer
        gradients = []
        for model in (self.model, self._float32_model):
            scales = model is self.model and isinstance(opt, mpls.keras.LossScaleOptimizer)
            with tf.GradientTape() as tape:
                error = tf.reduce_mean(tf_keras.losses.mse(targets, model(images)))
                error = opt.get_scaled_loss(error) if scales else error
            found = tape.gradient(error, model.trainable_variables)
            gradients.append(opt.get_unscaled_gradients(found) if scales else found)
        return tuple(gradients)


def training_batch(digits: _digits.Digits) -> tuple[Any, Any]:
    return tf.constant(digits.train_images), tf.one_hot(digits.train_labels, _digits.CLASSES)


def train(name: str, policy: str, opt: Any, digits: _digits.Digits, options: _report.Options) -> _report.Run:
    tf_keras.utils.set_random_seed(options.seed)
    model = network(policy)
    model.compile(optimizer=opt, loss="mse")
    batches = tf.data.Dataset.from_tensors(training_batch(digits)).repeat()
    with _report.Run(name, options.steps) as run:
        model.fit(batches, steps_per_epoch=options.steps, callbacks=[Recorder(run, digits)], verbose=0)
    return run


def momentum() -> tf_keras.optimizers.Optimizer:
    return tf_keras.optimizers.SGD(_digits.LEARNING_RATE, momentum=_digits.MOMENTUM)


def main() -> None:
    options = _report.command_line(__doc__, "out/keras_digits.png")
    digits = _digits.load()
    # Under mixed_float16, `compile` scales the loss by itself unless the optimizer comes wrapped; a fixed scale of 1
    # is what "without scaling" means there.
    unscaled = mpls.keras.LossScaleOptimizer(momentum(), dynamic=False, initial_scale=1.0)
    scaled = mpls.keras.LossScaleOptimizer(momentum())
    runs = [
        train(_report.FLOAT32, "float32", momentum(), digits, options),
        train(_report.UNSCALED, "mixed_float16", unscaled, digits, options),
        train(_report.SCALED, "mixed_float16", scaled, digits, options),
    ]
    _report.report(runs, options, "Handwritten digits, tf_keras under mixed_float16")


if __name__ == "__main__":
    main()
