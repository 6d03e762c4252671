"""The deprecated API of TF 1.14 to 2.8, for code that still uses it.

Import from here what code imports from `tf.keras.mixed_precision.experimental` or `tf.mixed_precision.experimental`.
"""

from mpls.core.dynamic import DynamicLossScale
from mpls.core.loss_scale import FixedLossScale, LossScale
from mpls.experimental import loss_scales as loss_scales
from mpls.experimental.policy import Policy, get_layer_policy, global_policy, set_policy
from mpls.keras.experimental_wrapper import LossScaleOptimizer

# The class name that files have for wrappers over new optimizers, as with tf_keras' own; not for users.
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
