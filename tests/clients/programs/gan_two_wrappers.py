"""A generator and a discriminator, each with its wrapper, and scales that go apart. TF 2.2, 2.3."""
import numpy as np
import tensorflow as tf
from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer


def dense(units, shape, seed, activation=None):
    kernel = np.random.RandomState(seed).normal(0, 0.5, shape)
    return tf.keras.layers.Dense(units, activation, kernel_initializer=tf.constant_initializer(kernel))


class GAN:
    def __init__(self):
        self.generator = tf.keras.Sequential([dense(4, (2, 4), 1, "relu"), dense(3, (4, 3), 2, "tanh")])
        self.discriminator = tf.keras.Sequential([dense(4, (3, 4), 3, tf.nn.leaky_relu), dense(1, (4, 1), 4)])
        self.cross_entropy = tf.keras.losses.BinaryCrossentropy(from_logits=True)
        self.generator_optimizer = LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), loss_scale="dynamic")
        self.discriminator_optimizer = LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), loss_scale="dynamic")

    @tf.function
    def train_step(self, images, noise):
        with tf.GradientTape() as gen_tape, tf.GradientTape() as disc_tape:
            generated = self.generator(noise, training=True)
            real_output = self.discriminator(images, training=True)
            fake_output = self.discriminator(generated, training=True)
            gen_loss = self.cross_entropy(tf.ones_like(fake_output), fake_output)
            disc_loss = self.cross_entropy(tf.ones_like(real_output), real_output)
            disc_loss += self.cross_entropy(tf.zeros_like(fake_output), fake_output)
            scaled_gen_loss = self.generator_optimizer.get_scaled_loss(gen_loss)
            scaled_disc_loss = self.discriminator_optimizer.get_scaled_loss(disc_loss)
        for tape, loss, model, optimizer in (
            (gen_tape, scaled_gen_loss, self.generator, self.generator_optimizer),
            (disc_tape, scaled_disc_loss, self.discriminator, self.discriminator_optimizer),
        ):
            gradients = optimizer.get_unscaled_gradients(tape.gradient(loss, model.trainable_variables))
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return gen_loss, disc_loss


if __name__ == "__main__":
    gan = GAN()
    rng = np.random.RandomState(9)
    for step in range(5):
        images = rng.uniform(-1, 1, (4, 3)).astype("float32")
        if step in (1, 3):
            images[0] = np.inf
        gen_loss, disc_loss = gan.train_step(tf.constant(images), tf.constant(rng.normal(size=(4, 2)).astype("float32")))
        print("step {} gen {:.4f} disc {:.4f} scales {:.0f} {:.0f}".format(
            step, gen_loss, disc_loss, gan.generator_optimizer.loss_scale(), gan.discriminator_optimizer.loss_scale()))
    print("iterations", gan.generator_optimizer.iterations.numpy())
