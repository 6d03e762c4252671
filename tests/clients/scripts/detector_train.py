# An object detector: TF 2 under the name tf2, the experimental optimizer with a DynamicLossScale of tf.mixed_precision, a
# policy without a loss scale, a gate that compares versions as strings, an isinstance check in train_step, and a policy
# whose loss scale goes to the optimizer.
# Written for TF 2.2 and 2.3; up to TF 2.8 by its gate.
import json

import tensorflow as tf
import tensorflow.compat.v2 as tf2
from tensorflow.mixed_precision.experimental import DynamicLossScale, FixedLossScale, LossScale

IS_OLD = tf.__version__ < "2.4.0"  # As strings: "2.21.0" is smaller too.


def get_optimizer(params):
    optimizer = tf2.keras.optimizers.SGD(params["learning_rate"])
    if params["mixed_precision"]:
        loss_scale = tf.mixed_precision.experimental.DynamicLossScale(params["loss_scale"])
        optimizer = tf2.keras.mixed_precision.experimental.LossScaleOptimizer(optimizer, loss_scale=loss_scale)
    return optimizer


def set_precision_policy(policy_name, loss_scale):
    if loss_scale:
        policy = tf2.keras.mixed_precision.experimental.Policy(policy_name)
    else:
        policy = tf2.keras.mixed_precision.experimental.Policy(policy_name, loss_scale=None)
    tf2.keras.mixed_precision.experimental.set_policy(policy)
    return policy


def train_step(optimizer, weights, factor):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(weights) * factor
        if isinstance(optimizer, tf2.keras.mixed_precision.experimental.LossScaleOptimizer):
            scaled_loss = optimizer.get_scaled_loss(loss)
        else:
            scaled_loss = loss
    grads = tape.gradient(scaled_loss, [weights])
    if isinstance(optimizer, tf2.keras.mixed_precision.experimental.LossScaleOptimizer):
        grads = optimizer.get_unscaled_gradients(grads)
    optimizer.apply_gradients(zip(grads, [weights]))


def scale_of(optimizer):
    return float(optimizer.get_scaled_loss(tf.constant(1.0)))


def report(run, k, optimizer, weights):
    line = {"step": k, "scale": scale_of(optimizer), "iterations": int(optimizer.iterations)}
    print(json.dumps(dict(line, weights=weights.numpy().tolist(), run=run)))


print(json.dumps({"seen": "old arm", "value": IS_OLD}))
policy = set_precision_policy("mixed_float16", None)
print(json.dumps({"seen": "loss scale of a policy without one", "value": policy.loss_scale}))
weights = tf.Variable([1.0, 2.0])
optimizer = get_optimizer({"learning_rate": 0.1, "mixed_precision": True, "loss_scale": 1024})
for k in (1.0, float("inf"), 3.0):
    train_step(optimizer, weights, tf.constant(k))
    report("1024", k, optimizer, weights)

policy = set_precision_policy("mixed_float16", True)
assert isinstance(policy.loss_scale, LossScale) and isinstance(policy.loss_scale, DynamicLossScale)
optimizer = tf.keras.mixed_precision.experimental.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), policy.loss_scale)
weights = tf.Variable([1.0, 2.0])
for k in (float("inf"), 2.0):
    train_step(optimizer, weights, tf.constant(k))
    report("policy", k, optimizer, weights)
set_precision_policy("float32", True)

# A number is a fixed scale, which applies whatever comes; so is the object.
for run, loss_scale in (("128", 128), ("keyword", 8.0), ("object", FixedLossScale(16))):
    args, kwargs = ((), {"loss_scale": loss_scale}) if run == "keyword" else ((loss_scale,), {})
    inner = tf.keras.optimizers.SGD(0.1)
    optimizer = tf.keras.mixed_precision.experimental.LossScaleOptimizer(inner, *args, **kwargs)
    weights = tf.Variable([1.0, 2.0])
    for k in (1.0, 2.0, float("inf")):
        train_step(optimizer, weights, tf.constant(k))
        report(run, k, optimizer, weights)
