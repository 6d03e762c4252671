"""What becomes of the loss scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mpls.formats.record import LossScaleRecord
from mpls.transfer.scales import checked_state, scale_of
from mpls.transfer.slots import Plan


@dataclass(frozen=True)
class ScalePlan:
    """What a wrapper's loss scale will be.

    Attributes:
        is_set: whether it is set; else it stays as it is.
        scale: the scale.
        good_steps: finite steps since it last changed.
        warning: what to warn of.
    """

    is_set: bool = False
    scale: float = 1.0
    good_steps: int = 0
    warning: str | None = None


def plan_scale(record: LossScaleRecord | None, wrapper: Any, plan: Plan, subject: str) -> ScalePlan:
    """Decide what becomes of a target's loss scale.

    Args:
        record: the source's; None without.
        wrapper: the target's wrapper; None without.
        plan: where to note what does not go along.
        subject: where the source is from, for errors.

    Raises:
        SavedStateError: the source's is none that can be.
    """
    target = None if wrapper is None else scale_of(wrapper)
    if target is None:
        if record is not None:
            reason = "is not wrapped" if wrapper is None else "has a loss scale of its own class"
            plan.leave_out(f"{_words(record)}: the target {reason}", has_effect=False)
        return ScalePlan()
    if record is not None and record.dynamic and target.record.dynamic and record.scale is not None:
        scale, good_steps = checked_state(record, target.record, subject)
        plan.differences += _differences(record, target.record)
        return ScalePlan(True, scale, good_steps)
    if target.record.dynamic:
        found = "no loss scale" if record is None else _words(record)
        starts = f"the target's dynamic loss scale stays at {target.record.scale:g}"
        plan.started.append(f"loss scale: the source has {found}")
        return ScalePlan(warning=f"convert_state: the source has {found}; {starts}.")
    if record is not None and record.dynamic:
        plan.leave_out(f"{_words(record)}: the target's is fixed")
    elif record is not None and record.scale not in (None, target.record.scale):
        plan.differences.append(f"fixed loss scale: {record.scale:g}, {target.record.scale:g}")
    return ScalePlan()


def _words(record: LossScaleRecord) -> str:
    kind = "a dynamic loss scale" if record.dynamic else "a fixed loss scale"
    return kind if record.scale is None else f"{kind} of {record.scale:g}"


def _differences(source: LossScaleRecord, target: LossScaleRecord) -> list[str]:
    return [
        f"loss scale, {name.replace('_', ' ')}: {ours:g}, {theirs:g}"
        for name in ("initial_scale", "growth_steps", "multiplier")
        if (ours := getattr(source, name)) is not None and ours != (theirs := getattr(target, name))
    ]


def set_scale(wrapper: Any, plan: ScalePlan) -> None:
    """Set a wrapper's loss scale; the native one of Keras 3 has its variables once it is built."""
    if hasattr(wrapper, "load_state_dict"):
        wrapper.load_state_dict({"dynamic": True, "scale": plan.scale, "good_steps": plan.good_steps})
        return
    target = scale_of(wrapper)
    if target is not None:
        target.scale.assign(plan.scale)
        target.good_steps.assign(plan.good_steps)
