"""`LossScale`, `FixedLossScale` and `DynamicLossScale` come from mpls.

They were removed from `tf.train.experimental` and `tf.mixed_precision.experimental` in TF 2.9, and are still in
`tf.compat.v1`, with their defects. The classes of mpls have the same arguments, methods and private members, for
subclasses too, and every wrapper of mpls takes them; so does TensorFlow's own in `tf.compat.v1`.
"""

from __future__ import annotations

from mpls.migrate.ruling import Rule
from mpls.names import Name

__all__ = ["RULE"]


def _owns(row: Name) -> bool:
    home, _, name = row.target.partition(":")
    return home in ("mpls.experimental", "mpls.v1") and name in ("LossScale", "FixedLossScale", "DynamicLossScale")


RULE = Rule("loss-scale-classes", str(__doc__), owns=_owns)
