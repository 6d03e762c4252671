"""The wrapper of graph mode and the graph rewrite come from mpls.v1.

`MixedPrecisionLossScaleOptimizer` and `enable_mixed_precision_graph_rewrite` were removed from `tf.train.experimental`;
those in `tf.compat.v1` are still there, with their defects, and refuse optimizers of Keras. Those of `mpls.v1` take the
same arguments, and optimizers of both Kerases. The functions register under the same flag and option of TensorFlow.
"""

from __future__ import annotations

from mpls.migrate.ruling import Rule
from mpls.names import Name

__all__ = ["RULE"]

_NAMES = (
    "MixedPrecisionLossScaleOptimizer",
    "enable_mixed_precision_graph_rewrite",
    "disable_mixed_precision_graph_rewrite",
    "register_loss_scale_wrapper",
)


def _owns(row: Name) -> bool:
    home, _, name = row.target.partition(":")
    return home == "mpls.v1" and name in _NAMES


RULE = Rule("graph-mode", str(__doc__), owns=_owns)
