"""Sums the scaled gradients of several small batches, and unscales them once. TF 2.3."""
import argparse
import logging
import sys

import numpy as np
import tensorflow as tf

logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s", level=logging.INFO)
log = logging.getLogger("pretraining")


class Accumulator(object):
    def __init__(self, variables):
        self.sums = [tf.Variable(tf.zeros_like(variable), trainable=False) for variable in variables]

    def add(self, grads):
        for total, grad in zip(self.sums, grads):
            total.assign_add(grad)

    def reset(self):
        for total in self.sums:
            total.assign(tf.zeros_like(total))


def main(args):
    weights = tf.Variable(np.linspace(-1, 1, 4).astype("float32"))
    decay_free = tf.Variable(0.5)
    variables = [weights, decay_free]
    optimizer = tf.keras.optimizers.Adam(tf.keras.optimizers.schedules.PolynomialDecay(0.1, 10, 0.0))
    optimizer = tf.keras.mixed_precision.experimental.LossScaleOptimizer(optimizer, "dynamic")
    accumulator = Accumulator(variables)

    @tf.function
    def forward_backward(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.tensordot(x, weights, 1) + decay_free - 1.0)) / args.accumulation
            scaled = optimizer.get_scaled_loss(loss)
        accumulator.add(tape.gradient(scaled, variables))
        return loss

    @tf.function
    def update():
        grads = optimizer.get_unscaled_gradients([tf.identity(total) for total in accumulator.sums])
        grads, norm = tf.clip_by_global_norm(grads, 1.0)
        optimizer.apply_gradients(zip(grads, variables))
        accumulator.reset()
        return norm

    rng = np.random.RandomState(12)
    for step in range(args.steps):
        total = 0.0
        for micro in range(args.accumulation):
            x = rng.normal(size=(3, 4)).astype("float32")
            if (step, micro) == (1, 0):
                x *= 1e20
            total += float(forward_backward(tf.constant(x)))
        norm = float(update())
        shown = total if total < 1e6 else float("inf")
        log.info("step %d loss %.4f norm %.4f scale %.0f", step, shown, norm, optimizer.loss_scale())
    log.info("weights %s", [round(float(value), 4) for value in weights.numpy()])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--accumulation", type=int, default=3)
    main(parser.parse_args())
