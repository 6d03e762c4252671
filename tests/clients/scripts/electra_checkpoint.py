# Pre-training of a discriminator: accumulation under the scale, a checkpoint that holds the scaling optimizer, and a
# learning rate that is logged by way of the inner optimizer's private _decayed_lr.
# Written for TF 2.2 and 2.3; its inner optimizer needs what is called tf.keras.optimizers.legacy since TF 2.9.
import json
import os
import tempfile

import tensorflow as tf

if hasattr(tf.keras.optimizers, "legacy"):
    optimizers = tf.keras.optimizers.legacy
else:
    optimizers = tf.keras.optimizers


class AdamWeightDecay(optimizers.Adam):
    def _resource_apply_dense(self, grad, var, apply_state=None):
        with tf.control_dependencies([var.assign_sub(0.01 * self._decayed_lr(var.dtype) * var)]):
            return super(AdamWeightDecay, self)._resource_apply_dense(grad, var, apply_state=apply_state)


class Trainer(object):
    def __init__(self):
        schedule = optimizers.schedules if hasattr(optimizers, "schedules") else tf.keras.optimizers.schedules
        rate = schedule.PolynomialDecay(0.125, 8, end_learning_rate=0.0)
        policy = tf.keras.mixed_precision.experimental.Policy("mixed_float16", loss_scale="dynamic")
        tf.keras.mixed_precision.experimental.set_policy(policy)
        self.optimizer = tf.keras.mixed_precision.experimental.LossScaleOptimizer(
            AdamWeightDecay(rate, epsilon=1e-6), "dynamic"
        )
        self.weights = tf.Variable([1.0, 2.0])
        self.accumulated = tf.Variable([0.0, 0.0], trainable=False)
        self.checkpoint = tf.train.Checkpoint(optimizer=self.optimizer, weights=self.weights)

    @tf.function
    def accumulate(self, factor, is_first):
        with tf.GradientTape() as tape:
            scaled_loss = self.optimizer.get_scaled_loss(tf.reduce_sum(self.weights) * factor)
        grads = tape.gradient(scaled_loss, [self.weights])
        if is_first:
            self.accumulated.assign(grads[0])
        else:
            self.accumulated.assign_add(grads[0])

    @tf.function
    def apply(self):
        grads = self.optimizer.get_unscaled_gradients([self.accumulated / 2.0])
        grads, _ = tf.clip_by_global_norm(grads, 1.0)
        self.optimizer.apply_gradients(zip(grads, [self.weights]))

    def train(self, run, factors):
        for number, k in enumerate(factors):
            self.accumulate(tf.constant(k), number % 2 == 0)
            if number % 2 == 1:
                self.apply()
            scale = float(self.optimizer._loss_scale().numpy())
            line = {"step": k, "scale": scale, "iterations": int(self.optimizer.iterations), "run": run}
            rate = float(self.optimizer._optimizer._decayed_lr("float32").numpy())
            print(json.dumps(dict(line, weights=self.weights.numpy().tolist(), rate=rate)))


inf = float("inf")
first = Trainer()
first.train("first", (1.0, 2.0, inf, 1.0, 1.0, 3.0))
with tempfile.TemporaryDirectory() as folder:
    path = first.checkpoint.save(os.path.join(folder, "ckpt"))
    second = Trainer()
    second.checkpoint.restore(path)
    second.train("second", (1.0, 2.0))
tf.keras.mixed_precision.experimental.set_policy("float32")
