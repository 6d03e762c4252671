# A fixed loss scale, a learning rate that decays with the global step, and weight decay in the loss. TF 1.15.
import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_float("loss_scale", 64.0, "Fixed loss scale; 0 turns it off.")
tf.app.flags.DEFINE_integer("steps", 5, "Steps.")
FLAGS = tf.app.flags.FLAGS


def float32_variable_storage_getter(getter, name, shape=None, dtype=None, trainable=True, *args, **kwargs):
    storage = tf.float32 if trainable else dtype
    variable = getter(name, shape, dtype=storage, trainable=trainable, *args, **kwargs)
    return tf.cast(variable, dtype) if trainable and dtype != tf.float32 else variable


def model(features):
    with tf.variable_scope("fp32", custom_getter=float32_variable_storage_getter):
        features = tf.cast(features, tf.float16)
        kernel = tf.get_variable("kernel", [3, 1], tf.float16, initializer=tf.constant_initializer(0.5))
        bias = tf.get_variable("bias", [1], tf.float16, initializer=tf.zeros_initializer())
        return tf.cast(tf.matmul(features, kernel) + bias, tf.float32)


def main(_):
    rng = np.random.RandomState(0)
    inputs = rng.randint(-4, 4, (8, 3)) / 4.0
    targets = inputs.sum(-1, keepdims=True)
    predictions = model(tf.constant(inputs, tf.float32))
    loss = tf.reduce_mean(tf.squared_difference(predictions, targets.astype("float32")))
    loss += 1e-2 * tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables()])
    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(0.2, step, 2, 0.5, staircase=True)
    optimizer = tf.train.MomentumOptimizer(rate, 0.9, use_nesterov=True)
    if FLAGS.loss_scale:
        optimizer = tf.train.experimental.MixedPrecisionLossScaleOptimizer(
            optimizer, tf.train.experimental.FixedLossScale(FLAGS.loss_scale))
    grads = optimizer.compute_gradients(loss)
    print([(v.op.name, v.dtype.base_dtype.name, g.dtype.name) for g, v in grads])
    train = optimizer.apply_gradients(grads, global_step=step)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(FLAGS.steps):
            _, value = sess.run([train, loss])
            print("step %d rate %.3f loss %.4f" % (sess.run(step), sess.run(rate), value))
        for variable in tf.trainable_variables():
            print(variable.op.name, np.round(sess.run(variable).ravel(), 3).tolist())


if __name__ == "__main__":
    tf.app.run()
