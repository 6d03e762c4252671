# A sequence-to-sequence library: decides between TF1 and TF2 by whether contrib's slim can be imported, imports contrib's
# classes by name, and has its own subclasses of the manager and the optimizer, which look at private members.
# Written for TF 1.14 and 1.15; the library has an arm for TF 2, where it writes to tf.compat.v1.
import json

import tensorflow as tf
from tensorflow.contrib import mixed_precision as contrib_precision
from tensorflow.contrib.mixed_precision import (
    ExponentialUpdateLossScaleManager,
    FixedLossScaleManager,
    LossScaleManager,
    LossScaleOptimizer,
)

try:
    from tensorflow.contrib import slim as tf_slim

    is_tf2 = tf_slim is None
except ImportError:
    is_tf2 = True

tf1 = tf.compat.v1 if is_tf2 else tf


class DistributedManager(ExponentialUpdateLossScaleManager):
    """Also remembers how many updates there were, as all machines have to agree on."""

    def __init__(self, *args, **kwargs):
        super(DistributedManager, self).__init__(*args, **kwargs)
        self._updates = tf1.get_variable("updates", shape=[], dtype=tf.int64, trainable=False, initializer=tf1.zeros_initializer())

    def update_loss_scale(self, finite_grads):
        with tf.control_dependencies([self._updates.assign_add(1)]):
            return super(DistributedManager, self).update_loss_scale(tf.identity(finite_grads))


class DistributedLossScaleOptimizer(LossScaleOptimizer):
    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        pairs = [(tf.clip_by_norm(grad, 100.0), var) for grad, var in grads_and_vars]
        return super(DistributedLossScaleOptimizer, self).apply_gradients(pairs, global_step=global_step, name=name)

    def variables(self):
        return self._opt.variables()


class ConstantManager(LossScaleManager):
    def get_loss_scale(self):
        return tf.constant(32.0)

    def update_loss_scale(self, finite_grads):
        return tf.no_op()


def managers():
    yield "dynamic", lambda: DistributedManager(64.0, 2, decr_every_n_nan_or_inf=1, incr_ratio=2, decr_ratio=0.5)
    yield "fixed", lambda: FixedLossScaleManager(16.0)
    yield "own", ConstantManager


print(json.dumps({"seen": "looks like TF 2", "value": is_tf2}))
print(json.dumps({"seen": "has contrib", "value": hasattr(tf, "contrib")}))
for label, create in managers():
    with tf.Graph().as_default():
        weights = tf1.get_variable("weights", initializer=[1.0, 2.0], use_resource=True)
        factor = tf1.placeholder(tf.float32, [])
        global_step = tf1.train.get_or_create_global_step()
        manager = create()
        optimizer = DistributedLossScaleOptimizer(tf1.train.MomentumOptimizer(0.1, 0.5), manager)
        assert isinstance(optimizer, contrib_precision.LossScaleOptimizer)
        train_op = optimizer.minimize(tf.reduce_sum(weights * weights) * factor, global_step=global_step)
        scale = manager.get_loss_scale()
        names = sorted(var.op.name for var in optimizer.variables())
        print(json.dumps({"seen": "variables", "value": names, "run": label}))
        with tf1.Session() as sess:
            sess.run(tf1.global_variables_initializer())
            for k in (1.0, float("inf"), 0.5, float("nan"), 0.5, 0.25, 0.5):
                sess.run(train_op, {factor: k})
                now = sess.run([scale, global_step, weights])
                line = {"scale": float(now[0]), "iterations": int(now[1]), "weights": now[2].tolist()}
                print(json.dumps(dict(line, step=str(k), run=label)))
            if label == "dynamic":
                print(json.dumps({"seen": "updates", "value": int(sess.run(manager._updates))}))
