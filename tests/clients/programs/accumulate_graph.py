# Accumulation in a graph: variables for the sums, a counter, and tf.cond around apply_gradients. TF 1.15.
import numpy as np
import tensorflow as tf


def accumulate(optimizer, loss, every, global_step):
    variables = tf.trainable_variables()
    grads = [grad for grad, _ in optimizer.compute_gradients(loss, variables)]
    sums = [tf.Variable(tf.zeros_like(v.initialized_value()), trainable=False, name=v.op.name + "_sum") for v in variables]
    count = tf.Variable(0, trainable=False, name="count")
    added = [total.assign_add(grad / every) for total, grad in zip(sums, grads)]
    with tf.control_dependencies(added):
        count_now = count.assign_add(1)

    def apply():
        with tf.control_dependencies([optimizer.apply_gradients(zip([tf.identity(s) for s in sums], variables), global_step)]):
            return tf.group(*[total.assign(tf.zeros_like(total)) for total in sums])

    with tf.control_dependencies([count_now]):
        return tf.cond(tf.equal(count_now % every, 0), apply, tf.no_op)


def main(_):
    x = tf.placeholder(tf.float32, [2])
    w = tf.get_variable("w", initializer=[0.5, 1.5], use_resource=True)
    loss = tf.reduce_sum(tf.square(w * x))
    scaling = tf.train.experimental.DynamicLossScale(initial_loss_scale=32, increment_period=2)
    optimizer = tf.train.experimental.MixedPrecisionLossScaleOptimizer(tf.train.FtrlOptimizer(0.2), scaling)
    global_step = tf.train.get_or_create_global_step()
    train_op = accumulate(optimizer, loss, 2, global_step)
    scale = scaling()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for batch in ([1, 1], [2, 1], [np.inf, 1], [1, 1], [1, 0.5], [0.5, 1], [1, 1], [1, 1]):
            sess.run(train_op, {x: batch})
            step, value, weights = sess.run([global_step, scale, w])
            print("step %d scale %g w %.5f %.5f" % (step, value, weights[0], weights[1]))


if __name__ == "__main__":
    tf.app.run()
