"""Checkpoints of `tf.compat.v1.train.Saver` in graphs of mpls, for the families that work there."""

from mpls.core.persistence.savers.naming import StepNames
from mpls.core.persistence.savers.watching import watch_savers

__all__ = ["StepNames", "watch_savers"]
