"""Which slots of a source go where, their values fitted to the variables, and what becomes of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from mpls.errors import SavedStateError
from mpls.formats import algorithms
from mpls.formats.algorithms import ACCUMULATOR, AVERAGE
from mpls.formats.record import OptimizerRecord, VariableRecord
from mpls.saved.arrays import StoredArray
from mpls.transfer.hosts import Described
from mpls.transfer.matching import is_ordered, match, match_keys


@dataclass
class Plan:
    """What will be assigned, and what the report will say.

    Attributes:
        slots: the values of each target variable's slots, by the names of `algorithms`.
        averaged: whether averages start from the variables.
        left_out: what the target does not have.
        lost: those of them that have an effect on training.
        started: what the source does not have.
        changed: what is not as it was in the source.
        differences: settings that differ, or are set.
    """

    slots: list[dict[str, Any]] = field(default_factory=list)
    averaged: bool = False
    left_out: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    started: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)

    def leave_out(self, what: str, *, has_effect: bool = True) -> None:
        """Note what does not go along."""
        self.left_out.append(what)
        if has_effect:
            self.lost.append(what)


@dataclass(frozen=True)
class Transfer:
    """What slots are carried between.

    Attributes:
        record: the source.
        targets: the variables of the target.
        state: the algorithm, in `algorithms.SLOTS`, or None.
        target: the target in words.
        config: its settings, as they will be.
        keys: the source's key of each target variable, where the user has given them.
        goes_by_order: whether the user has put both in the same order.
        subject: where the source is from, for errors.
        momentum_factor: what momentum is multiplied by.
        keeps_accumulators: whether accumulated gradients fit.
    """

    record: OptimizerRecord
    targets: Sequence[Described]
    state: str | None
    target: str
    config: Mapping[str, Any]
    keys: Sequence[str] | None
    goes_by_order: bool
    subject: str
    momentum_factor: float = 1.0
    keeps_accumulators: bool = True


def plan_slots(transfer: Transfer, plan: Plan) -> None:
    """Fill in the slots of a plan.

    Raises:
        SavedStateError: variables, slots, shapes or dtypes do not fit.
    """
    sources = [_called(transfer, each) for each in transfer.record.variables]
    wanted = {name for target in transfer.targets for name in target.slots}
    there = {name for source in sources for name in source}
    if not transfer.keeps_accumulators:
        there.discard(ACCUMULATOR)
    _require_slots(transfer, wanted - there, plan)
    _note_left_out(transfer, sources, there - wanted, plan)
    carried = wanted & there
    plan.slots += [{} for _ in transfer.targets]
    if ACCUMULATOR in wanted - there:
        for target, slots in zip(transfer.targets, plan.slots, strict=True):
            shape, dtype = target.slots[ACCUMULATOR]
            slots[ACCUMULATOR] = np.zeros(shape, dtype.as_numpy_dtype)
    if not carried:
        return
    rounded = False
    for index, target, slots in zip(_matched(transfer, plan), transfer.targets, plan.slots, strict=True):
        for name in sorted(carried & set(target.slots)):
            value = _value(transfer, sources[index], index, name)
            slots[name] = fitted(value, *target.slots[name], _subject(transfer, index, name))
            rounded |= is_rounded(value, slots[name])
    if rounded:
        plan.changed.append("slots: rounded to the dtype of the target's")


def _called(transfer: Transfer, source: VariableRecord) -> dict[str, Any]:
    family = transfer.record.family
    return {algorithms.slot_called(transfer.state, family, name): value for name, value in source.slots.items()}


def _value(transfer: Transfer, source: Mapping[str, Any], index: int, name: str) -> Any:
    if name not in source:
        raise SavedStateError(
            f"{_subject(transfer, index, name)} must be there, as for other variables; the source has "
            f"{sorted(source) or 'no slots'}. Pass the variables that have it, as a dict: "
            "variables={key of the source: variable}. See MIGRATION.md#my-checkpoints"
        )
    value = source[name]
    if name == "momentum" and transfer.momentum_factor != 1.0:
        array = np.asarray(value)
        return (array * transfer.momentum_factor).astype(array.dtype)
    return value


def _subject(transfer: Transfer, index: int, name: str) -> str:
    source = transfer.record.variables[index]
    return f"{transfer.subject}: slot {name!r} of {source.key or source.name or f'variable {index}'}"


def _require_slots(transfer: Transfer, missing: set[str], plan: Plan) -> None:
    missing = missing - algorithms.unused_slots(transfer.state, transfer.config)
    if AVERAGE in missing:
        plan.averaged = True
        plan.started.append("averages of the variables: from the variables as they are")
    if ACCUMULATOR in missing:
        plan.started.append("accumulated gradients: from zero")
    needed = missing - {AVERAGE, ACCUMULATOR}
    if needed:
        raise SavedStateError(
            f"{transfer.subject}: the source must have the slots {sorted(needed)}, which {transfer.target} needs with "
            "its settings; got none. Give the target the settings of the source, or start it anew. "
            "See MIGRATION.md#my-checkpoints"
        )


def _note_left_out(transfer: Transfer, sources: Sequence[Mapping[str, Any]], extra: set[str], plan: Plan) -> None:
    settings = transfer.record.hyperparameters
    unused = algorithms.unused_slots(transfer.state, settings)
    if "momentum" not in settings:
        # Optimizers of v1, and the new SGD, have the slot even where they do not use it.
        unused = unused | {"momentum"}
    for name in sorted(extra):
        plan.leave_out(f"slot {name!r}: {transfer.target} has none with its settings", has_effect=name not in unused)
    is_accumulating = any(np.any(source[ACCUMULATOR]) for source in sources if ACCUMULATOR in source)
    if not transfer.keeps_accumulators and is_accumulating:
        plan.leave_out("accumulated gradients of steps that have not been applied yet")


def _matched(transfer: Transfer, plan: Plan) -> list[int]:
    sources, names = transfer.record.variables, [each.name for each in transfer.targets]
    if transfer.keys is not None:
        found = match_keys(sources, names, transfer.keys, transfer.subject)
        for index in sorted(set(range(len(sources))) - set(found)):
            plan.leave_out(f"slots of {sources[index].key or sources[index].name}: not among the variables given")
        return found
    return match(
        sources,
        names,
        [{shape for shape, _ in each.slots.values()} for each in transfer.targets],
        is_ordered=is_ordered(transfer.record.family, sources),
        goes_by_order=transfer.goes_by_order,
        subject=transfer.subject,
    )


_ANCHOR = "See MIGRATION.md#my-checkpoints"


def fitted(value: Any, shape: tuple[int, ...], dtype: Any, subject: str) -> Any:
    """Return a value as an array that can be assigned to a variable.

    Floats may become floats of another precision, as long as none becomes infinite.

    Args:
        value: an array, also one in a file, which is not read where it fits as it is; or a number.
        shape: the variable's shape.
        dtype: its dtype, one of TensorFlow.
        subject: what the value is, for the error.

    Raises:
        SavedStateError: shape or dtype do not fit.
    """
    array = _unread(value)
    if tuple(array.shape) != tuple(shape):
        raise SavedStateError(
            f"{subject} must have the shape {list(shape)}; got {list(array.shape)}. Match the variables by a dict: "
            f"variables={{key of the source: variable}}. {_ANCHOR}"
        )
    target = dtype.as_numpy_dtype
    if array.dtype == target:
        return array
    if not _is_same_kind(array.dtype, dtype):
        raise SavedStateError(
            f"{subject} must be {dtype.name}; got {array.dtype}. Is it of another variable, or another file? {_ANCHOR}"
        )
    array = np.asarray(array)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        converted = array.astype(target)
    is_lost = np.isfinite(array) & ~np.isfinite(converted) if dtype.is_floating else converted != array
    if np.any(is_lost):
        raise SavedStateError(
            f"{subject} must fit into {dtype.name}; got {np.max(np.abs(array))}. Use variables of "
            f"{array.dtype}. {_ANCHOR}"
        )
    return converted


def _unread(value: Any) -> Any:
    """Return a value as what has a shape and a dtype."""
    return value if isinstance(value, StoredArray) else np.asarray(value)


def _is_same_kind(dtype: Any, target: Any) -> bool:
    try:
        own = tf.as_dtype(dtype)
    except TypeError:
        return False
    return bool((own.is_floating and target.is_floating) or (own.is_integer and target.is_integer))


def is_rounded(value: Any, converted: Any) -> bool:
    """Return whether a conversion has made floats less precise."""
    array = _unread(value)
    return bool(array.dtype.itemsize > converted.dtype.itemsize)
