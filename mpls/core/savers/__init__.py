"""Checkpoints of `tf.compat.v1.train.Saver` in graphs of mpls, for the families that work there."""

from mpls.core.savers.naming import StepNames
from mpls.core.savers.watching import watch_savers

__all__ = ["StepNames", "watch_savers"]
