"""Checkpoints of `tf.compat.v1.train.Saver` in graphs of mpls, for the families that work there."""

from mpls.core.persistence.savers.naming import StepNames
from mpls.core.persistence.savers.user_savers import hook_user_savers

__all__ = ["StepNames", "hook_user_savers"]
