"""`mpls.experimental`: the deprecated wrapper, and policies with a loss scale."""

import keras
import tensorflow as tf
import tf_keras

import mpls.experimental
import mpls.keras

old = mpls.experimental.LossScaleOptimizer(tf_keras.optimizers.SGD(0.1), mpls.experimental.DynamicLossScale(8, 1000))
fixed = mpls.experimental.LossScaleOptimizer(tf_keras.optimizers.legacy.SGD(0.1), loss_scale=128)
mpls.experimental.LossScaleOptimizer(keras.optimizers.SGD(0.1), "dynamic")
from_config: mpls.experimental.LossScaleOptimizer = mpls.experimental.LossScaleOptimizer.from_config(old.get_config())
new = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD(0.1), initial_scale=8, dynamic_growth_steps=1000)
either: list[mpls.keras.LossScaleOptimizer] = [old, new]
weight = tf.Variable(tf.constant(1.0))
for opt in either:
    opt.minimize(lambda: weight**2, [weight])

policy = mpls.experimental.Policy("mixed_float16", loss_scale=128)
loss_scale = policy.loss_scale
assert loss_scale is not None and float(loss_scale()) == 128.0
mpls.experimental.set_policy(policy)
print(mpls.experimental.get_layer_policy(keras.layers.Dense(1)).compute_dtype)
assert mpls.experimental.global_policy().loss_scale is None
again: mpls.experimental.Policy = mpls.experimental.Policy.from_config(policy.get_config())
assert again.should_cast_variables
