# An initializable iterator, read in a graph until it ends, epoch by epoch; evaluation shares variables. TF 1.15.
import numpy as np
import tensorflow as tf


def input_fn(x, y, batch_size, training):
    dataset = tf.data.Dataset.from_tensor_slices((x, y))
    if training:
        dataset = dataset.map(lambda image, label: (image * 0.5, label))
    return dataset.batch(batch_size).prefetch(1)


def model(images, labels, training):
    with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
        kernel = tf.get_variable("kernel", [3, 2], initializer=tf.constant_initializer([[0.1, -0.1]] * 3))
        logits = tf.matmul(images, kernel)
    loss = tf.losses.softmax_cross_entropy(tf.one_hot(labels, 2), logits)
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, -1, output_type=tf.int32), labels), tf.float32))
    return (loss, accuracy) if training else accuracy


def main(_):
    rng = np.random.RandomState(6)
    x = rng.normal(size=(18, 3)).astype("float32")
    y = (x.sum(-1) > 0).astype("int32")
    broken = x.copy()
    broken[7] = np.nan
    iterator = tf.data.make_initializable_iterator(input_fn(broken, y, 6, True))
    loss, _ = model(*iterator.get_next(), training=True)
    accuracy = model(tf.constant(x), tf.constant(y), training=False)
    scale = tf.train.experimental.DynamicLossScale(initial_loss_scale=256, increment_period=2)
    optimizer = tf.train.experimental.MixedPrecisionLossScaleOptimizer(tf.train.AdadeltaOptimizer(5.0), scale)
    train_op = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
    value = scale()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for epoch in range(3):
            sess.run(iterator.initializer)
            while True:
                try:
                    _, now = sess.run([train_op, loss])
                except tf.errors.OutOfRangeError:
                    break
                print("epoch %d loss %.5f scale %g" % (epoch, now, sess.run(value)))
            print("accuracy %.4f step %d" % tuple(sess.run([accuracy, tf.train.get_global_step()])))


if __name__ == "__main__":
    tf.app.run()
