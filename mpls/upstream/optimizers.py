"""Private attributes of optimizers of `tf.compat.v1.train`, tf_keras (legacy and new) and Keras 3."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from mpls.patches import ABSENT
from mpls.upstream import table
from mpls.upstream.keras_packages import keras_family_of, loaded_tf_keras, native_wrappers_of_tf_keras
from mpls.upstream.table import look_up
from mpls.upstream.tensorflow import native_v1_class

# tf_keras and mpls read and set it, on any optimizer that has a wrapper.
_MARK = "_is_wrapped_by_loss_scale_optimizer"
# Where optimizers of `tf.compat.v1.train` that wrap others keep them: Horovod's and mpls', and TensorFlow's own.
_INNER = ("_optimizer", "_opt")


def mark_as_wrapped(optimizer: Any, is_wrapped: bool = True) -> None:
    """Mark an optimizer as wrapped, or as bare again."""
    setattr(optimizer, _MARK, is_wrapped)


def is_marked_as_wrapped(optimizer: Any) -> bool:
    """Return whether an optimizer has a wrapper, of mpls or of tf_keras."""
    return bool(getattr(optimizer, _MARK, False))


def fill_slot(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
    """Have an optimizer create a slot from a checkpoint, and return it; arguments are TensorFlow's."""
    family = keras_family_of(optimizer)
    row = {"legacy": table.LEGACY_SLOT, "new": table.NEW_SLOT}.get(str(family), table.V1_SLOT)
    create = row.of(optimizer)
    return None if create is None else create(*args, **kwargs)


def uses_locking(optimizer: Any) -> bool:
    """Return the setting `use_locking` of a v1 optimizer."""
    return bool(table.USE_LOCKING.of(optimizer, False))


def inner_of(optimizer: Any) -> Any:
    """Return the optimizer that a v1 optimizer wraps, None if it wraps none."""
    kept = [getattr(optimizer, name, None) for name in _INNER]
    return next((each for each in kept if isinstance(each, tf.compat.v1.train.Optimizer)), None)


def set_inner(sync_replicas: Any, optimizer: Any) -> str:
    """Have a `SyncReplicasOptimizer` apply gradients by another optimizer; return the attribute that has it.

    Raises:
        UnsupportedReleaseError: TensorFlow keeps it elsewhere.
    """
    table.SYNC_INNER.needed_of(sync_replicas)
    setattr(sync_replicas, table.SYNC_INNER.name, optimizer)
    return table.SYNC_INNER.name


def kept_loss_scale(wrapper: Any) -> Any:
    """Return what a wrapper of mpls, TensorFlow or tf_keras keeps as its loss scale; None for any other optimizer."""
    held = look_up(wrapper, table.V1_SCALE.name)
    if held is not ABSENT:
        return held
    of_v1 = native_v1_class("MixedPrecisionLossScaleOptimizer")
    if of_v1 is not None and isinstance(wrapper, of_v1):
        table.V1_SCALE.warn_that_it_is_gone()
    elif isinstance(wrapper, native_wrappers_of_tf_keras()):
        table.TF_KERAS_SCALE.warn_that_it_is_gone()
    return None


def add_slots(optimizer: Any, variables: list[Any]) -> None:
    """Create the slots of a v1 optimizer for variables, where they are missing."""
    create = table.CREATE_SLOTS.of(optimizer)
    if create is not None:
        create(variables)


def powers_of(optimizer: Any) -> dict[Any, Any]:
    """Return the non-slot variables of a v1 optimizer, such as Adam's beta powers, by `(name, graph)`."""
    found: dict[Any, Any] = table.NON_SLOTS.of(optimizer, {})
    return found


def create_weights(optimizer: Any, variables: list[Any]) -> None:
    """Create the variables of a legacy optimizer of tf_keras, where they are missing."""
    create = table.CREATE_WEIGHTS.of(optimizer)
    if create is not None:
        create(variables)


def aggregated(optimizer: Any, grads_and_vars: Any) -> Any:
    """Return the gradients that a legacy optimizer of tf_keras has aggregated over replicas.

    Raises:
        UnsupportedReleaseError: there are replicas, and it has no method for it.
    """
    if look_up(optimizer, table.AGGREGATE.name) is ABSENT and not tf.distribute.has_strategy():
        return grads_and_vars
    return table.AGGREGATE.needed_of(optimizer)(grads_and_vars)


def sums_as_keras_does(optimizer: Any) -> bool:
    """Return whether a legacy optimizer aggregates by default, after which replicas have the same gradients."""
    tf_keras: Any = loaded_tf_keras()
    own, default = (look_up(each, table.AGGREGATE.name) for each in (optimizer, tf_keras.optimizers.legacy.Optimizer))
    if own is ABSENT or getattr(own, "__func__", None) is not default:
        return False
    sum_of_keras = table.SUM_OF_KERAS.load()
    return sum_of_keras is not None and optimizer.gradient_aggregator is sum_of_keras


def hyperparameters_of(optimizer: Any) -> dict[str, Any]:
    """Return the hyperparameters of a legacy optimizer by name; an empty dict for other optimizers and for None."""
    if keras_family_of(optimizer) != "legacy":
        return {}
    # Bypass `__getattribute__`, which reads this attribute itself.
    found: dict[str, Any] | None = vars(optimizer).get(table.HYPER.name)
    if found is None:
        table.HYPER.warn_that_it_is_gone()
    return found or {}


def name_of_legacy(optimizer: Any) -> str:
    """Return the name scope of a legacy optimizer of tf_keras."""
    return str(table.LEGACY_NAME.of(optimizer) or type(optimizer).__name__)


def trained_variables(optimizer: Any) -> list[Any]:
    """Return the variables that a Keras 3 optimizer was built with, in order.

    Raises:
        UnsupportedReleaseError: Keras keeps them elsewhere.
    """
    found: list[Any] = table.TRAINABLE.needed_of(optimizer)
    return found


def averages_of(optimizer: Any) -> list[tuple[Any, Any]]:
    """Return the variables of a Keras 3 optimizer that averages weights, each with its average; else an empty list."""
    if not optimizer.use_ema:
        return []
    pairs = zip(trained_variables(optimizer), table.AVERAGES.of(optimizer, []), strict=False)
    # Variables that a gradient overwrites have none.
    return [(variable, average) for variable, average in pairs if average is not None]
