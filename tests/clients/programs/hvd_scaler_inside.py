# The scaling optimizer is inside, Horovod's around it: gradients are unscaled, then summed. TF 1.15.
import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

tf.logging.set_verbosity(tf.logging.ERROR)


def recommender(users, items):
    with tf.variable_scope("factors"):
        user_table = tf.get_variable("users", [5, 2], initializer=tf.constant_initializer(np.linspace(-1, 1, 10)))
        item_table = tf.get_variable("items", [4, 2], initializer=tf.constant_initializer(np.linspace(1, -1, 8)))
    return tf.reduce_sum(tf.gather(user_table, users) * tf.gather(item_table, items), -1)


def main(_):
    hvd.init()
    users = tf.placeholder(tf.int32, [None])
    items = tf.placeholder(tf.int32, [None])
    ratings = tf.placeholder(tf.float32, [None])
    loss = tf.losses.mean_squared_error(ratings, recommender(users, items))
    manager = tf.contrib.mixed_precision.ExponentialUpdateLossScaleManager(
        init_loss_scale=2 ** 16, incr_every_n_steps=2, decr_every_n_nan_or_inf=1, decr_ratio=0.5)
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    optimizer = tf.contrib.mixed_precision.LossScaleOptimizer(optimizer, manager)
    optimizer = hvd.DistributedOptimizer(optimizer)
    global_step = tf.train.get_or_create_global_step()
    grads_and_vars = optimizer.compute_gradients(loss)
    train_op = optimizer.apply_gradients(grads_and_vars, global_step=global_step)
    scale = manager.get_loss_scale()
    rng = np.random.RandomState(2)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(hvd.broadcast_variables(tf.global_variables(), 0))
        for epoch in range(6):
            feed = {users: rng.randint(0, 5, 6), items: rng.randint(0, 4, 6), ratings: rng.rand(6)}
            if epoch == 3:
                feed[ratings][0] = np.nan
            _, value = sess.run([train_op, loss], feed)
            print("epoch %d loss %.5f scale %g step %d" % ((epoch, value) + tuple(sess.run([scale, global_step]))))


if __name__ == "__main__":
    tf.app.run()
