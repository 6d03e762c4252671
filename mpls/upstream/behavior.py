"""How TensorFlow says whether it behaves as TF 1 or as TF 2; loaded after TensorFlow only."""

from __future__ import annotations

import tensorflow as tf

from mpls.upstream import table

__all__ = ["is_eager_by_default", "is_v2_behavior_on"]


def is_v2_behavior_on() -> bool:
    """Return whether TensorFlow behaves as TF 2 in this process, in code that is in no graph.

    A program of TF 1 that has enabled eager execution does not: `disable_v2_behavior` disables `tf2` (TF 1.15 to 2.21).
    """
    is_tf2 = table.IS_TF2.load()
    return (is_tf2 is None or bool(is_tf2())) and is_eager_by_default()


def is_eager_by_default() -> bool:
    """Return whether threads that begin now run eagerly, whatever this one does (TF 1.7 to 2.21)."""
    mode, eager = table.MODE.load(), table.EAGER_MODE.load()
    if None in (mode, eager):
        return bool(tf.compat.v1.executing_eagerly_outside_functions())
    return bool(mode == eager)
