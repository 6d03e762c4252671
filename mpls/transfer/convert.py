"""The public call."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from mpls.errors import ArgumentValueError, SavedStateError, error_text
from mpls.formats.record import OptimizerRecord
from mpls.transfer.export import export
from mpls.transfer.hosts import ANCHOR, host_of
from mpls.transfer.load import TransferReport, load_record, require_eager
from mpls.transfer.matching import given_variables


def convert_state(
    source: Any,
    optimizer: Any,
    variables: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    source_variables: Sequence[Any] | None = None,
    key: str | None = None,
    hyperparameters: bool = False,
) -> TransferReport:
    """Carry the state of an optimizer into one of another Keras, so that training goes on without losing momentum.

    The number of steps, the slots of every variable, what else the algorithm keeps, and the loss scale with its counter
    go into the target; the source stays as it is. Between wrapped and bare optimizers the loss scale is dropped, or
    stays as the target has it, with a warning. The target's hyperparameters stay as they are, unless
    `hyperparameters=True`; the report says which differ.

    Everything is checked first: an error leaves the target as it was. A target that is not built yet is built with
    `variables`. Works in eager mode; functions that use the target may have been traced before.

    SGD, Adam, AdamW, RMSprop, Adagrad, Adadelta, Adamax, Nadam, Ftrl and Lion go between all families that have them.
    Other optimizers go between instances of one class.

    Args:
        source: an optimizer of tf_keras, legacy or new, of Keras 3 or of `tf.compat.v1.train`, bare or in a wrapper of
            mpls or of its framework; or the path of a file that holds one.
        optimizer: the target, of tf_keras, legacy or new, or of Keras 3, bare or wrapped.
        variables: the variables that the target trains, in the order in which it is to be built with them; by default
            those that it is built with. They are matched with those of the source by name; where names differ, by order
            if the source has one, or by shape if all differ. A dict says which is which: `{key or name in the source:
            variable}`; variables that are not in it stay as they are.
        source_variables: the variables of a live source, in the order of `variables`; by default those of `variables`
            that it has trained, or all that it has.
        key: which optimizer, in a file of several.
        hyperparameters: whether to set learning rate, betas and so on from the source, where the target has them.
            Traced functions keep those that are no variables.

    Returns:
        What was carried over, what was left out, and which settings differ; `print` shows it.

    Raises:
        ValueError: the source is broken, of another algorithm, or lacks slots; variables cannot be matched; shapes or
            dtypes do not fit; or the target is not built, and there are no variables.
        TypeError: an optimizer is none.
        RuntimeError: it is called in a graph.

    Reproduces:
        Nothing: TensorFlow and Keras load state into the family only that saved it.

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


def _has_trained(host: Any, variables: Sequence[Any]) -> bool:
    """Return whether an optimizer knows all of the variables, as where two share them."""
    try:
        return host.is_built(None) and all(place.slots for place in host.places(variables))
    except (ArgumentValueError, AttributeError):
        # Variables of another Keras have not even the keys that it looks for.
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
            f"convert_state(path, optimizer, variables, key=...). See MIGRATION.md#{ANCHOR}"
        )
    return found[key], f"{path}: {key}"
