"""Asks type(opt) is Sub, and dispatches by a table of classes. TF 2.3, 2.4."""
import tensorflow as tf
from tensorflow.keras.mixed_precision import experimental as mixed_precision


class Logged(mixed_precision.LossScaleOptimizer):
    log = []

    def apply_gradients(self, grads_and_vars, *args, **kwargs):
        grads_and_vars = list(grads_and_vars)
        self.log.append(len(grads_and_vars))
        return super().apply_gradients(grads_and_vars, *args, **kwargs)


class Quiet(Logged):
    """Logs nothing."""

    def apply_gradients(self, *args, **kwargs):
        return mixed_precision.LossScaleOptimizer.apply_gradients(self, *args, **kwargs)


def label(optimizer):
    if type(optimizer) is Logged:
        return "logged"
    if type(optimizer) is Quiet:
        return "quiet"
    return "plain" if type(optimizer) is mixed_precision.LossScaleOptimizer else "other"


TABLE = {Logged: 0.1, Quiet: 0.2, mixed_precision.LossScaleOptimizer: 0.4, tf.keras.optimizers.SGD: 0.8}


def train(optimizer, steps=(1.0, float("inf"), 2.0)):
    v = tf.Variable([1.0, -1.0])
    if hasattr(optimizer, "get_scaled_loss"):
        optimizer.learning_rate = TABLE[type(optimizer)]
    else:
        steps = steps[::2]
    for k in steps:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(v * v) * k
            scaled = optimizer.get_scaled_loss(loss) if hasattr(optimizer, "get_scaled_loss") else loss
        grads = tape.gradient(scaled, [v])
        if hasattr(optimizer, "get_unscaled_gradients"):
            grads = optimizer.get_unscaled_gradients(grads)
        optimizer.apply_gradients(zip(grads, [v]))
    rate = float(tf.keras.backend.get_value(optimizer.learning_rate))
    print(label(optimizer), "rate %.2f" % rate, "v %.4f %.4f" % tuple(v.numpy()), "iterations", int(optimizer.iterations))


def inner():
    return tf.keras.optimizers.SGD(0.05)


for optimizer in (Logged(inner(), "dynamic"), Quiet(inner(), "dynamic"), mixed_precision.LossScaleOptimizer(inner(), 8.0)):
    train(optimizer, (1.0, 2.0) if label(optimizer) == "plain" else (1.0, float("inf"), 2.0))
train(inner())
print("log", Logged.log, "mro", [cls.__name__ for cls in Quiet.__mro__[:2]])
