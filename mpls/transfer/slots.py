"""The slots of a transfer: which are set, left out or started, and their values in the target's dtypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from mpls.errors import SavedStateError
from mpls.formats import algorithms
from mpls.formats.algorithms import ACCUMULATOR, AVERAGE
from mpls.formats.record import OptimizerRecord, VariableRecord
from mpls.formats.validity import SEE_MIGRATION
from mpls.saved.containers import StoredArray
from mpls.transfer.hosts import Described
from mpls.transfer.matching import is_ordered, match, match_keys
from mpls.transfer.transfer_report import Plan


@dataclass(frozen=True)
class Transfer:
    """Source and target of a transfer of slots.

    Attributes:
        record: the source.
        targets: the variables of the target.
        state: the algorithm, in `algorithms.SLOTS`, or None.
        target: the target in words.
        config: the target's settings after the transfer.
        keys: the key of each target variable's source, if the user has given them; or None.
        goes_by_order: whether the variables of source and target are in the same order.
        subject: the origin of the source, for errors.
        momentum_factor: the factor from the source's momentum to the target's.
        keeps_accumulators: whether both accumulate gradients over the same number of steps.
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
    """Add the slots that will be set to a plan, and lines for the report.

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
    plan.sources = _matched(transfer, plan)
    for index, target, slots in zip(plan.sources, transfer.targets, plan.slots, strict=True):
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
            f"variables={{key of the source: variable}}. {SEE_MIGRATION}"
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
            f"{SEE_MIGRATION}"
        )


def _note_left_out(transfer: Transfer, sources: Sequence[Mapping[str, Any]], extra: set[str], plan: Plan) -> None:
    settings = transfer.record.hyperparameters
    unused = algorithms.unused_slots(transfer.state, settings)
    if "momentum" not in settings:
        # The source does not say its momentum: v1 optimizers and a new SGD have the slot even if it is 0.
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


def fitted(value: Any, shape: tuple[int, ...], dtype: Any, subject: str) -> Any:
    """Return a value as an array of a variable's shape and dtype.

    Floats may be rounded to another precision, but not become infinite; integers keep their values.

    Args:
        value: an array or a number. A `StoredArray` that fits as it is stays one, and is not read.
        shape: the variable's shape.
        dtype: the variable's dtype, a `tf.DType`.
        subject: the value in words, for the error.

    Raises:
        SavedStateError: the shape differs, or the numbers do not fit the dtype.
    """
    array = _unread(value)
    if tuple(array.shape) != tuple(shape):
        raise SavedStateError(
            f"{subject} must have the shape {list(shape)}; got {list(array.shape)}. Match the variables by a dict: "
            f"variables={{key of the source: variable}}. {SEE_MIGRATION}"
        )
    target = dtype.as_numpy_dtype
    if array.dtype == target:
        return array
    if not _is_same_kind(array.dtype, dtype):
        raise SavedStateError(
            f"{subject} must be {dtype.name}; got {array.dtype}. Is it of another variable, or another file? "
            f"{SEE_MIGRATION}"
        )
    array = np.asarray(array)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        converted = array.astype(target)
    is_lost = np.isfinite(array) & ~np.isfinite(converted) if dtype.is_floating else converted != array
    if np.any(is_lost):
        raise SavedStateError(
            f"{subject} must fit into {dtype.name}; got {np.max(np.abs(array))}. Use variables of "
            f"{array.dtype}. {SEE_MIGRATION}"
        )
    return converted


def _unread(value: Any) -> Any:
    """Return a value as an array, without reading a `StoredArray`."""
    return value if isinstance(value, StoredArray) else np.asarray(value)


def _is_same_kind(dtype: Any, target: Any) -> bool:
    try:
        own = tf.as_dtype(dtype)
    except TypeError:
        return False
    return bool((own.is_floating and target.is_floating) or (own.is_integer and target.is_integer))


def is_rounded(value: Any, converted: Any) -> bool:
    """Return whether a conversion was to a smaller dtype."""
    array = _unread(value)
    return bool(array.dtype.itemsize > converted.dtype.itemsize)
