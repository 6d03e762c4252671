"""What is known of how TensorFlow says whether it behaves as TF 1 or as TF 2; loaded after TensorFlow only."""

from __future__ import annotations

from tensorflow.python import tf2
from tensorflow.python.eager import context

__all__ = ["is_eager_by_default", "is_v2_behavior_on"]


def is_v2_behavior_on() -> bool:
    """Return whether TensorFlow behaves as TF 2 in this process, in code that is in no graph.

    A program of TF 1 that has enabled eager execution does not: `disable_v2_behavior` disables `tf2` (TF 1.15 to 2.21).
    """
    return bool(tf2.enabled()) and is_eager_by_default()


def is_eager_by_default() -> bool:
    """Return whether threads that begin now run eagerly, whatever this one does (TF 1.7 to 2.21)."""
    return bool(context.default_execution_mode == context.EAGER_MODE)
