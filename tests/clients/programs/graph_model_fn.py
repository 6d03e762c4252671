# A model_fn of three modes without an Estimator around it: training, evaluation with metrics, prediction. TF 1.15.
from __future__ import print_function

import collections

import numpy as np
import tensorflow as tf

Spec = collections.namedtuple("Spec", "mode predictions loss train_op metrics")
TRAIN, EVAL, PREDICT = "train", "eval", "infer"


def model_fn(features, labels, mode, params):
    net = tf.cast(features, params["dtype"])
    with tf.variable_scope("tower"):
        for number, width in enumerate(params["widths"]):
            kernel = tf.get_variable("kernel_%d" % number, [net.shape[-1], width], tf.float32,
                                     initializer=tf.constant_initializer(0.1 * (number + 1)))
            net = tf.nn.elu(tf.matmul(net, tf.cast(kernel, net.dtype)))
    prediction = tf.cast(tf.reduce_sum(net, -1), tf.float32)
    if mode == PREDICT:
        return Spec(mode, prediction, None, None, None)
    loss = tf.losses.huber_loss(labels, prediction)
    if mode == EVAL:
        return Spec(mode, prediction, loss, None, {"mae": tf.metrics.mean_absolute_error(labels, prediction)})
    optimizer = tf.compat.v1.train.AdamOptimizer(params["rate"])
    if params["dtype"] == tf.float16:
        scaling = tf.compat.v1.train.experimental.DynamicLossScale(params["initial_scale"], increment_period=2)
        optimizer = tf.compat.v1.train.experimental.MixedPrecisionLossScaleOptimizer(optimizer, scaling)
    train_op = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
    return Spec(mode, prediction, loss, train_op, {"scale": scaling(), "step": tf.train.get_global_step()})


def main(_):
    rng = np.random.RandomState(8)
    x = rng.rand(12, 3).astype("float32")
    y = x.sum(-1)
    params = {"dtype": tf.float16, "widths": [4, 2], "rate": 0.05, "initial_scale": 2.0 ** 18}
    with tf.Graph().as_default(), tf.Session() as sess:
        data = tf.data.make_one_shot_iterator(tf.data.Dataset.from_tensor_slices((x, y)).batch(4).repeat()).get_next()
        with tf.variable_scope("", reuse=tf.AUTO_REUSE):
            train = model_fn(data[0], data[1], TRAIN, params)
            evaluation = model_fn(tf.constant(x), tf.constant(y), EVAL, params)
            prediction = model_fn(tf.constant(x[:2]), None, PREDICT, params)
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        for _ in range(8):
            sess.run(train.train_op)
            values = sess.run(train.metrics)
            print("step %d scale %d" % (values["step"], values["scale"]))
        sess.run(evaluation.metrics["mae"][1])
        print("mae %.2f loss %.2f" % (sess.run(evaluation.metrics["mae"][0]), sess.run(evaluation.loss)))
        print("predictions %.2f %.2f" % tuple(sess.run(prediction.predictions)))


if __name__ == "__main__":
    tf.app.run()
