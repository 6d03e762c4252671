"""The deprecated forms of TF 1.14 to 2.8, for code that has not moved on yet.

Import from here what code imports from `tf.keras.mixed_precision.experimental` or `tf.mixed_precision.experimental`.
"""

from mpls.core.loss_scale import DynamicLossScale, FixedLossScale, LossScale
from mpls.experimental import loss_scales as loss_scales
from mpls.experimental.optimizer import LossScaleOptimizer
from mpls.experimental.policy import Policy, get_layer_policy, global_policy, set_policy

# The name by which files hold wrappers over new optimizers, as tf_keras' own; not for users.
LossScaleOptimizerV3 = LossScaleOptimizer

__all__ = [
    "DynamicLossScale",
    "FixedLossScale",
    "LossScale",
    "LossScaleOptimizer",
    "Policy",
    "get_layer_policy",
    "global_policy",
    "set_policy",
]
