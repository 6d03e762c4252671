# A world-model agent: the experimental module under a short name, the policy set when the program starts, an optimizer
# class of its own that enters the tape again to scale the loss, clips the global norm, and works inside tf.function.
# Written for TF 2.1; ran up to TF 2.8.
import json

import tensorflow as tf
from tensorflow.keras.mixed_precision import experimental as prec

prec.set_policy(prec.Policy("mixed_float16"))


class Adam(tf.Module):
    def __init__(self, name, variables, lr, clip=None):
        super().__init__(name=name)
        self._variables = variables
        self._clip = clip
        self._mixed = prec.global_policy().compute_dtype == tf.float16
        self._opt = tf.keras.optimizers.Adam(lr, beta_1=0.9, beta_2=0.999, epsilon=1e-7)
        if self._mixed:
            self._opt = prec.LossScaleOptimizer(self._opt, "dynamic")

    @property
    def variables(self):
        return self._opt.variables()

    def __call__(self, tape, loss):
        if self._mixed:
            with tape:
                loss = self._opt.get_scaled_loss(loss)
        grads = tape.gradient(loss, self._variables)
        if self._mixed:
            grads = self._opt.get_unscaled_gradients(grads)
        norm = tf.linalg.global_norm(grads)
        if self._clip:
            grads, _ = tf.clip_by_global_norm(grads, self._clip, norm)
        self._opt.apply_gradients(zip(grads, self._variables))
        return norm


weights = tf.Variable([1.0, 2.0])
optimizer = Adam("model", [weights], 0.01, clip=100.0)


@tf.function
def train(factor):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(weights) * factor
    return optimizer(tape, loss)


for k in (1.0, float("inf"), 2.0, 3.0):
    norm = float(train(tf.constant(k)))
    scale = float(optimizer._opt.get_scaled_loss(tf.constant(1.0)))
    line = {"step": k, "scale": scale, "iterations": int(optimizer._opt.iterations), "norm": norm}
    print(json.dumps(dict(line, weights=weights.numpy().tolist())))
counter = optimizer.variables[0]
print(json.dumps({"seen": "first variable", "value": int(counter)}))
