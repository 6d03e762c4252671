"""Whether a wrapper scales the loss, as the user says or as the global policy of its Keras tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpls.errors import ArgumentTypeError, ArgumentValueError, error_text
from mpls.keras.adapters import adapter_for

__all__ = ["decided"]

# Dtypes in which gradients overflow no sooner than in float32.
_WIDE = ("float32", "float64", "bfloat16")


def decided(enabled: Any, optimizer: Any, subject: str = "LossScaleOptimizer") -> bool:
    """Return whether a wrapper is to scale the loss.

    Args:
        enabled: what the user has passed.
        optimizer: the optimizer that it wraps.
        subject: the public name that the user called, for errors.

    Raises:
        TypeError: `enabled` is no bool and no string; or it is `'auto'`, and the optimizer is no Keras optimizer.
        ValueError: it is another string than `'auto'`.
    """
    if isinstance(enabled, bool):
        return enabled
    if isinstance(enabled, str) and enabled == "auto":
        return _may_be_float16(adapter_for(optimizer)._global_policy())
    error = ArgumentValueError if isinstance(enabled, str) else ArgumentTypeError
    raise error(error_text(f"{subject}: enabled", "be True, False or 'auto'", enabled, "enabled='auto'", "disabling"))


def _may_be_float16(policy: Any) -> bool:
    """Return whether layers with a policy compute in float16, or in a dtype that the policy does not tell."""
    # Keras 3 has policies that hold one for each layer.
    policies = [policy, *(policy.values() if isinstance(policy, Mapping) else ())]
    return any(getattr(each, "compute_dtype", None) not in _WIDE for each in policies)
