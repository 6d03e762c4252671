# tf.train.Saver in a graph: what it saves of the scale, and a second session that restores it. TF 1.15.
import os
import shutil
import tempfile

import numpy as np
import tensorflow as tf

flags = tf.flags
flags.DEFINE_integer("keep", 2, "Checkpoints that are kept.")
flags.DEFINE_float("initial_scale", 1024.0, "First loss scale.")
FLAGS = flags.FLAGS


def graph():
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    kernel = tf.get_variable("kernel", [2, 2], initializer=tf.constant_initializer([[1.0, 0.5], [-0.5, 2.0]]))
    loss = tf.reduce_mean(tf.matmul(x, kernel) ** 2, name="loss")
    optimizer = tf.train.AdamOptimizer(0.02)
    optimizer = tf.train.experimental.MixedPrecisionLossScaleOptimizer(
        optimizer, tf.train.experimental.DynamicLossScale(FLAGS.initial_scale, 2))
    optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step(), name="train")


def run(sess, batches):
    for batch in batches:
        _, loss, step = sess.run(["train", "loss:0", "global_step:0"], {"x:0": batch})
        print("loss %.5f" % loss)


def main(_):
    folder = tempfile.mkdtemp()
    rng = np.random.RandomState(5)
    batches = [rng.normal(size=(3, 2)) for _ in range(6)]
    batches[1] = batches[1] * np.nan
    with tf.Graph().as_default(), tf.Session() as sess:
        graph()
        saver = tf.train.Saver(max_to_keep=FLAGS.keep)
        sess.run(tf.global_variables_initializer())
        run(sess, batches[:3])
        path = saver.save(sess, os.path.join(folder, "model"), global_step=sess.run("global_step:0"))
    for name, shape in tf.train.list_variables(path):
        print(name, shape)
    with tf.Graph().as_default(), tf.Session() as sess:
        graph()
        tf.train.Saver().restore(sess, tf.train.latest_checkpoint(folder))
        run(sess, batches[3:])
        print(sess.run("global_step:0"), np.round(sess.run("kernel:0"), 4).tolist())
    shutil.rmtree(folder)


if __name__ == "__main__":
    tf.app.run()
