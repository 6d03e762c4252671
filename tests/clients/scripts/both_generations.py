# A training library that grew over the years: the new names where they are, with the experimental ones as fallback, and a
# wrapper by the new constructor, whose loss_scale is a value.
# Written for TF 2.4 to 2.8.
import json

import tensorflow as tf
from tensorflow.keras import mixed_precision


def make(optimizer, fixed=None):
    if fixed == "new fixed":
        return mixed_precision.LossScaleOptimizer(optimizer, dynamic=False, initial_scale=64)
    if hasattr(mixed_precision, "LossScaleOptimizer") and fixed is None:
        return mixed_precision.LossScaleOptimizer(optimizer)
    return mixed_precision.experimental.LossScaleOptimizer(optimizer, fixed)


mixed_precision.set_global_policy("mixed_float16")
print(json.dumps({"seen": "policy", "value": mixed_precision.global_policy().compute_dtype}))
mixed_precision.set_global_policy("float32")
for run, fixed in (("new", None), ("fixed", 128), ("dynamic", "dynamic"), ("new fixed", "new fixed")):
    weights = tf.Variable([1.0, 2.0])
    optimizer = make(tf.keras.optimizers.SGD(0.1), fixed)
    for k in (1.0, float("inf"), 2.0) if "fixed" not in run else (1.0, 2.0):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weights) * k
            scaled = optimizer.get_scaled_loss(loss)
        grads = optimizer.get_unscaled_gradients(tape.gradient(scaled, [weights]))
        optimizer.apply_gradients(zip(grads, [weights]))
        line = {"step": k, "scale": float(optimizer.loss_scale), "iterations": int(optimizer.iterations)}
        print(json.dumps(dict(line, weights=weights.numpy().tolist(), run=run)))
    print(json.dumps({"seen": "inner", "value": type(optimizer.inner_optimizer).__name__}))
    print(json.dumps({"seen": "settings", "value": [optimizer.dynamic, float(optimizer.initial_scale)]}))
