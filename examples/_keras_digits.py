"""The job that `keras_digits.py` and `keras3_digits.py` do, on the Keras that they pass."""

from __future__ import annotations

from typing import Any

import _digits
import _report
import tensorflow as tf

import mpls.keras

tf.get_logger().setLevel("ERROR")


class Job:
    """Trains networks of one Keras.

    Attributes:
        keras: the module, tf_keras or Keras 3.
        options: what the user asked for.
    """

    def __init__(self, keras: Any, options: _report.Options) -> None:
        self.keras = keras
        self.options = options
        self.digits = _digits.load()

    def dense(self, units: int, policy: str, activation: str | None = None) -> Any:
        """Return a layer with the initial weights and the weight decay of the job."""
        return self.keras.layers.Dense(
            units,
            activation=activation,
            kernel_initializer=self.keras.initializers.TruncatedNormal(stddev=_digits.INITIAL_STDDEV),
            # Of the squared norm, not of half of it.
            kernel_regularizer=self.keras.regularizers.L2(_digits.WEIGHT_DECAY / 2),
            dtype=policy,
        )

    def network(self, policy: str) -> Any:
        """Return the network, its layers under a dtype policy."""
        return self.keras.Sequential(
            [
                self.keras.Input([_digits.PIXELS]),
                *(self.dense(_digits.WIDTH, policy, "sigmoid") for _ in range(_digits.HIDDEN_LAYERS)),
                self.dense(_digits.CLASSES, policy),
                self.keras.layers.Softmax(dtype="float32"),
            ]
        )

    def momentum(self) -> Any:
        """Return the optimizer, bare."""
        return self.keras.optimizers.SGD(_digits.LEARNING_RATE, momentum=_digits.MOMENTUM)

    def train(self, name: str, policy: str, opt: Any) -> _report.Run:
        """Train one network, and return the record of it."""
        self.keras.utils.set_random_seed(self.options.seed)
        model = self.network(policy)
        model.compile(optimizer=opt, loss="mse")
        batches = tf.data.Dataset.from_tensors(training_batch(self.digits)).repeat()
        with _report.Run(name, self.options.steps) as run:
            recorder = recorder_of(self, run)
            model.fit(batches, steps_per_epoch=self.options.steps, shuffle=False, callbacks=[recorder], verbose=0)
        return run


def recorder_of(job: Job, run: _report.Run) -> Any:
    """Return a callback of the job's Keras that records a run."""

    class Recorder(job.keras.callbacks.Callback):  # type: ignore[name-defined]
        """Records loss, loss scale and skipped steps of each batch, and measures accuracy and underflow."""

        def on_train_begin(self, logs: Any = None) -> None:
            """Measure the untrained network."""
            self._float32_model = job.network("float32")
            self._scale = self._current_scale()
            self._measure()

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            """Make the logs hold the loss of one batch, not the mean over the epoch so far."""
            self.model.reset_metrics()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            """Record the step; the scale comes down when, and only when, it was skipped."""
            scale = self._current_scale()
            run.skipped += scale < self._scale
            self._scale = scale
            run.step(logs["loss"], scale)
            if run.is_due():
                self._measure()

        def _current_scale(self) -> float:
            opt = self.model.optimizer
            return float(opt.loss_scale) if isinstance(opt, mpls.keras.LossScaleOptimizer) else 1.0

        def _measure(self) -> None:
            self._float32_model.set_weights(self.model.get_weights())
            gradients, references = self._gradients()
            underflow = _report.underflow_share([g.numpy() for g in gradients], [r.numpy() for r in references])
            predicted = self.model.predict_on_batch(job.digits.test_images).argmax(axis=1)
            run.measure((predicted == job.digits.test_labels).mean(), underflow)

        @tf.function
        def _gradients(self) -> tuple[Any, Any]:
            """Compute what the backward pass of this run gives, and what it gives in float32 at the same weights."""
            images, targets = training_batch(job.digits)
            opt = self.model.optimizer
            gradients = []
            for model in (self.model, self._float32_model):
                scales = model is self.model and isinstance(opt, mpls.keras.LossScaleOptimizer)
                with tf.GradientTape() as tape:
                    error = tf.reduce_mean(job.keras.losses.mean_squared_error(targets, model(images)))
                    error = opt.get_scaled_loss(error) if scales else error
                found = tape.gradient(error, model.trainable_variables)
                gradients.append(opt.get_unscaled_gradients(found) if scales else found)
            return tuple(gradients)

    return Recorder()


def training_batch(digits: _digits.Digits) -> tuple[Any, Any]:
    return tf.constant(digits.train_images), tf.one_hot(digits.train_labels, _digits.CLASSES)


def main(keras: Any, description: str, default_out: str, title: str) -> None:
    """Run the job on a Keras, and report."""
    job = Job(keras, _report.command_line(description, default_out))
    # Under mixed_float16, `compile` scales the loss by itself unless the optimizer comes wrapped; a fixed scale of 1
    # is what "without scaling" means there.
    unscaled = mpls.keras.LossScaleOptimizer(job.momentum(), dynamic=False, initial_scale=1.0)
    scaled = mpls.keras.LossScaleOptimizer(
        job.momentum(), initial_scale=_digits.INITIAL_SCALE, dynamic_growth_steps=_digits.GROWTH_STEPS
    )
    runs = [
        job.train(_report.FLOAT32, "float32", job.momentum()),
        job.train(_report.UNSCALED, "mixed_float16", unscaled),
        job.train(_report.SCALED, "mixed_float16", scaled),
    ]
    _report.report(runs, job.options, title)
