"""The loss scaling of `tf.contrib` comes from mpls.contrib.

`tf.contrib` ended with TF 1.15. `mpls.contrib` has `LossScaleOptimizer` and the managers of
`tf.contrib.mixed_precision`, with the same arguments. Other parts of `tf.contrib` stay as they are: see `mpls doctor`.
"""

from __future__ import annotations

from mpls.migrate.ruling import Rule

__all__ = ["RULE"]

RULE = Rule("contrib", str(__doc__), owns=lambda row: row.target.startswith("mpls.contrib:"))
