"""Private attributes of optimizers of `tf.compat.v1.train`, tf_keras (legacy and new) and Keras 3."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from mpls.formats.object_graph import ITERATIONS, LEARNING_RATES
from mpls.patches import ABSENT
from mpls.upstream import table
from mpls.upstream.keras_packages import keras_family_of, loaded_tf_keras, native_wrappers_of_tf_keras
from mpls.upstream.table import look_up
from mpls.upstream.tensorflow import native_v1_class

# tf_keras and mpls read and set it, on any optimizer that has a wrapper.
_MARK = "_is_wrapped_by_loss_scale_optimizer"
# Where optimizers of `tf.compat.v1.train` that wrap others keep them: Horovod's and mpls', and TensorFlow's own.
_INNER = ("_optimizer", "_opt")
# Attributes of new tf_keras and Keras 3 optimizers: the number of steps, and the learning rate.
_COUNTERS_IN_LISTS = (ITERATIONS["new"], *LEARNING_RATES)


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


def runs_with_dtensor(optimizer: Any) -> bool:
    """Return whether a new optimizer of tf_keras works on DTensors, which are aggregated by themselves."""
    return bool(table.RUNS_WITH_DTENSOR.of(optimizer) or table.MESH.of(optimizer))


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


def counter_of(optimizer: Any) -> Any:
    """Return the iteration counter of a Keras optimizer; None for a legacy one that has not created it yet.

    Raises:
        UnsupportedReleaseError: it is kept elsewhere.
    """
    return _COUNTERS[str(keras_family_of(optimizer))].needed_of(optimizer)


_COUNTERS = {"legacy": table.LEGACY_STEPS, "new": table.NEW_STEPS, "keras3": table.KERAS_3_STEPS}


def is_built(optimizer: Any) -> bool:
    """Return whether a new tf_keras or a Keras 3 optimizer has created its variables."""
    if keras_family_of(optimizer) == "new":
        # The index exists once the optimizer is built, by its first step at the latest.
        return int(counter_of(optimizer).numpy()) > 0 or look_up(optimizer, table.INDEX.name) is not ABSENT
    return bool(optimizer.built)


def index_of(optimizer: Any, variable: Any) -> int:
    """Return the index of a variable in the slot lists of a new tf_keras or a Keras 3 optimizer.

    Raises:
        KeyError: it was not built with the variable.
        UnsupportedReleaseError: it does not say.
    """
    if keras_family_of(optimizer) == "keras3":
        return int(table.VARIABLE_INDEX.needed_of(optimizer)(variable))
    return int(table.INDEX.needed_of(optimizer)[table.VARIABLE_KEY.needed_of(optimizer)(variable)])


def settle_counts(optimizer: Any, steps: int) -> None:
    """Set the state of a new tf_keras optimizer that is in no variable, as it is after a number of steps."""
    tf_keras: Any = loaded_tf_keras()
    if isinstance(optimizer, tf_keras.optimizers.Nadam) and table.U_COUNTER.of(optimizer) is not None:
        # Nadam's product is that of the steps before this one.
        setattr(optimizer, table.U_COUNTER.name, steps + 1)
    compute = table.COMPUTE_RATE.of(optimizer)
    if compute is not None:
        compute()


def lists_of(optimizer: Any) -> dict[str, list[Any]]:
    """Return the lists that a new tf_keras or a Keras 3 optimizer keeps, by name, but that of all its variables."""
    attributes = vars(optimizer).items()
    return {name: each for name, each in attributes if isinstance(each, list) and name != table.OWN_VARIABLES.name}


def counters_of(optimizer: Any) -> list[Any]:
    """Return the variables of a new tf_keras or a Keras 3 optimizer for the number of steps and the learning rate."""
    return [vars(optimizer)[name] for name in _COUNTERS_IN_LISTS if name in vars(optimizer)]


def kept_variables(optimizer: Any) -> dict[str, Any]:
    """Return the variables that a new tf_keras or a Keras 3 optimizer keeps by name, not in lists, but its counters.

    Raises:
        UnsupportedReleaseError: it is a Nadam of tf_keras, and keeps the product of its momenta elsewhere.
    """
    known = {id(each) for each in optimizer.variables}
    attributes = vars(optimizer).items()
    found = {name: each for name, each in attributes if id(each) in known and name not in _COUNTERS_IN_LISTS}
    tf_keras: Any = loaded_tf_keras()
    if tf_keras is not None and isinstance(optimizer, tf_keras.optimizers.Nadam) and is_built(optimizer):
        found[table.U_PRODUCT.name] = table.U_PRODUCT.needed_of(optimizer)
    return found


def learning_rate_of(optimizer: Any) -> Any:
    """Return the learning rate of a Keras optimizer: a number, a variable or a schedule.

    Raises:
        UnsupportedReleaseError: it is kept elsewhere.
    """
    family = keras_family_of(optimizer)
    if family == "legacy":
        return hyperparameters_of(optimizer).get("learning_rate", optimizer.learning_rate)
    return (table.NEW_RATE if family == "new" else table.KERAS_3_RATE).needed_of(optimizer)
