"""Finds the adapter class that wraps an optimizer, whether its Keras needs loss scaling, and registered classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpls.core import releases
from mpls.errors import ArgumentTypeError, ArgumentValueError, error_text
from mpls.formats.families import Family
from mpls.upstream.keras_packages import keras_family_of, loaded_keras, loaded_tf_keras

_SUBJECT = "LossScaleOptimizer: inner_optimizer"
# Dtypes in which gradients overflow no sooner than in float32.
_WIDE = ("float32", "float64", "bfloat16")


def is_keras_optimizer(optimizer: Any) -> bool:
    """Return whether the value is an optimizer of tf_keras, legacy or new, or of Keras 3."""
    return keras_family_of(optimizer) is not None


def adapter_of_family(family: Family) -> Any:
    """Return the adapter class of a family; its framework is imported."""
    if family != "keras3":
        from mpls.keras.tf_keras_family import LegacyAdapter, NewAdapter

        return LegacyAdapter if family == "legacy" else NewAdapter
    from mpls.keras.keras3 import Keras3Adapter

    return Keras3Adapter


def adapter_for(optimizer: Any) -> Any:
    """Return the adapter class that wraps an optimizer.

    Raises:
        TypeError: it is not a Keras optimizer; up to TF 2.3 it was a ValueError.
    """
    family = keras_family_of(optimizer)
    if family is not None:
        return adapter_of_family(family)
    error = ArgumentValueError if releases.current().wrong_optimizers_are_value_errors else ArgumentTypeError
    raise error(
        error_text(
            _SUBJECT,
            "be an optimizer of tf_keras or of Keras 3",
            optimizer,
            "Pass an object: LossScaleOptimizer(keras.optimizers.Adam()) for Keras 3, "
            "LossScaleOptimizer(tf_keras.optimizers.Adam()) for tf_keras; tf.compat.v1.train optimizers are for "
            "mpls.v1.MixedPrecisionLossScaleOptimizer",
            "optimizer-arguments",
        )
    )


def registered_class(name: str) -> Any:
    """Return the class that the user has registered under a name with tf_keras or Keras 3; None if there is none."""
    for module in (loaded_tf_keras(), loaded_keras()):
        found = None if module is None else module.saving.get_registered_object(name)
        if found is not None:
            return found
    return None


def decided(enabled: Any, optimizer: Any, subject: str = "LossScaleOptimizer") -> bool:
    """Return whether a wrapper is to scale the loss.

    Args:
        enabled: what the user has passed.
        optimizer: the optimizer that it wraps.
        subject: the public name that the user called, for errors.

    Raises:
        TypeError: `enabled` is neither a bool nor a string; or it is 'auto', and the optimizer is of TF 1.
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
