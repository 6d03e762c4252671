"""A network that solves u' = -u, with a tape within a tape; the float16 policy overflows at first. TF 2.2, 2.3."""
import numpy as np
import tensorflow as tf

mixed_precision = tf.keras.mixed_precision.experimental


class Solution(tf.keras.Model):
    def __init__(self):
        super(Solution, self).__init__()
        rng = np.random.RandomState(5)
        self.hidden = tf.keras.layers.Dense(
            4, activation="tanh", kernel_initializer=tf.constant_initializer(rng.normal(0, 1, (1, 4))))
        self.last = tf.keras.layers.Dense(
            1, kernel_initializer=tf.constant_initializer(rng.normal(0, 1, (4, 1))), dtype="float32")

    def call(self, t):
        return self.last(self.hidden(t))


def residual(model, t):
    with tf.GradientTape() as inner:
        inner.watch(t)
        u = model(t)
    return inner.gradient(u, t) + u


def train(steps=6):
    mixed_precision.set_policy(mixed_precision.Policy("mixed_float16", loss_scale=None))
    model = Solution()
    opt = mixed_precision.LossScaleOptimizer(tf.keras.optimizers.RMSprop(0.01), loss_scale="dynamic")
    t = tf.constant(np.linspace(0, 1, 8, dtype="float32")[:, None])
    for step in range(steps):
        weight = 1000.0 if step < 2 else 1.0
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(residual(model, t))) * weight
            loss += tf.reduce_mean(tf.square(model(tf.zeros([1, 1])) - 1.0)) * weight
            scaled = opt.get_scaled_loss(loss)
        grads = opt.get_unscaled_gradients(tape.gradient(scaled, model.trainable_variables))
        finite = all(bool(tf.reduce_all(tf.math.is_finite(grad))) for grad in grads)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        print("step=%d loss=%.2f finite=%s scale=%.0f" % (step, loss, finite, opt.loss_scale()))
    mixed_precision.set_policy("float32")


if __name__ == "__main__":
    tf.random.set_seed(1)
    train()
