"""`convert_state`: the public function."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from mpls.errors import ArgumentValueError, SavedStateError, error_text
from mpls.formats.record import OptimizerRecord
from mpls.formats.validity import ANCHOR, SEE_MIGRATION
from mpls.transfer.export import export
from mpls.transfer.hosts import Host
from mpls.transfer.load import load_record, require_eager
from mpls.transfer.matching import given_variables
from mpls.transfer.transfer_report import TransferReport
from mpls.transfer.unwrapping import host_of


def convert_state(
    source: Any,
    optimizer: Any,
    variables: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    source_variables: Sequence[Any] | None = None,
    key: str | None = None,
    hyperparameters: bool = False,
) -> TransferReport:
    """Copy the state of an optimizer into an optimizer of another Keras, so that training goes on.

    The target gets the number of steps, the slots of every variable, other state of the algorithm, and the loss scale
    with its counter; and where it has the option for it, counters of steps and overflows of variables. The source stays
    as it is. If only the source is wrapped, its loss scale is left out; if only the
    target is wrapped, its loss scale stays as it is, and there is a warning if it is dynamic. The target's
    hyperparameters stay as they are unless `hyperparameters=True`; the report says which differ.

    All checks come before the first assignment, so an error leaves the target as it was. A target that is not built yet
    is built with `variables`. It works in eager mode only; functions that use the target may have been traced before.

    SGD, Adam, AdamW, RMSprop, Adagrad, Adadelta, Adamax, Nadam, Ftrl and Lion can be converted between all families
    that have them. Other optimizers can be converted between instances of one class.

    Args:
        source: an optimizer of tf_keras, legacy or new, of Keras 3 or of `tf.compat.v1.train`, bare or in a wrapper of
            mpls or of its framework; or the path of a file that holds one.
        optimizer: the target: an optimizer of tf_keras, legacy or new, or of Keras 3, bare or wrapped.
        variables: the variables that the target trains, in the order in which it is to be built with them; by default
            those that it is built with. They are matched with those of the source by name; where the names differ, by
            order if the source has an order, or by shape if no two shapes are equal. A dict gives the pairs itself:
            `{key or name in the source: variable}`; the slots of variables that are not in it stay as they are.
        source_variables: the variables of a live source, in the order of `variables`. By default `variables`, if the
            source has slots for all of them, or else all that the source has.
        key: the key of the optimizer in a file that holds several.
        hyperparameters: whether to set learning rate, betas and so on from the source, where the target has them.
            Traced functions keep those that are not variables.

    Returns:
        A report of the state that was set, what was left out, and which settings differ; `print` shows it.

    Raises:
        ValueError: the source is broken, of another algorithm, or lacks slots; variables cannot be matched; shapes or
            dtypes do not fit; the target refuses one of the `hyperparameters`; it is not built, and no variables are
            given; or it is called in `strategy.run`.
        TypeError: `source` or `optimizer` is not an optimizer of these families.
        RuntimeError: it is called in a graph.

    Reproduces:
        Nothing: TensorFlow and Keras load state only into the family that saved it.

    Example:
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
        return load_record(record, optimizer, variables, hyperparameters=hyperparameters, subject=subject)
    if key is not None:
        advice = "Call convert_state(source, optimizer, variables)"
        constraint = "be left out where the source is an optimizer"
        raise ArgumentValueError(error_text("convert_state: key", constraint, key, advice, ANCHOR))
    host = host_of(source, "convert_state: source", takes_v1=True)
    given, keys = given_variables(variables)
    if source_variables is None and given is not None and keys is None and _has_trained(host, given):
        source_variables = given
    record = export(source, source_variables, str(host))
    return load_record(
        record,
        optimizer,
        variables,
        hyperparameters=hyperparameters,
        subject=record.key,
        goes_by_order=source_variables is not None,
    )


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
            f"convert_state(path, optimizer, variables, key=...). {SEE_MIGRATION}"
        )
    return found[key], f"{path}: {key}"
