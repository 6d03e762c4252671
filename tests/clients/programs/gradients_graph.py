# Scales by hand with a LossScale object: tf.gradients, update, and tf.cond around the step. TF 1.15.
import collections

import numpy as np
import tensorflow as tf

Step = collections.namedtuple("Step", "train_op loss scale applied")


def scaled_step(loss, variables, optimizer, loss_scale, global_step):
    scale = loss_scale()
    grads = tf.gradients(loss * scale, variables)
    grads = [grad / scale for grad in grads]
    update_op, should_apply = loss_scale.update(grads)

    def apply():
        return optimizer.apply_gradients(zip(grads, variables), global_step=global_step)

    train_op = tf.cond(should_apply, apply, tf.no_op)
    return Step(tf.group(train_op, update_op), loss, scale, should_apply)


def main(_):
    inputs = tf.placeholder(tf.float32, [None])
    a = tf.get_variable("a", initializer=0.5, use_resource=True)
    b = tf.get_variable("b", initializer=[0.0, 1.0], use_resource=True)
    loss = tf.reduce_mean(tf.square(a * inputs + b[0])) + tf.reduce_sum(tf.abs(b))
    step = tf.train.get_or_create_global_step()
    loss_scale = tf.train.experimental.DynamicLossScale(initial_loss_scale=100, increment_period=2, multiplier=10.0)
    fetches = scaled_step(loss, [a, b], tf.train.GradientDescentOptimizer(0.05), loss_scale, step)
    init = tf.global_variables_initializer()
    with tf.Session() as sess:
        sess.run(init)
        for data in ([1, 2], [1, 1], [np.inf, 0], [2, 2], [0.5], [np.nan]):
            values = sess.run(fetches, {inputs: data})
            print("loss %.5f scale %g applied %s step %d" % (values.loss, values.scale, values.applied, sess.run(step)))
        print("a %.5f b %.5f %.5f" % ((sess.run(a),) + tuple(sess.run(b))))
        print(sorted(loss_scale.get_config().items()))


if __name__ == "__main__":
    tf.app.run()
