"""The loss scaling of `tf.contrib.mixed_precision`, TF 1.13 to 1.15.

Import from here what code imports from `tf.contrib.mixed_precision`.
"""

from mpls.contrib.managers import ExponentialUpdateLossScaleManager, FixedLossScaleManager, LossScaleManager
from mpls.contrib.optimizer import LossScaleOptimizer

__all__ = [
    "ExponentialUpdateLossScaleManager",
    "FixedLossScaleManager",
    "LossScaleManager",
    "LossScaleOptimizer",
]
