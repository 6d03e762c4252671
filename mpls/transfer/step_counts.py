"""Transfer of mpls' own counters, those of steps and of overflows, which a wrapper keeps with certain options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mpls.core.wrapper_members import record_of
from mpls.formats.record import OptimizerRecord, OverflowRecord
from mpls.transfer.transfer_report import Plan

__all__ = ["CountsPlan", "counts_of", "plan_counts", "set_counts"]


def counts_of(wrapper: Any) -> tuple[dict[str, int], list[OverflowRecord]]:
    """Return the counters and the overflows of a wrapper, both empty if it has none; in eager mode."""
    record = record_of(wrapper)
    if record is None:
        return {}, []
    report = () if record.overflows is None else record.overflows.report(None)
    return record.read(None), [OverflowRecord(each.variable, each.count, each.last_step) for each in report]


@dataclass(frozen=True)
class CountsPlan:
    """The counts that a wrapper will get.

    Attributes:
        counts: the counters by name; empty if it keeps none.
        overflows: counts and last steps, by the names of the target's variables.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    overflows: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def plan_counts(
    record: OptimizerRecord, wrapper: Any, names: Sequence[str | None], sources: Sequence[int | None], plan: Plan
) -> CountsPlan:
    """Return the counters of the source that the target will get: only those that the target's options keep.

    Args:
        record: the source.
        wrapper: the wrapper of the target; None if it is not wrapped.
        names: the names of the target's variables.
        sources: for each of them the index of its source, or None.
        plan: the plan of the transfer, which gets lines for the report.
    """
    kept = record_of(wrapper)
    if kept is None:
        if record.counts:
            plan.leave_out("counts of steps: the target counts none", has_effect=False)
        if record.overflows:
            plan.leave_out("overflows of variables: the target counts none", has_effect=False)
        return CountsPlan()
    if kept.overflows is None:
        if record.overflows:
            plan.leave_out("overflows of variables: the target counts none", has_effect=False)
        return CountsPlan(record.counts)
    pairs = {
        each: name
        for name, source in zip(names, sources, strict=True)
        for each in ([name] if source is None else [record.variables[source].name, name])
        if each and name
    }
    tidy = {each.partition(":")[0]: name.partition(":")[0] for each, name in pairs.items()}
    found = {}
    for overflow in record.overflows:
        if overflow.variable in tidy:
            found[tidy[overflow.variable]] = overflow.count, overflow.last_step
        else:
            called = overflow.variable or "a variable whose name the source does not say"
            plan.leave_out(f"overflows of {called}: the target has no such variable", has_effect=False)
    return CountsPlan(record.counts, found)


def set_counts(wrapper: Any, plan: CountsPlan) -> None:
    """Set the counts of a wrapper, which has been built; in eager mode."""
    record = record_of(wrapper)
    if record is None:
        return
    record.write(dict(plan.counts), None)
    if record.overflows is not None and plan.overflows:
        record.overflows.load(plan.overflows)
