"""`convert_state`, the public function; and `export`, the record of a live optimizer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from mpls.errors import ArgumentValueError, SavedStateError, error_text
from mpls.formats import algorithms
from mpls.formats.record import LossScaleRecord, OptimizerRecord, VariableRecord
from mpls.formats.validity import ANCHOR, SEE_DOCS
from mpls.transfer.hosts import Host, Place, as_numpy, host_of
from mpls.transfer.load import given_variables, load_record, require_eager
from mpls.transfer.scales import counts_of, scale_of, tracks_overflows
from mpls.transfer.settings import settings_of
from mpls.transfer.transfer_report import TransferReport


def convert_state(
    source: Any,
    optimizer: Any,
    variables: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    source_variables: Sequence[Any] | None = None,
    key: str | None = None,
) -> TransferReport:
    """Copy the state of an optimizer into an optimizer of another Keras, so that training continues.

    Examples:
        >>> import keras, mpls, tensorflow as tf, tf_keras
        >>> weight = tf.Variable(1.0, name="weight")
        >>> old = tf_keras.optimizers.legacy.SGD(0.25, momentum=0.5)
        >>> _ = old.minimize(lambda: weight ** 2, [weight])
        >>> new_weight = keras.Variable(weight.numpy(), name="weight")
        >>> new = keras.optimizers.SGD(0.25, momentum=0.5)
        >>> print(mpls.convert_state(old, new, [new_weight], source_variables=[weight]))
        tf_keras.optimizers.legacy.SGD -> keras.optimizers.SGD
        iterations: 1
        slots of weight: momentum

    The target gets the number of steps, the slots of every variable, other state of the algorithm, and the loss scale
    with its counter. It also gets counters of steps, if it has the option for them. If only the source has a wrapper,
    the loss scale is not copied. If only the target has a wrapper, its loss scale does not change; if it is dynamic, a
    warning says so. The hyperparameters of the target do not change. The report lists those that differ.

    All checks come before the first assignment, so after an error the target has not changed. If the target is not
    built, it is built with `variables`. The function works only in eager mode. Functions that use the target may have
    been traced before.

    SGD, Adam, AdamW, RMSprop, Adagrad, Adadelta, Adamax, Nadam, Ftrl and Lion can be converted between all families
    that have them. Others can be converted between two objects of one class.

    Args:
        source: an optimizer of tf_keras (legacy or new) or of Keras 3, with or without a wrapper; or the path of a file
            that holds an optimizer, also one of `tf.compat.v1.train`.
        optimizer: the target, an optimizer of tf_keras (legacy or new) or of Keras 3, with or without a wrapper. If a
            file of `tf.compat.v1.train.Saver` does not say how many steps an Adam has made, because it has several,
            set `optimizer.iterations` before.
        variables: the variables that the target trains, in their order; by default the variables that the target was
            built with. mpls matches them with the variables of the source by name. If the names differ, it matches by
            order if the source has an order, or by shape if all shapes are different. Or pass the pairs as a dict,
            `{key or name in the source: variable}`; the slots of other variables do not change.
        source_variables: if the source is an optimizer, its variables in the order of `variables`. By default
            `variables`, if the source has slots for all of them, or else all variables of the source.
        key: the key of the optimizer in a file that holds several optimizers.

    Returns:
        A report of the state that was set, what was left out, and which settings differ; `print` shows it.

    Raises:
        ValueError: the source is broken, has another algorithm, or lacks slots; variables, shapes or dtypes do not fit;
            the target is not built and gets no variables; or the call is made in `strategy.run`.
        TypeError: `source` or `optimizer` is not an optimizer of these families.
        RuntimeError: the call is made in a graph.

    Reproduces:
        Nothing: TensorFlow and Keras load state only into the family that saved it.
    """
    require_eager()
    if isinstance(source, str | os.PathLike):
        if source_variables is not None:
            raise ArgumentValueError(
                error_text(
                    "convert_state: source_variables",
                    "be left out where the source is a file",
                    source_variables,
                    "Say which is which by a dict: variables={key in the file: variable}",
                    ANCHOR,
                )
            )
        record, subject = _from_file(os.fspath(source), key)
        return load_record(record, optimizer, variables, subject=subject)
    if key is not None:
        advice = "Call convert_state(source, optimizer, variables)"
        constraint = "be left out where the source is an optimizer"
        raise ArgumentValueError(error_text("convert_state: key", constraint, key, advice, ANCHOR))
    host = host_of(source, "convert_state: source")
    given, keys = given_variables(variables)
    if source_variables is None and given is not None and keys is None and _has_trained(host, given):
        source_variables = given
    record = export(source, source_variables, str(host))
    goes_by_order = source_variables is not None
    return load_record(record, optimizer, variables, subject=record.key, goes_by_order=goes_by_order)


def _has_trained(host: Host, variables: Sequence[Any]) -> bool:
    """Return whether an optimizer has slots for all of these variables."""
    try:
        return host.is_built(None) and all(place.slots for place in host.places(variables))
    except (ArgumentValueError, AttributeError):
        # Variables of another Keras lack attributes by which it looks slots up.
        return False


def _from_file(path: str, key: str | None) -> tuple[OptimizerRecord, str]:
    from mpls.saved.reading import read

    found = {each.key: each for each in read(path).optimizers}
    if key is None and len(found) == 1:
        key = next(iter(found))
    if key not in found:
        constraint = f"hold the optimizer {key!r}" if key else "hold one optimizer"
        raise SavedStateError(
            f"{path}: it must {constraint}; got {', '.join(map(repr, found)) or 'none'}. Say which: "
            f"convert_state(path, optimizer, variables, key=...). {SEE_DOCS}"
        )
    return found[key], f"{path}: {key}"


def export(optimizer: Any, variables: Sequence[Any] | None = None, key: str = "optimizer") -> OptimizerRecord:
    """Return a record of the state of a live optimizer, and of its wrapper's loss scale.

    Args:
        optimizer: an optimizer of tf_keras, legacy or new, or of Keras 3; bare or wrapped.
        variables: the variables that it trains, in the order for the record; by default in the optimizer's order.
        key: the key of the record.

    Raises:
        TypeError: it is not an optimizer.
        ValueError: it does not know one of the variables.
        SavedStateError: it is of an unknown algorithm, with variables outside of lists of slots.
    """
    host = host_of(optimizer, "convert_state: source")
    unknown = host.uncounted() if host.state is None else []
    if unknown:
        raise SavedStateError(
            f"convert_state: source must keep its state in lists, one element for each variable; {host} has "
            f"{', '.join(unknown)} elsewhere. Save and restore it with tf.train.Checkpoint. {SEE_DOCS}"
        )
    if host.is_built(None) and variables is not None and host.state is not None:
        _require_trained(host, host.places(variables))
    places = host.places(variables if host.is_built(None) else None)
    iterations = 0 if host.counter is None else int(as_numpy(host.counter))
    own = algorithms.slot_names(host.state, host.family) if host.state else {}
    scale = None if host.wrapper is None else scale_of(host.wrapper)
    return OptimizerRecord(
        key=key,
        family=host.family,
        algorithm=host.algorithm,
        iterations=iterations,
        hyperparameters=settings_of(host),
        variables=[
            VariableRecord(
                None, place.name, {own.get(name, name): as_numpy(slot) for name, slot in place.slots.items()}
            )
            for place in places
        ],
        others={name: as_numpy(variable) for name, variable in host.others().items()},
        # A user's own class of loss scale has no state that mpls knows.
        loss_scale=None if host.wrapper is None else LossScaleRecord(dynamic=True) if scale is None else scale.record,
        options={"track_overflows": True} if tracks_overflows(host.wrapper) else {},
        counts=counts_of(host.wrapper),
    )


def _require_trained(host: Host, places: Sequence[Place]) -> None:
    names = {name for place in places for name in place.slots}
    for place in places:
        if set(place.slots) != names or (not names and any(each.slots for each in host.places())):
            raise ArgumentValueError(
                error_text(
                    "convert_state: source_variables",
                    f"be variables that {host} has trained",
                    place.name,
                    "Pass the source's own variables: convert_state(old, new, new_variables, source_variables=...)",
                    ANCHOR,
                )
            )
