# The trainer of an accelerator's maker: its own dynamic loss scale, built on TensorFlow's base class with _add_weight and
# update, a subclass of MixedPrecisionLossScaleOptimizer that shows its loss scale and its optimizer, attributes set on
# the loss scale later on, and a loop that knows either wrapper by isinstance.
# Written for TF 2.2, in graph mode.
import json

import tensorflow as tf
from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer, Policy
from tensorflow.python.keras.mixed_precision.experimental import policy as policy_lib
from tensorflow.train.experimental import DynamicLossScale

tf.compat.v1.disable_eager_execution()
INF = float("inf")


class OwnDynamicLossScale(DynamicLossScale):
    """Grows earlier, has a ceiling, and looks at a global norm if somebody has set one."""

    def __init__(self, initial_loss_scale=2.0**15, increment_period=2, multiplier=2.0, max_loss_scale=2.0**15):
        super(OwnDynamicLossScale, self).__init__(initial_loss_scale, increment_period, multiplier)
        self._max_loss_scale = max_loss_scale
        self._overflows = self._add_weight(name="overflows", dtype=tf.int64, initial_value=0)
        self.global_norm = None

    def update(self, grads):
        if self.global_norm is not None:
            finite = tf.math.is_finite(self.global_norm)
        else:
            finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(grad)) for grad in grads])
        good = self._num_good_steps
        grows = tf.logical_and(finite, good + 1 >= self._increment_period)
        grown = tf.minimum(self._current_loss_scale * self._multiplier, self._max_loss_scale)
        shrunk = tf.maximum(self._current_loss_scale / self._multiplier, 1.0)
        scale = tf.where(grows, grown, tf.where(finite, self._current_loss_scale, shrunk))
        steps = tf.where(tf.logical_or(grows, tf.logical_not(finite)), tf.zeros_like(good), good + 1)
        seen = self._overflows + tf.cast(tf.logical_not(finite), tf.int64)
        with tf.control_dependencies([scale, steps, seen]):
            pairs = [(self._current_loss_scale, scale), (good, steps), (self._overflows, seen)]
            return tf.group(*[var.assign(value) for var, value in pairs]), finite


class OwnMixedPrecisionOptimizer(tf.compat.v1.train.experimental.MixedPrecisionLossScaleOptimizer):
    @property
    def loss_scale(self):
        return self._loss_scale

    @property
    def optimizer(self):
        return self._optimizer


def wrap_optimizer(optimizer, loss_scale):
    if loss_scale == "dynamic":
        loss_scale = OwnDynamicLossScale()
    elif loss_scale == "tf_dynamic":
        loss_scale = DynamicLossScale(increment_period=2)
    return OwnMixedPrecisionOptimizer(optimizer, loss_scale)


def train_op(optimizer, weights, factor):
    kinds = (LossScaleOptimizer, tf.compat.v1.train.experimental.MixedPrecisionLossScaleOptimizer)
    assert isinstance(optimizer, kinds)
    scale = optimizer.loss_scale()
    grads = tf.gradients(tf.reduce_sum(weights) * factor * scale, [weights])
    grads = [grad / scale for grad in grads]
    optimizer.loss_scale.global_norm = tf.linalg.global_norm(grads)
    update, should_apply = optimizer._loss_scale.update(grads)

    def apply():
        return optimizer.optimizer.apply_gradients(zip(grads, [weights]), tf.compat.v1.train.get_global_step())

    with tf.control_dependencies([update]):
        if should_apply is True:
            return apply()
        return tf.cond(should_apply, apply, tf.no_op)


for loss_scale in ("dynamic", "tf_dynamic", 64):
    with tf.Graph().as_default():
        weights = tf.compat.v1.get_variable("weights", initializer=[1.0, 2.0])
        factor = tf.compat.v1.placeholder(tf.float32, [])
        global_step = tf.compat.v1.train.get_or_create_global_step()
        optimizer = wrap_optimizer(tf.compat.v1.train.GradientDescentOptimizer(0.1), loss_scale)
        step = train_op(optimizer, weights, factor)
        whole = optimizer.minimize(lambda: tf.reduce_sum(weights) * factor, global_step, var_list=[weights])
        scale = optimizer.loss_scale()
        with tf.compat.v1.Session() as sess:
            sess.run(tf.compat.v1.global_variables_initializer())
            for k, op in ((1.0, step), (INF, step), (2.0, step), (3.0, step), (1.0, whole)):
                sess.run(op, {factor: k})
                now = sess.run([scale, global_step, weights])
                line = {"step": k, "scale": float(now[0]), "iterations": int(now[1]), "weights": now[2].tolist()}
                print(json.dumps(dict(line, run=str(loss_scale))))
            if loss_scale == "dynamic":
                print(json.dumps({"seen": "overflows", "value": int(sess.run(optimizer.loss_scale._overflows))}))

policy = Policy("mixed_float16", loss_scale=None)
policy_lib.set_policy(policy)
value = [policy.name, policy.loss_scale, policy.compute_dtype, policy.variable_dtype]
print(json.dumps({"seen": "policy", "value": value}))
policy_lib.set_policy("float32")
