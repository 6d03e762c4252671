"""Which family an optimizer belongs to, by its own bases."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from mpls.errors import ArgumentTypeError, NotYetSupportedError, error_text
from mpls.upstream import loaded_keras, loaded_tf_keras

_SUBJECT = "LossScaleOptimizer: inner_optimizer"


def is_tf_keras_optimizer(optimizer: Any) -> bool:
    """Return whether the value is an optimizer of tf_keras, legacy or new."""
    return _family_module(optimizer) is not None


def _family_module(optimizer: Any) -> str | None:
    # Without tf_keras loaded, there can be no instance of its classes.
    tf_keras = loaded_tf_keras()
    if tf_keras is None:
        return None
    if isinstance(optimizer, tf_keras.optimizers.legacy.Optimizer):
        return "mpls.keras.legacy"
    if isinstance(optimizer, tf_keras.optimizers.Optimizer):
        return "mpls.keras.new"
    return None


def family_of(optimizer: Any) -> type:
    """Return the adapter class for an optimizer's family.

    Raises:
        TypeError: it is no Keras optimizer, or one of Keras 3, whose family mpls does not have yet.
    """
    module = _family_module(optimizer)
    if module is not None:
        family: type = import_module(module).Family
        return family
    keras = loaded_keras()
    if keras is not None and isinstance(optimizer, keras.optimizers.Optimizer):
        raise NotYetSupportedError(
            error_text(
                _SUBJECT,
                "be an optimizer of tf_keras, since mpls does not wrap Keras 3 optimizers yet",
                optimizer,
                f"Use tf_keras.optimizers.{type(optimizer).__name__}(), with a tf_keras model",
                "keras-3",
            )
        )
    raise ArgumentTypeError(
        error_text(
            _SUBJECT,
            "be an optimizer of tf_keras",
            optimizer,
            "LossScaleOptimizer(tf_keras.optimizers.Adam()); tf.compat.v1.train optimizers are for "
            "mpls.v1.MixedPrecisionLossScaleOptimizer",
            "optimizer-arguments",
        )
    )


@cache
def concrete_class(cls: type, family: Any) -> type:
    """Return the class of instances of `cls` that wrap optimizers of a family.

    Users' subclasses keep their name. Those of mpls have the one of the family's native wrapper, since files that hold
    the optimizer say by it what to load.

    Raises:
        TypeError: `cls` is the class of instances of another family.
    """
    if issubclass(cls, family):
        return cls
    if hasattr(cls, "serialized_name"):
        raise ArgumentTypeError(
            f"{_SUBJECT} must be of the family of {cls.__name__}, a class for one family only; got an optimizer of "
            "another. Call it on the public class: mpls.keras.LossScaleOptimizer.from_config(config). "
            "See MIGRATION.md#optimizer-arguments"
        )
    is_own = cls.__module__ in ("mpls.keras", "mpls.experimental")
    name = family.serialized_name if is_own else cls.__name__
    namespace = {"__module__": cls.__module__, "__qualname__": name, "__doc__": cls.__doc__}
    return type(family)(name, (cls, family), namespace)
