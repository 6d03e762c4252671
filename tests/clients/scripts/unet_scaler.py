# A segmentation model in graph mode: MixedPrecisionLossScaleOptimizer around a v1 optimizer, inside of the optimizer that
# sums over machines, or around it; and a fine-tuning library that calls tf.gradients itself, so that only the half of the wrapper acts
# which skips. Prediction calls the graph rewrite for its side effect alone, with an optimizer that is thrown away.
# Written for TF 1.15.
import json
import sys

import tensorflow as tf
from tensorflow.train.experimental import FixedLossScale, enable_mixed_precision_graph_rewrite

INF = float("inf")


class Distributed(tf.train.Optimizer):
    def __init__(self, optimizer):
        super(Distributed, self).__init__(False, "Distributed")
        self._optimizer = optimizer

    def compute_gradients(self, *args, **kwargs):
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, *args, **kwargs):
        return self._optimizer.apply_gradients(*args, **kwargs)


def model_fn(weights, factor, how):
    loss = tf.reduce_sum(weights * weights * factor)
    global_step = tf.train.get_or_create_global_step()
    if how == "adam":
        scaling = tf.train.experimental.DynamicLossScale()
        optimizer = tf.train.AdamOptimizer(learning_rate=0.1)
        optimizer = tf.compat.v1.train.experimental.MixedPrecisionLossScaleOptimizer(optimizer, scaling)
        return Distributed(optimizer).minimize(loss, global_step=global_step), scaling
    if how == "gradients":
        scaling = tf.train.experimental.DynamicLossScale(initial_loss_scale=64, increment_period=2)
        optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
        optimizer = tf.train.experimental.MixedPrecisionLossScaleOptimizer(optimizer, loss_scale=scaling)
        assert isinstance(optimizer, tf.compat.v1.train.experimental.MixedPrecisionLossScaleOptimizer)
        # Nothing is scaled or divided: only what apply_gradients does is left of the wrapper.
        variables = tf.trainable_variables()
        grads = tf.gradients(loss, variables)
        return optimizer.apply_gradients(zip(grads, variables), global_step=global_step), scaling
    # Here the scaling optimizer is the outer one.
    optimizer = Distributed(tf.train.GradientDescentOptimizer(0.1))
    optimizer = tf.train.experimental.MixedPrecisionLossScaleOptimizer(optimizer, 128.0)
    return optimizer.minimize(loss, global_step=global_step), lambda: tf.constant(128.0)


def train(how):
    with tf.Graph().as_default():
        weights = tf.get_variable("weights", initializer=[1.0, -2.0])
        factor = tf.placeholder(tf.float32, [])
        train_op, scaling = model_fn(weights, factor, how)
        scale = scaling()
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for k in (1.0, 2.0, INF, 2.0, 3.0):
                sess.run(train_op, {factor: k})
                now = sess.run([scale, tf.train.get_global_step(), weights])
                line = {"step": k, "scale": float(now[0]), "iterations": int(now[1]), "weights": now[2].tolist()}
                print(json.dumps(dict(line, run=how)))


def predict():
    with tf.Graph().as_default():
        dummy = tf.train.GradientDescentOptimizer(learning_rate=1.0)
        wrapped = enable_mixed_precision_graph_rewrite(dummy, FixedLossScale(1))
        print(json.dumps({"seen": "class of the dummy", "value": type(wrapped).__name__}))
        options = tf.config.optimizer.get_experimental_options()
        print(json.dumps({"seen": "rewrite is on", "value": options["auto_mixed_precision"]}))
        try:
            enable_mixed_precision_graph_rewrite(wrapped)
        except ValueError:
            print(json.dumps({"seen": "wrapping twice", "value": "ValueError"}))
        try:
            # The loss scale where the optimizer belongs, which nobody noticed.
            tf.train.experimental.enable_mixed_precision_graph_rewrite(tf.train.experimental.DynamicLossScale())
        except Exception as error:
            print(json.dumps({"seen": "not an optimizer", "value": isinstance(error, ValueError)}))
        print(json.dumps({"step": 0, "weights": [float(tf.Session().run(tf.constant(2.0) * 3.0))]}))


for how in sys.argv[1:] or ("adam", "gradients", "fixed"):
    train(how)
predict()
