"""Builds optimizers."""
import tensorflow as tf

from .precision import is_mixed, loss_scale_of


class Noam(tf.keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, width, warmup):
        super().__init__()
        self.width, self.warmup = float(width), float(warmup)

    def __call__(self, step):
        step = tf.cast(step, tf.float32) + 1.0
        return tf.math.rsqrt(self.width) * tf.minimum(tf.math.rsqrt(step), step * self.warmup ** -1.5)


def create_optimizer(params):
    optimizer = tf.keras.optimizers.Adam(Noam(params["width"], params["warmup"]), beta_2=0.98, epsilon=1e-9)
    if is_mixed(params):
        optimizer = tf.keras.mixed_precision.experimental.LossScaleOptimizer(optimizer, loss_scale=loss_scale_of(params))
    return optimizer
