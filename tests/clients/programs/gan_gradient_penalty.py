"""A critic with a gradient penalty, computed within the scaled tape, and several critic steps for one of the generator. TF 2.4."""
import argparse

import numpy as np
import tensorflow as tf
from tensorflow.keras import mixed_precision


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--n_critic", type=int, default=2)
    parser.add_argument("--penalty", type=float, default=10.0)
    parser.add_argument("--steps", type=int, default=3)
    return parser.parse_args()


def make_net(sizes, seed):
    rng = np.random.RandomState(seed)
    return [tf.Variable(rng.normal(0, 0.4, pair).astype("float32")) for pair in zip(sizes, sizes[1:])]


def run(net, x):
    for kernel in net[:-1]:
        x = tf.nn.leaky_relu(tf.matmul(x, kernel))
    return tf.matmul(x, net[-1])


def penalty(critic, real, fake, mix):
    between = real * mix + fake * (1 - mix)
    with tf.GradientTape() as tape:
        tape.watch(between)
        score = run(critic, between)
    norm = tf.norm(tape.gradient(score, between), axis=-1)
    return tf.reduce_mean(tf.square(norm - 1.0))


def step(optimizer, variables, compute):
    with tf.GradientTape() as tape:
        loss = compute()
        scaled = optimizer.get_scaled_loss(loss)
    grads = optimizer.get_unscaled_gradients(tape.gradient(scaled, variables))
    optimizer.apply_gradients(zip(grads, variables))
    return loss


def main():
    args = parse()
    rng = np.random.RandomState(0)
    generator, critic = make_net((2, 4, 2), 1), make_net((2, 4, 1), 2)
    g_opt = mixed_precision.LossScaleOptimizer(tf.keras.optimizers.Adam(0.01, beta_1=0.0, beta_2=0.9))
    d_opt = mixed_precision.LossScaleOptimizer(
        tf.keras.optimizers.Adam(0.01, beta_1=0.0, beta_2=0.9), dynamic=True, initial_scale=2 ** 10, dynamic_growth_steps=3)
    for number in range(args.steps):
        for _ in range(args.n_critic):
            real = tf.constant(rng.normal(2, 0.5, (6, 2)).astype("float32"))
            fake = run(generator, tf.constant(rng.normal(size=(6, 2)).astype("float32")))
            mix = tf.constant(rng.rand(6, 1).astype("float32"))
            d_loss = step(d_opt, critic, lambda: tf.reduce_mean(run(critic, fake)) - tf.reduce_mean(run(critic, real))
                          + args.penalty * penalty(critic, real, fake, mix))
        noise = tf.constant(rng.normal(size=(6, 2)).astype("float32"))
        g_loss = step(g_opt, generator, lambda: -tf.reduce_mean(run(critic, run(generator, noise))))
        print("%d: critic %.4f (scale %d) generator %.4f (scale %d)" % (number, d_loss, d_opt.loss_scale, g_loss, g_opt.loss_scale))
    print("critic", [round(float(value), 4) for value in critic[-1].numpy().ravel()])


if __name__ == "__main__":
    main()
