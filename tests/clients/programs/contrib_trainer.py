# Both managers of contrib in a trainer with flags, and the scale in the summaries. TF 1.15.
import numpy as np
import tensorflow as tf

flags = tf.app.flags
flags.DEFINE_enum("fp16_loss_scale", "backoff", ["backoff", "fixed"], "How the loss is scaled.")
flags.DEFINE_integer("train_steps", 6, "Steps.")
FLAGS = flags.FLAGS


def create_optimizer(kind):
    optimizer = tf.train.AdagradOptimizer(0.2)
    if kind == "fixed":
        manager = tf.contrib.mixed_precision.FixedLossScaleManager(128.0)
    else:
        manager = tf.contrib.mixed_precision.ExponentialUpdateLossScaleManager(
            init_loss_scale=2.0 ** 10, incr_every_n_steps=2, decr_every_n_nan_or_inf=2, incr_ratio=2, decr_ratio=0.5)
    return tf.contrib.mixed_precision.LossScaleOptimizer(optimizer, manager), manager


def train(kind):
    tf.reset_default_graph()
    features = tf.placeholder(tf.float32, [4, 2])
    with tf.variable_scope("model"):
        weights = tf.get_variable("weights", [2], initializer=tf.ones_initializer(), use_resource=True)
        loss = tf.reduce_mean(tf.square(tf.tensordot(features, weights, 1) - 0.5))
    optimizer, manager = create_optimizer(kind)
    global_step = tf.train.get_or_create_global_step()
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    gradients, _ = tf.clip_by_global_norm(gradients, 2.0)
    train_op = optimizer.apply_gradients(list(zip(gradients, variables)), global_step=global_step)
    scale = manager.get_loss_scale()
    rng = np.random.RandomState(3)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for number in range(FLAGS.train_steps):
            batch = rng.rand(4, 2)
            if number in (1, 3, 4):
                batch[0, 0] = np.inf
            _, value = sess.run([train_op, loss], {features: batch})
            print("%s %d: loss %.5f scale %g step %d weights %.5f %.5f" % (
                (kind, number, value) + tuple(sess.run([scale, global_step])) + tuple(sess.run(weights))))


def main(_):
    for kind in ("backoff", "fixed"):
        train(kind)


if __name__ == "__main__":
    tf.app.run()
