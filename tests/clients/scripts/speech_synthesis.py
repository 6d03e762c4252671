# A speech synthesis library: an inner optimizer whose apply_gradients takes the norm to clip to as second argument, which
# the trainer gives by position, through the scaling optimizer; gradients by tf.gradients inside of tf.function.
# Written for TF 2.1 to 2.3; its inner optimizer needs what is called tf.keras.optimizers.legacy since TF 2.9.
import json

import tensorflow as tf

optimizers = getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers)
experimental = tf.keras.mixed_precision.experimental


class AdamWeightDecay(optimizers.Adam):
    def __init__(self, learning_rate, weight_decay_rate=0.0, epsilon=1e-6, name="AdamWeightDecay", **kwargs):
        super().__init__(learning_rate, 0.9, 0.999, epsilon, False, name, **kwargs)
        self.weight_decay_rate = weight_decay_rate

    def apply_gradients(self, grads_and_vars, clip_norm=0.5, **kwargs):
        grads, tvars = list(zip(*grads_and_vars))
        grads, _ = tf.clip_by_global_norm(grads, clip_norm=clip_norm)
        return super().apply_gradients(zip(grads, tvars), **kwargs)

    def _resource_apply_dense(self, grad, var, apply_state=None):
        decay = var.assign_sub(self.weight_decay_rate * self._get_hyper("learning_rate") * var)
        with tf.control_dependencies([decay]):
            return super()._resource_apply_dense(grad, var, apply_state=apply_state)


class SGD(optimizers.SGD):
    def apply_gradients(self, grads_and_vars, clip_norm=0.5, **kwargs):
        grads, tvars = list(zip(*grads_and_vars))
        grads, _ = tf.clip_by_global_norm(grads, clip_norm=clip_norm)
        return super().apply_gradients(zip(grads, tvars), **kwargs)


class Trainer(object):
    def __init__(self, optimizer, is_mixed_precision=True):
        self._optimizer = optimizer
        if is_mixed_precision:
            self._optimizer = experimental.LossScaleOptimizer(optimizer, "dynamic")
        else:
            self._optimizer.get_scaled_loss = lambda loss: loss
            self._optimizer.get_unscaled_gradients = lambda grads: grads
        self._weights = tf.Variable([1.0, 2.0])

    @tf.function
    def step(self, factor):
        loss = tf.reduce_sum(self._weights) * factor
        scaled = self._optimizer.get_scaled_loss(loss)
        grads = self._optimizer.get_unscaled_gradients(tf.gradients(scaled, [self._weights]))
        self._optimizer.apply_gradients(zip(grads, [self._weights]), 1.0)

    def train(self, run, factors):
        for k in factors:
            self.step(tf.constant(k))
            scale = float(self._optimizer.get_scaled_loss(tf.constant(1.0)))
            line = {"step": k, "scale": scale, "iterations": int(self._optimizer.iterations)}
            print(json.dumps(dict(line, weights=self._weights.numpy().tolist(), run=run)))


inf = float("inf")
Trainer(SGD(0.1)).train("sgd", (1.0, inf, 2.0))
Trainer(AdamWeightDecay(0.001, 0.01)).train("adam", (1.0, inf, 2.0, 3.0))
Trainer(SGD(0.1), is_mixed_precision=False).train("plain", (1.0, 2.0))
