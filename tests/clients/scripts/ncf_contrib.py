# A recommender with the loss scale managers of contrib by attribute, dynamic or fixed, and the optimizer that sums over
# machines outside of the scaling one. The step counter is what minimize(global_step=...) makes of it.
# Written for TF 1.13 to 1.15.
import json

import tensorflow as tf


class DistributedOptimizer(tf.train.Optimizer):
    """Stands for the one of an all-reduce library."""

    def __init__(self, optimizer):
        super(DistributedOptimizer, self).__init__(use_locking=False, name="Distributed" + type(optimizer).__name__)
        self._optimizer = optimizer

    def compute_gradients(self, *args, **kwargs):
        gradients = self._optimizer.compute_gradients(*args, **kwargs)
        return [(None if grad is None else tf.identity(grad), var) for grad, var in gradients]

    def apply_gradients(self, *args, **kwargs):
        return self._optimizer.apply_gradients(*args, **kwargs)


def build(loss, fp16, loss_scale, global_step):
    optimizer = tf.train.AdamOptimizer(learning_rate=0.1, beta1=0.9, beta2=0.999, epsilon=1e-8)
    if fp16 and loss_scale == "dynamic":
        manager = tf.contrib.mixed_precision.ExponentialUpdateLossScaleManager(
            init_loss_scale=2**32, incr_every_n_steps=1000
        )
    else:
        manager = tf.contrib.mixed_precision.FixedLossScaleManager(loss_scale)
    optimizer = tf.contrib.mixed_precision.LossScaleOptimizer(optimizer, manager)
    optimizer = DistributedOptimizer(optimizer)
    return optimizer.minimize(loss, global_step=global_step), manager.get_loss_scale()


for loss_scale in ("dynamic", 128):
    with tf.Graph().as_default():
        users = tf.get_variable("users", initializer=[[1.0, 2.0], [0.5, -1.0]])
        bias = tf.get_variable("bias", initializer=[0.25])
        factor = tf.placeholder(tf.float32, [])
        rows = tf.nn.embedding_lookup(users, [0, 0, 1])
        loss = tf.reduce_mean(tf.square(rows)) * factor + tf.reduce_sum(bias)
        global_step = tf.train.get_or_create_global_step()
        train_op, scale = build(loss, True, loss_scale, global_step)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for k in (1.0, float("inf"), float("inf"), 2.0, float("inf"), float("inf"), 3.0):
                sess.run(train_op, {factor: k})
                now = sess.run([scale, global_step, users, bias])
                weights = now[2].ravel().tolist() + now[3].tolist()
                line = {"step": k, "scale": float(now[0]), "iterations": int(now[1]), "weights": weights}
                print(json.dumps(dict(line, run=str(loss_scale))))
