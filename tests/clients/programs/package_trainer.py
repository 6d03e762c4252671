"""A program of several files: parameters, optimizers and precision are in modules of a package beside it. TF 2.3."""
import argparse
import json

import numpy as np
import tensorflow as tf

from captioning import optimization
from captioning.precision import is_mixed

DEFAULTS = {"width": 4, "warmup": 3, "dtype": "fp16", "loss_scale": "dynamic", "increment_period": 2}


def train(params, steps):
    rng = np.random.RandomState(params["width"])
    table = tf.Variable(rng.normal(size=(5, params["width"])).astype("float32"))
    out = tf.Variable(rng.normal(size=(params["width"], 5)).astype("float32"))
    optimizer = optimization.create_optimizer(params)

    @tf.function
    def step(ids, weight):
        with tf.GradientTape() as tape:
            logits = tf.matmul(tf.gather(table, ids[:-1]), out)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=ids[1:], logits=logits)
            loss = tf.reduce_mean(losses) * weight
            scaled = optimizer.get_scaled_loss(loss) if is_mixed(params) else loss
        grads = [tf.convert_to_tensor(grad) for grad in tape.gradient(scaled, [table, out])]
        if is_mixed(params):
            grads = optimizer.get_unscaled_gradients(grads)
        optimizer.apply_gradients(zip(grads, [table, out]))
        return loss

    for number in range(steps):
        ids = tf.constant(rng.randint(0, 5, 6))
        loss = step(ids, tf.constant(np.inf if number == 2 and params["loss_scale"] == "dynamic" else 1.0, tf.float32))
        scale = optimizer.loss_scale().numpy() if is_mixed(params) else 1
        print("%d loss %.5f scale %d" % (number, loss, scale))
    print("iterations %d norm %.4f" % (optimizer.iterations, np.linalg.norm(table.numpy())))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--params", type=json.loads, action="append")
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    for params in args.params or [{}, {"loss_scale": 64}, {"dtype": "fp32"}]:
        print(sorted(params.items()))
        train(dict(DEFAULTS, **params), args.steps)


if __name__ == "__main__":
    main()
