# Extensions that look at the name of the optimizer's class before they ask the inner one, log its learning rate, save the
# scale in a JSON file, and use the policy of a layer, by the spellings of compat.v2.
# Written for TF 2.2 to 2.4.
import json

import tensorflow as tf
from tensorflow.compat.v2.keras.mixed_precision import experimental
from tensorflow.keras.mixed_precision.experimental import Policy

v2_experimental = tf.compat.v2.keras.mixed_precision.experimental


class AveragedSGD(tf.keras.optimizers.SGD):
    """Its weights' average is asked for at the end."""

    def averages(self, variables):
        return [float(tf.reduce_mean(variable)) for variable in variables]


def inner_of(optimizer):
    if type(optimizer).__name__ in ["LossScaleOptimizer", "LossScaleOptimizerV1"]:
        return optimizer._optimizer
    return optimizer


def scale_of(optimizer):
    if callable(optimizer._loss_scale):
        return float(optimizer._loss_scale().numpy())
    return float(optimizer.loss_scale)


policy = Policy("mixed_float16", loss_scale="dynamic")
experimental.set_policy(policy)
layer = tf.keras.layers.Dense(1, use_bias=False)
output = layer(tf.constant([[1.0, 2.0]]))
of_layer = v2_experimental.get_layer_policy(layer)
print(json.dumps({"seen": "layer", "value": [of_layer.name, output.dtype.name, tf.as_dtype(layer.kernel.dtype).name]}))
print(json.dumps({"seen": "layer has a scale", "value": of_layer.loss_scale is not None}))

weights = tf.Variable([1.0, 2.0])
optimizer = experimental.LossScaleOptimizer(AveragedSGD(0.1, momentum=0.5), policy.loss_scale)
assert isinstance(optimizer, tf.keras.mixed_precision.experimental.LossScaleOptimizer)
print(json.dumps({"seen": "class", "value": type(optimizer).__name__}))
inner = inner_of(optimizer)
assert isinstance(inner, AveragedSGD)
for k in (1.0, float("inf"), 2.0):
    optimizer.learning_rate = 0.1 / k if k < 2 else 0.05
    grads = optimizer.get_unscaled_gradients([tf.constant([k, k]) * scale_of(optimizer)])
    optimizer.apply_gradients(zip(grads, [weights]))
    line = {"step": k, "scale": scale_of(optimizer), "iterations": int(inner.iterations)}
    print(json.dumps(dict(line, weights=weights.numpy().tolist(), rate=float(inner.learning_rate.numpy()))))
print(json.dumps({"seen": "averages", "value": inner.averages([weights])}))
print(json.dumps({"seen": "scale in a file", "value": json.loads(json.dumps({"loss_scale": scale_of(optimizer)}))}))
experimental.set_policy("float32")
