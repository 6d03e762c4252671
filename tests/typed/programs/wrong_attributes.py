"""Names that public modules, classes and what functions return do not have."""

import tensorflow as tf
import tf_keras

import mpls
import mpls.contrib
import mpls.experimental
import mpls.keras
import mpls.v1

mpls.nonsense()  # error: attr-defined | reportAttributeAccessIssue
mpls.v1.nonsense()  # error: attr-defined | reportAttributeAccessIssue
mpls.keras.nonsense()  # error: attr-defined | reportAttributeAccessIssue
mpls.experimental.nonsense()  # error: attr-defined | reportAttributeAccessIssue

sgd = tf.compat.v1.train.GradientDescentOptimizer(0.1)
graph = mpls.v1.MixedPrecisionLossScaleOptimizer(sgd, "dynamic")
graph.nonsense()  # error: attr-defined | reportAttributeAccessIssue
graph.get_scaled_loss(1.0)  # error: attr-defined | reportAttributeAccessIssue
fixed = mpls.v1.FixedLossScale(8)
fixed.nonsense()  # error: attr-defined | reportAttributeAccessIssue
print(fixed.initial_loss_scale)  # error: attr-defined | reportAttributeAccessIssue
dynamic = mpls.v1.DynamicLossScale()
dynamic.nonsense()  # error: attr-defined | reportAttributeAccessIssue


def use(loss_scale: mpls.v1.LossScale, base: mpls.contrib.LossScaleManager) -> None:
    base.nonsense()  # error: attr-defined | reportAttributeAccessIssue
    loss_scale.nonsense()  # error: attr-defined | reportAttributeAccessIssue
    print(loss_scale.multiplier)  # error: attr-defined | reportAttributeAccessIssue


keras = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD())
keras.nonsense()  # error: attr-defined | reportAttributeAccessIssue
keras.minimise()  # error: attr-defined | reportAttributeAccessIssue
keras.loss_scale = 8  # error: misc | reportAttributeAccessIssue
keras.dynamic = False  # error: misc | reportAttributeAccessIssue
policy = mpls.keras.Policy("float32")
policy.nonsense()  # error: attr-defined | reportAttributeAccessIssue
policy.loss_scale()  # error: attr-defined | reportAttributeAccessIssue

old = mpls.experimental.LossScaleOptimizer(tf_keras.optimizers.SGD(), "dynamic")
old.nonsense()  # error: attr-defined | reportAttributeAccessIssue

manager = mpls.contrib.ExponentialUpdateLossScaleManager(8.0, 2)
manager.nonsense()  # error: attr-defined | reportAttributeAccessIssue
contrib = mpls.contrib.LossScaleOptimizer(sgd, manager)
contrib.nonsense()  # error: attr-defined | reportAttributeAccessIssue

mpls.convert_state(keras, old).nonsense()  # error: attr-defined | reportAttributeAccessIssue
mpls.install().nonsense()  # error: attr-defined | reportAttributeAccessIssue
mpls.keras.LossScaleOptimizer.from_config({}).nonsense()  # error: attr-defined | reportAttributeAccessIssue
