"""TF 1 code that was carried to TF 2 by its import, with summaries of the scale. TF 2.3, 2.4."""
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


def loss_fn(x):
    with tf.variable_scope("net", reuse=tf.AUTO_REUSE):
        w = tf.get_variable("w", [2, 2], initializer=tf.constant_initializer([1.0, 0.0, 0.0, 1.0]))
        return tf.reduce_mean(tf.square(tf.matmul(x, w)))


def main(argv):
    del argv
    x = tf.placeholder(tf.float32, [None, 2])
    loss = loss_fn(x)
    scaling = tf.train.experimental.DynamicLossScale(initial_loss_scale=8, increment_period=2, multiplier=4)
    opt = tf.train.experimental.MixedPrecisionLossScaleOptimizer(tf.train.RMSPropOptimizer(0.01), scaling)
    step = tf.train.get_or_create_global_step()
    grads, variables = zip(*opt.compute_gradients(loss))
    clipped, norm = tf.clip_by_global_norm(grads, 5.0)
    train = opt.apply_gradients(zip(clipped, variables), global_step=step)
    tf.summary.scalar("loss_scale", scaling())
    tf.summary.scalar("grad_norm", norm)
    merged = tf.summary.merge_all()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for batch in (1.0, 2.0, np.inf, 1.0, 0.5):
            feed = {x: np.array([[1.0, 2.0], [0.5, -1.0]]) * batch}
            sess.run(train, feed)
            summary = tf.Summary.FromString(sess.run(merged, {x: np.ones([1, 2])}))
            values = {value.tag: value.simple_value for value in summary.value}
            print(sess.run(step), "scale %g norm %.5f" % (values["loss_scale"], values["grad_norm"]))
        print(np.round(sess.run(variables[0]), 5).tolist())


if __name__ == "__main__":
    tf.app.run(main)
