"""What programs import from private modules of TensorFlow and Keras; `mpls.install` puts it back there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from mpls.core.loss_scale import deserialize, get, serialize
from mpls.experimental.policy import global_policy, set_policy

__all__ = [
    "deserialize",
    "get",
    "get_loss_scale_weights",
    "log_device_compatibility_check",
    "policy_scope",
    "serialize",
]


def get_loss_scale_weights(loss_scale: Any) -> list[Any]:
    """Return the variables of a loss scale, as `tensorflow.python.training.experimental.loss_scale` did up to TF 2.3.

    Args:
        loss_scale: a `LossScale`, of mpls or of TensorFlow.

    Returns:
        Its variables; for a fixed one there are none.
    """
    return list(loss_scale._weights.values())


@contextlib.contextmanager
def policy_scope(policy: Any) -> Iterator[None]:
    """Set the global policy for the duration of a block.

    Args:
        policy: a policy or its name.
    """
    before = global_policy()
    set_policy(policy)
    try:
        yield
    finally:
        set_policy(before)


def log_device_compatibility_check(*_: Any, **__: Any) -> None:
    """Do nothing: programs replace it, to keep TensorFlow from logging which GPUs are fast in float16."""
