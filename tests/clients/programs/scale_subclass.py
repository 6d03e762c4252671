"""A LossScale of the program's own: additive increase, and a floor under the decrease. TF 2.2, 2.3."""
import argparse

import numpy as np
import tensorflow as tf


class AdditiveLossScale(tf.mixed_precision.experimental.LossScale):
    def __init__(self, initial, increment, floor=2.0):
        super(AdditiveLossScale, self).__init__()
        self._initial, self._increment, self._floor = float(initial), float(increment), float(floor)
        self._current = self._add_weight(name="current", dtype=tf.float32, initial_value=self._initial)

    def __call__(self):
        return self._current.read_value()

    def update(self, grads):
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(grad)) for grad in tf.nest.flatten(grads) if grad is not None])
        new = tf.where(finite, self._current + self._increment, tf.maximum(self._current / 4.0, self._floor))
        return self._current.assign(new), finite

    def get_config(self):
        return {"initial": self._initial, "increment": self._increment, "floor": self._floor}


class PatientLossScale(tf.mixed_precision.experimental.DynamicLossScale):
    """Knows how often it came down."""

    def __init__(self, *args, **kwargs):
        super(PatientLossScale, self).__init__(*args, **kwargs)
        self.downs = self._add_weight(name="downs", dtype=tf.int64, initial_value=0)

    def update(self, grads):
        op, should_apply = super(PatientLossScale, self).update(grads)
        self.downs.assign_add(tf.cast(tf.logical_not(should_apply), tf.int64))
        return op, should_apply


def train(loss_scale, steps):
    v = tf.Variable(np.float32([1.0, 2.0, 3.0]))
    optimizer = tf.keras.mixed_precision.experimental.LossScaleOptimizer(tf.keras.optimizers.SGD(0.125, momentum=0.5), loss_scale)

    @tf.function
    def step(k):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(v * v) * k
            scaled = optimizer.get_scaled_loss(loss)
        optimizer.apply_gradients(zip(optimizer.get_unscaled_gradients(tape.gradient(scaled, [v])), [v]))
        return loss

    for number in range(steps):
        loss = step(tf.constant(np.nan if number in (1, 2) else 1.0, tf.float32))
        print("%s %d loss %.5f scale %g" % (type(loss_scale).__name__, number, loss, optimizer.loss_scale()))
    print(np.round(v.numpy(), 5).tolist())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    additive = AdditiveLossScale(64, 8)
    train(additive, args.steps)
    print(sorted(additive.get_config().items()))
    patient = PatientLossScale(initial_loss_scale=64, increment_period=2)
    train(patient, args.steps)
    print("downs", int(patient.downs))
