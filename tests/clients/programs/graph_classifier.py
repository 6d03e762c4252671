# Softmax regression and a hidden layer by tf.layers, placeholders and a session. TF 1.15.
from __future__ import absolute_import, division, print_function

import argparse
import sys

import numpy as np
import tensorflow as tf

FLAGS = None


def inference(images, hidden):
    net = tf.layers.dense(images, hidden, activation=tf.nn.relu, kernel_initializer=tf.constant_initializer(0.05), name="hidden")
    net = net * tf.constant(np.linspace(-1, 1, hidden).astype("float32"))
    return tf.layers.dense(net, 3, kernel_initializer=tf.constant_initializer(np.eye(hidden, 3)), name="logits")


def main(_):
    rng = np.random.RandomState(FLAGS.seed)
    images = rng.rand(40, 5).astype("float32")
    labels = images.argmax(-1) % 3
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 5])
        y = tf.placeholder(tf.int64, [None])
        loss = tf.losses.sparse_softmax_cross_entropy(labels=y, logits=inference(x, 6))
        global_step = tf.train.get_or_create_global_step()
        scale = tf.train.experimental.DynamicLossScale(initial_loss_scale=2.0 ** 10, increment_period=3)
        opt = tf.train.AdamOptimizer(FLAGS.learning_rate)
        opt = tf.train.experimental.MixedPrecisionLossScaleOptimizer(opt, scale)
        train_op = opt.minimize(loss, global_step=global_step)
        scale_value = scale()
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for step in range(FLAGS.max_steps):
                batch = slice(step * 4 % 40, step * 4 % 40 + 4)
                feed = {x: images[batch] * (np.nan if step == 4 else 1), y: labels[batch]}
                _, loss_value = sess.run([train_op, loss], feed)
                print("Step %d: loss = %.4f scale = %g global_step = %d" % (
                    (step, loss_value) + tuple(sess.run([scale_value, global_step]))))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--learning_rate", type=float, default=0.02)
    parser.add_argument("--max_steps", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    FLAGS, unparsed = parser.parse_known_args()
    tf.app.run(main=main, argv=[sys.argv[0]] + unparsed)
