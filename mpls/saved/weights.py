"""Weights of optimizers that files hold by number, as `.keras` and `.weights.h5` files do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mpls.formats.algorithms import algorithm_named, layout
from mpls.formats.record import LossScaleRecord, OptimizerRecord, VariableRecord
from mpls.saved.errors import broken
from mpls.saved.validity import count_of_variable, good_steps_of_variable, scale_of_variable

if TYPE_CHECKING:
    from mpls.saved.hdf5 import Content


def with_weights(path: str, content: Content, optimizer: OptimizerRecord) -> OptimizerRecord:
    """Return an optimizer with the weights that a file holds by number.

    Raises:
        SavedStateError: they are none that it can have.
    """
    outer, inner = _numbered(content, "optimizer/vars"), _numbered(content, "optimizer/inner_optimizer/vars")
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
        hyperparameters["learning_rate"] = float(content.array(rest[0]))
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
    """Return the optimizer in a `.weights.h5` file, which tells neither its settings nor which slots it has.

    Raises:
        SavedStateError: as `with_weights`.
    """
    names = _numbered(content, "optimizer/vars")
    if not names:
        return None
    is_wrapper = content.has_group("optimizer/inner_optimizer/vars")
    called = content.name_of("optimizer/inner_optimizer/vars" if is_wrapper else "optimizer/vars")
    # Only Keras 3 names optimizers there, and has the learning rate among their variables.
    is_keras_3 = called is not None or (len(names) > 1 and content.shape(names[1]) == ())
    record = with_weights(path, content, OptimizerRecord("optimizer", "keras3" if is_keras_3 else "new"))
    return replace(record, algorithm=algorithm_named(called))


def _numbered(content: Content, group: str) -> list[str]:
    """Return the names of the datasets `0`, `1`, ... of a group."""
    count = sum(name.rpartition("/")[0] == group for name in content.datasets)
    return [f"{group}/{number}" for number in range(count)]


def _loss_scale(path: str, content: Content, names: list[str], settings: LossScaleRecord) -> LossScaleRecord:
    # The iterations and the learning rate of the wrapper come first, and mean nothing.
    if len(names) < 4:
        raise broken(path, "optimizer/vars", "hold the state of the loss scale", f"{len(names)} variables")
    good_steps, scale = names[2], names[3]
    return replace(
        settings,
        scale=scale_of_variable(path, scale, content.array(scale)),
        good_steps=good_steps_of_variable(path, good_steps, content.array(good_steps), settings.growth_steps),
    )


def slots_by_order(
    optimizer: OptimizerRecord, arrays: Mapping[str, Any]
) -> tuple[list[VariableRecord], dict[str, Any]]:
    """Return the slots, as the algorithm creates them one after the other, and what is left over.

    Nothing is taken for a slot where the number of arrays, or their shapes, are not those of the algorithm.
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
    if optimizer.algorithm == "Nadam" and len(others) == 1:
        others = {"_u_product": others.popitem()[1]}
    elif others or any(len({value.shape for value in values.values()}) > 1 for values in slots):
        return [], dict(arrays)
    return [VariableRecord(None, None, values) for values in slots], others
