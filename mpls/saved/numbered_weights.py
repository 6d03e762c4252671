"""The numbered variables of the optimizer in `.keras` files and in the weight files of Keras."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mpls.formats.algorithm_names import algorithm_named
from mpls.formats.algorithms import MOMENTUM_PRODUCTS, has_momentum_product, layout
from mpls.formats.file_kinds import OPTIMIZER_VARS, WRAPPED_VARS
from mpls.formats.record import LossScaleRecord, OptimizerRecord, VariableRecord
from mpls.saved.errors import broken
from mpls.saved.h5_content import Content
from mpls.saved.plain_numbers import count_of_variable, good_steps_of_variable, number_of_variable, scale_of_variable

__all__ = ["read_weights_only", "slots_by_order", "with_weights"]


def with_weights(path: str, content: Content, optimizer: OptimizerRecord) -> OptimizerRecord:
    """Return an optimizer with its numbered weights in a `.keras` or `.weights.h5` file.

    Args:
        path: the path, for errors.
        content: the H5 file.
        optimizer: the optimizer, as the file's config describes it.

    Raises:
        SavedStateError: the number of steps or the loss scale in them is not valid.
    """
    outer, inner = _numbered(content, OPTIMIZER_VARS), _numbered(content, WRAPPED_VARS)
    loss_scale = optimizer.loss_scale
    if optimizer.family == "keras3" and inner:
        if loss_scale is None or loss_scale.dynamic:
            loss_scale = _loss_scale(path, content, outer, loss_scale or LossScaleRecord(dynamic=True))
        weights = inner
    else:
        weights = outer or inner
    if not weights:
        return replace(optimizer, loss_scale=loss_scale)
    hyperparameters = dict(optimizer.hyperparameters)
    iterations = count_of_variable(path, weights[0], content.array(weights[0]))
    rest = weights[1:]
    has_rate = optimizer.family == "keras3" and not isinstance(hyperparameters.get("learning_rate"), dict)
    if has_rate and rest and content.shape(rest[0]) == ():
        hyperparameters["learning_rate"] = number_of_variable(path, rest[0], content.array(rest[0]))
        rest = rest[1:]
    variables, others = slots_by_order(optimizer, {name: content.array(name) for name in rest})
    return replace(
        optimizer,
        iterations=iterations,
        hyperparameters=hyperparameters,
        variables=variables,
        others=others,
        loss_scale=loss_scale,
    )


def read_weights_only(path: str, content: Content) -> OptimizerRecord | None:
    """Return the optimizer in a `.weights.h5` file, which says neither its settings nor its slots; None if it has none.

    Raises:
        SavedStateError: as with `with_weights`.
    """
    names = _numbered(content, OPTIMIZER_VARS)
    if not names:
        return None
    called = content.name_of(WRAPPED_VARS if content.has_group(WRAPPED_VARS) else OPTIMIZER_VARS)
    # Keras 3, unlike tf_keras, writes the optimizer's name, and its learning rate as a variable.
    is_keras_3 = called is not None or (len(names) > 1 and content.shape(names[1]) == ())
    record = with_weights(path, content, OptimizerRecord("optimizer", "keras3" if is_keras_3 else "new"))
    return replace(record, algorithm=algorithm_named(called))


def _numbered(content: Content, group: str) -> list[str]:
    """Return the names of the datasets `0`, `1` and so on of a group, as many as the group has datasets."""
    count = sum(name.rpartition("/")[0] == group for name in content.datasets)
    return [f"{group}/{number}" for number in range(count)]


def _loss_scale(path: str, content: Content, names: list[str], settings: LossScaleRecord) -> LossScaleRecord:
    # The first two variables are the iterations and the learning rate of the wrapper, which have no meaning.
    if len(names) < 4:
        raise broken(path, OPTIMIZER_VARS, "hold the state of the loss scale", f"{len(names)} variables")
    good_steps, scale = names[2], names[3]
    return replace(
        settings,
        scale=scale_of_variable(path, scale, content.array(scale)),
        good_steps=good_steps_of_variable(path, good_steps, content.array(good_steps), settings.growth_steps),
    )


def slots_by_order(
    optimizer: OptimizerRecord, arrays: Mapping[str, Any]
) -> tuple[list[VariableRecord], dict[str, Any]]:
    """Return the slots in a list of arrays, by the order in which the algorithm creates them, and the other arrays.

    If the number of arrays or their shapes do not fit the algorithm, there are no slots, and all arrays are others.

    Args:
        optimizer: the optimizer, with its settings.
        arrays: its variables by name, in the order of their creation, without iterations and learning rate.

    Returns:
        `(slots, others)`: a record for each variable, without its key and name; and the other arrays by name.
    """
    groups = layout(optimizer.family, optimizer.algorithm, optimizer.hyperparameters)
    kinds = sum(len(group) for group in groups or ())
    if groups is None or kinds == 0:
        return [], dict(arrays)
    slots: list[dict[str, Any]] = [{} for _ in range(len(arrays) // kinds)]
    remaining = iter(arrays.items())
    for group in groups:
        for values in slots:
            for slot in group:
                values[slot] = next(remaining)[1]
    others = dict(remaining)
    if has_momentum_product(optimizer.algorithm) and len(others) == 1:
        others = {MOMENTUM_PRODUCTS["keras3"]: others.popitem()[1]}
    elif others or any(len({value.shape for value in values.values()}) > 1 for values in slots):
        return [], dict(arrays)
    return [VariableRecord(None, None, values) for values in slots], others
