"""One DynamicLossScale for two optimizers: what one finds, the other has. TF 2.3, 2.2."""
import numpy as np
import tensorflow as tf
from tensorflow.keras.mixed_precision import experimental as mixed_precision

SCALE = tf.mixed_precision.experimental.DynamicLossScale(initial_loss_scale=4096.0, increment_period=3)


class Part(object):
    def __init__(self, name, start, optimizer):
        self.name = name
        self.variables = [tf.Variable(start, dtype=tf.float32)]
        self.optimizer = mixed_precision.LossScaleOptimizer(optimizer, SCALE)
        assert self.optimizer.loss_scale is SCALE

    def step(self, x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.variables[0] * x - 1.0))
            scaled = self.optimizer.get_scaled_loss(loss)
        grads = self.optimizer.get_unscaled_gradients(tape.gradient(scaled, self.variables))
        self.optimizer.apply_gradients(zip(grads, self.variables))
        return float(loss)


def main():
    parts = [Part("encoder", [0.5, 1.5], tf.keras.optimizers.SGD(0.2)), Part("decoder", [2.0, -1.0], tf.keras.optimizers.Adam(0.1))]
    rng = np.random.RandomState(4)
    for number in range(4):
        for part in parts:
            x = rng.rand(2).astype("float32")
            if (number, part.name) == (1, "decoder"):
                x[0] = np.inf
            print("%d %s loss %.5f scale %d good %d" % (
                number, part.name, part.step(x), SCALE(), SCALE._num_good_steps.numpy()))
    for part in parts:
        print(part.name, part.variables[0].numpy().round(4).tolist(), int(part.optimizer.iterations))
    print(SCALE.get_config())


if __name__ == "__main__":
    main()
