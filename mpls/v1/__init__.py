"""Loss scaling for `tf.compat.v1.train` optimizers, in a v1 graph, in eager mode and inside `tf.function`.

Import from here what legacy code imports from `tf.compat.v1.train.experimental`, `tf.compat.v1.mixed_precision`
or `tf.train.experimental`.
"""

from mpls.core.dynamic import DynamicLossScale
from mpls.core.loss_scale import FixedLossScale, LossScale
from mpls.v1.graph_rewrite import (
    disable_mixed_precision_graph_rewrite,
    enable_mixed_precision_graph_rewrite,
    register_loss_scale_wrapper,
)
from mpls.v1.optimizer import MixedPrecisionLossScaleOptimizer

__all__ = [
    "DynamicLossScale",
    "FixedLossScale",
    "LossScale",
    "MixedPrecisionLossScaleOptimizer",
    "disable_mixed_precision_graph_rewrite",
    "enable_mixed_precision_graph_rewrite",
    "register_loss_scale_wrapper",
]
