"""Finds the adapter class that wraps an optimizer, and the classes that users have registered."""

from __future__ import annotations

from typing import Any

from mpls.core import releases
from mpls.errors import ArgumentTypeError, ArgumentValueError, error_text
from mpls.formats.families import Family
from mpls.upstream.keras_packages import keras_family_of, loaded_keras, loaded_tf_keras

_SUBJECT = "LossScaleOptimizer: inner_optimizer"


def is_keras_optimizer(optimizer: Any) -> bool:
    """Return whether the value is an optimizer of tf_keras, legacy or new, or of Keras 3."""
    return keras_family_of(optimizer) is not None


def adapter_of_family(family: Family) -> Any:
    """Return the adapter class of a family; its framework is imported."""
    if family == "legacy":
        from mpls.keras.legacy import LegacyAdapter

        return LegacyAdapter
    if family == "new":
        from mpls.keras.new import NewAdapter

        return NewAdapter
    from mpls.keras.keras3 import Keras3Adapter

    return Keras3Adapter


def adapter_for(optimizer: Any) -> Any:
    """Return the adapter class that wraps an optimizer.

    Raises:
        TypeError: it is no Keras optimizer; up to TF 2.3 it was a ValueError.
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
