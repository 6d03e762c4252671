"""A subclass of the wrapper in the old spelling, super(self.__class__, self), that clips and counts. TF 2.3, 2.2."""
import numpy as np
import tensorflow as tf


class ClippingLossScaleOptimizer(tf.keras.mixed_precision.experimental.LossScaleOptimizer):
    """Clips by the norm what is unscaled, and knows how often that was needed."""

    def __init__(self, optimizer, loss_scale, max_norm=1.0):
        super(self.__class__, self).__init__(optimizer, loss_scale)
        self.max_norm = max_norm
        self.clipped = tf.Variable(0, trainable=False)

    def get_unscaled_gradients(self, grads):
        grads = super(self.__class__, self).get_unscaled_gradients(grads)
        clipped, norm = tf.clip_by_global_norm(grads, self.max_norm)
        self.clipped.assign_add(tf.cast(norm > self.max_norm, tf.int32))
        return clipped

    def apply_gradients(self, grads_and_vars, name=None):
        return super(self.__class__, self).apply_gradients(grads_and_vars, name)


def main():
    rng = np.random.RandomState(0)
    w = tf.Variable(rng.normal(size=(3, 2)).astype("float32"))
    optimizer = ClippingLossScaleOptimizer(tf.keras.optimizers.SGD(0.1, momentum=0.9), "dynamic")

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(tf.matmul(x, w)))
            scaled = optimizer.get_scaled_loss(loss)
        grads = optimizer.get_unscaled_gradients(tape.gradient(scaled, [w]))
        optimizer.apply_gradients(zip(grads, [w]))
        return loss

    for number, size in enumerate([1.0, 0.1, 1e20, 1.0, 0.2]):
        loss = step(tf.constant((size * rng.normal(size=(2, 3))).astype("float32")))
        print("%d loss %s clipped %d scale %d" % (
            number, "%.4f" % loss if loss < 1e6 else "large", optimizer.clipped.numpy(), optimizer.loss_scale()))
    print("w", " ".join("%.5f" % value for value in w.numpy().ravel()))
    print(isinstance(optimizer, tf.keras.mixed_precision.experimental.LossScaleOptimizer), issubclass(
        type(optimizer), tf.keras.optimizers.Optimizer))


main()
