"""Finds the adapter class of an optimizer's family, and the classes that users have registered."""

from __future__ import annotations

from typing import Any

from mpls.core import releases
from mpls.errors import ArgumentTypeError, ArgumentValueError, error_text
from mpls.formats.families import Family
from mpls.upstream.kerases import keras_family_of, loaded_keras, loaded_tf_keras

_SUBJECT = "LossScaleOptimizer: inner_optimizer"


def is_keras_optimizer(optimizer: Any) -> bool:
    """Return whether the value is an optimizer of tf_keras, legacy or new, or of Keras 3."""
    return keras_family_of(optimizer) is not None


def family(name: Family) -> Any:
    """Return the adapter class of a family; its framework is imported."""
    if name == "legacy":
        from mpls.keras.legacy import Family as Legacy

        return Legacy
    if name == "new":
        from mpls.keras.new import Family as New

        return New
    from mpls.keras.keras3 import Family as Keras3

    return Keras3


def family_of(optimizer: Any) -> Any:
    """Return the adapter class for an optimizer's family.

    Raises:
        TypeError: it is no Keras optimizer; up to TF 2.3 it was a ValueError.
    """
    name = keras_family_of(optimizer)
    if name is not None:
        return family(name)
    error = ArgumentValueError if releases.current().wrong_optimizers_are_value_errors else ArgumentTypeError
    raise error(
        error_text(
            _SUBJECT,
            "be an optimizer of tf_keras or of Keras 3",
            optimizer,
            "LossScaleOptimizer(tf_keras.optimizers.Adam()); tf.compat.v1.train optimizers are for "
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
