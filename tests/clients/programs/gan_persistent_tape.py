"""Translation between two domains: four networks, one persistent tape, four wrappers in a dict. TF 2.3."""
import numpy as np
import tensorflow as tf
from tensorflow.keras import mixed_precision

inf = float("inf")


class Net(tf.Module):
    def __init__(self, start):
        super().__init__()
        self.gain = tf.Variable(start)
        self.shift = tf.Variable(0.0)

    def __call__(self, x):
        return x * self.gain + self.shift


names = ("g_ab", "g_ba", "d_a", "d_b")
nets = {name: Net(0.5 + 0.25 * number) for number, name in enumerate(names)}
opts = {
    name: mixed_precision.experimental.LossScaleOptimizer(
        tf.keras.optimizers.Adam(2e-2, beta_1=0.5), "dynamic" if name.startswith("g") else 64.0)
    for name in names
}


@tf.function
def train_step(a, b):
    with tf.GradientTape(persistent=True) as tape:
        fake_b, fake_a = nets["g_ab"](a), nets["g_ba"](b)
        cycle = tf.reduce_mean(tf.abs(nets["g_ba"](fake_b) - a)) + tf.reduce_mean(tf.abs(nets["g_ab"](fake_a) - b))
        losses = {
            "g_ab": tf.reduce_mean((nets["d_b"](fake_b) - 1) ** 2) + 10.0 * cycle,
            "g_ba": tf.reduce_mean((nets["d_a"](fake_a) - 1) ** 2) + 10.0 * cycle,
            "d_a": tf.reduce_mean((nets["d_a"](a) - 1) ** 2) + tf.reduce_mean(nets["d_a"](tf.stop_gradient(fake_a)) ** 2),
            "d_b": tf.reduce_mean((nets["d_b"](b) - 1) ** 2) + tf.reduce_mean(nets["d_b"](tf.stop_gradient(fake_b)) ** 2),
        }
        scaled = {name: opts[name].get_scaled_loss(loss) for name, loss in losses.items()}
    for name in names:
        variables = nets[name].trainable_variables
        grads = opts[name].get_unscaled_gradients(tape.gradient(scaled[name], variables))
        opts[name].apply_gradients(zip(grads, variables))
    return losses


rng = np.random.RandomState(4)
for step in range(3):
    a, b = rng.rand(2, 5).astype("float32")
    values = train_step(tf.constant(a), tf.constant(b))
    print(step, " ".join("%s %.4f" % (name, values[name]) for name in names))
for name in names:
    print(name, "%.5f %.5f" % (nets[name].gain.numpy(), nets[name].shift.numpy()), "scale", float(opts[name].loss_scale()))
