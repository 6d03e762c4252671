# The graph rewrite around a v1 optimizer, by its name in train.experimental, and its environment variable. TF 1.15.
import argparse
import os

import numpy as np
import tensorflow as tf


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--auto_mixed_precision", type=int, default=1)
    parser.add_argument("--loss_scale", default=None)
    return parser.parse_args()


def build(args):
    images = tf.placeholder(tf.float32, [None, 4, 4, 1])
    labels = tf.placeholder(tf.int32, [None])
    kernel = tf.get_variable("kernel", [3, 3, 1, 2], initializer=tf.constant_initializer(np.linspace(-0.5, 0.5, 18)))
    net = tf.nn.relu(tf.nn.conv2d(images, kernel, strides=[1, 1, 1, 1], padding="SAME"))
    logits = tf.reduce_mean(net, [1, 2])
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    optimizer = tf.train.MomentumOptimizer(0.1, momentum=0.9)
    if args.auto_mixed_precision:
        scale = "dynamic" if args.loss_scale is None else float(args.loss_scale)
        optimizer = tf.train.experimental.enable_mixed_precision_graph_rewrite(optimizer, loss_scale=scale)
    train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    return images, labels, loss, train_op, type(optimizer).__name__


def main(args):
    if "TF_ENABLE_AUTO_MIXED_PRECISION" in os.environ:
        raise SystemExit("both the variable and the call")
    images, labels, loss, train_op, name = build(args)
    print(name, tf.config.optimizer.get_experimental_options())
    scale = [v for v in tf.global_variables() if "loss_scale" in v.op.name]
    print([v.op.name for v in scale])
    rng = np.random.RandomState(0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for number in range(5):
            feed = {images: rng.rand(4, 4, 4, 1) * (np.inf if number == 2 else 1), labels: [0, 1, 0, 1]}
            _, value = sess.run([train_op, loss], feed)
            print("%d loss %.5f step %d scale %s" % (
                number, value, sess.run(tf.train.get_global_step()), [float(s) for s in sess.run(scale)]))


if __name__ == "__main__":
    main(parse())
