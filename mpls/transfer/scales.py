"""The state of wrappers, of mpls and of the frameworks, and its transfer: loss scales, and the counters of mpls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mpls.core.dynamic import DEFAULTS, DynamicLossScale, current_settings
from mpls.core.loss_scale import is_dynamic, is_fixed
from mpls.core.wrapper_members import record_of
from mpls.formats.record import LossScaleRecord, OptimizerRecord
from mpls.formats.state_dicts import dynamic_state
from mpls.formats.validity import check_good_steps, check_scale, usable_growth_steps
from mpls.formats.wrapper_state import (
    ADJUSTABLE,
    BAD_STEPS,
    DEFAULT_MULTIPLIER,
    SEARCH_STEPS,
    STATE,
    STATE_OF_KERAS_3,
)
from mpls.transfer.hosts import as_numpy
from mpls.transfer.transfer_report import Plan
from mpls.upstream import table
from mpls.upstream.optimizers import kept_loss_scale
from mpls.upstream.tensorflow import fixed_value_of

# Counts beside the scale, which settings of mpls need.
_CARRIED = (BAD_STEPS, SEARCH_STEPS)


@dataclass(frozen=True)
class Scale:
    """A wrapper's loss scale.

    Attributes:
        record: its kind, settings and current state.
        scale: the variable that holds the current scale; None for a fixed scale, and if it is not created yet.
        good_steps: the variable that counts finite steps; None as for `scale`.
    """

    record: LossScaleRecord
    scale: Any = None
    good_steps: Any = None


def scale_of(wrapper: Any) -> Scale | None:
    """Return the loss scale of a wrapper; None if it is of a user's own class.

    Args:
        wrapper: a wrapper of mpls, of tf_keras or of Keras 3.
    """
    held = kept_loss_scale(wrapper)
    if held is None:
        return _native_of_keras_3(wrapper)
    if isinstance(held, int | float):
        return Scale(LossScaleRecord(dynamic=False, scale=float(held), initial_scale=float(held)))
    if is_fixed(held):
        fixed = fixed_value_of(held)
        return Scale(LossScaleRecord(dynamic=False, scale=float(fixed), initial_scale=float(fixed)))
    # The attributes of the loss scale of mpls over Keras 3, and of that in tf_keras' own wrapper.
    for names in (("scale", "counter"), (STATE[0], "counter")):
        if all(hasattr(held, name) for name in names):
            scale, good_steps = (getattr(held, name) for name in names)
            break
    else:
        if not is_dynamic(held):
            return None
        scale, good_steps = table.SCALE.of(held), table.GOOD_STEPS.of(held)
    found = _dynamic(scale, good_steps, held.initial_loss_scale, _growth_steps_of(held), held.multiplier)
    return replace(found, record=replace(found.record, options=_options_of(held)))


def _options_of(held: Any) -> dict[str, Any]:
    """Return the settings and the variables of a loss scale that only mpls has."""
    if not isinstance(held, DynamicLossScale):
        return {}
    return {**current_settings(held).settings.changed(), **held._read_values(held._initial_extras(), None)}


def _growth_steps_of(held: Any) -> int:
    if isinstance(held, DynamicLossScale):
        # Those of the next step, also after a restored checkpoint.
        return int(held._read_numbers(None, "convert_state")["growth_steps"])
    return int(held.growth_steps if hasattr(held, "growth_steps") else held.increment_period)


def _native_of_keras_3(wrapper: Any) -> Scale | None:
    if not hasattr(wrapper, "dynamic_growth_steps"):
        return None
    scale, good_steps = (getattr(wrapper, name, None) for name in STATE_OF_KERAS_3)
    return _dynamic(scale, good_steps, wrapper.initial_scale, wrapper.dynamic_growth_steps, DEFAULT_MULTIPLIER)


def _dynamic(scale: Any, good_steps: Any, initial_scale: float, growth_steps: int, multiplier: float) -> Scale:
    record = LossScaleRecord(
        dynamic=True,
        scale=float(initial_scale) if scale is None else float(as_numpy(scale)),
        good_steps=0 if good_steps is None else int(as_numpy(good_steps)),
        initial_scale=float(initial_scale),
        growth_steps=int(growth_steps),
        multiplier=float(multiplier),
    )
    return Scale(record, scale, good_steps)


def state_for_target(record: LossScaleRecord, target: LossScaleRecord, subject: str) -> tuple[float, int]:
    """Return the scale and the counter for a dynamic loss scale that gets the state of another.

    Args:
        record: the source.
        target: the target.
        subject: the origin of the source, for the error.

    Raises:
        SavedStateError: the source's scale or counter is not valid.
    """
    scale = target.scale if record.scale is None else check_scale(record.scale, f"{subject}: the loss scale")
    good_steps = check_good_steps(record.good_steps or 0, f"{subject}: the count of good steps", record.growth_steps)
    # If the source has counted as many steps as the target's growth steps or more, the target grows at its next finite
    # step.
    period = usable_growth_steps(target.growth_steps or 1)
    return float(scale or 1.0), min(good_steps, period - 1)


@dataclass(frozen=True)
class ScalePlan:
    """The loss scale that a wrapper will get.

    Attributes:
        is_set: whether it is set; otherwise the wrapper's stays as it is.
        scale: the scale.
        good_steps: finite steps since it last changed.
        extras: other variables of it that both have, by name.
        warning: the text of a warning for the user, or None.
    """

    is_set: bool = False
    scale: float = 1.0
    good_steps: int = 0
    extras: Mapping[str, int] = field(default_factory=dict)
    warning: str | None = None


def plan_scale(source: OptimizerRecord, wrapper: Any, plan: Plan, subject: str) -> ScalePlan:
    """Return the loss scale that the target will get: it is set if source and target have dynamic ones.

    Args:
        source: the source.
        wrapper: the wrapper of the target; None if it is not wrapped.
        plan: the plan of the transfer, which gets lines for the report.
        subject: the origin of the source, for errors.

    Raises:
        SavedStateError: the source's scale or counter is not valid.
    """
    target = None if wrapper is None else scale_of(wrapper)
    record = source.loss_scale
    if source.possible_scales:
        scales = source.possible_scales.items()
        found = ", ".join(f"{name}: {each.scale:g} with {each.good_steps} good steps" for name, each in scales)
        left_out = f"{found}: the file does not say to which optimizer they belong"
        plan.leave_out(left_out, has_effect=False)
        if target is None or not target.record.dynamic:
            return ScalePlan()
        starts = f"The target's loss scale stays at {target.record.scale:g}. To change it, call optimizer."
        call = 'load_state_dict({**optimizer.state_dict(), "scale": SCALE, "good_steps": GOOD_STEPS})'
        return ScalePlan(warning=f"convert_state: {left_out}. {starts}{call}.")
    if target is None:
        if record is not None:
            reason = "is not wrapped" if wrapper is None else "has a loss scale of its own class"
            plan.leave_out(f"{_kind_of(record)}: the target {reason}", has_effect=False)
        return ScalePlan()
    if record is not None and record.dynamic and target.record.dynamic and record.scale is not None:
        scale, good_steps = state_for_target(record, target.record, subject)
        plan.differences += _differences_of(record, target.record)
        return ScalePlan(True, scale, good_steps, _extras(record, target.record, plan))
    if target.record.dynamic:
        found = "no loss scale" if record is None else _kind_of(record)
        starts = f"the target's dynamic loss scale stays at {target.record.scale:g}"
        plan.started.append(f"loss scale: the source has {found}")
        return ScalePlan(warning=f"convert_state: the source has {found}; {starts}.")
    if record is not None and record.dynamic:
        plan.leave_out(f"{_kind_of(record)}: the target's is fixed")
    elif record is not None and record.scale not in (None, target.record.scale):
        plan.differences.append(f"fixed loss scale: {record.scale:g}, {target.record.scale:g}")
    return ScalePlan()


def _extras(source: LossScaleRecord, target: LossScaleRecord, plan: Plan) -> dict[str, int]:
    """Return the counts beside the scale that the target gets, and note those that it has no use for."""
    there = {name: source.options[name] for name in _CARRIED if name in source.options}
    for name in there:
        if name not in target.options:
            plan.leave_out(f"{name.replace('_', ' ')} of the loss scale: the target's has none", has_effect=False)
    return {name: value for name, value in there.items() if name in target.options}


def _kind_of(record: LossScaleRecord) -> str:
    kind = "a dynamic loss scale" if record.dynamic else "a fixed loss scale"
    return kind if record.scale is None else f"{kind} of {record.scale:g}"


def _differences_of(source: LossScaleRecord, target: LossScaleRecord) -> list[str]:
    lines = [
        f"loss scale, {name.replace('_', ' ')}: {ours:g}, {theirs:g}"
        for name in ("initial_scale", "growth_steps", "multiplier")
        if (ours := getattr(source, name)) is not None and ours != (theirs := getattr(target, name))
    ]
    for name in (*ADJUSTABLE[1:], "consecutive_hysteresis"):
        # Checkpoints hold no constants, configs leave out defaults.
        is_known = name in source.options or (source.growth_steps is not None and name in target.options)
        ours, theirs = (_setting(each, name) for each in (source, target))
        if is_known and ours != theirs:
            lines.append(f"loss scale, {name.replace('_', ' ')}: {ours:g}, {theirs:g}")
    return lines


def _setting(record: LossScaleRecord, name: str) -> Any:
    multiplier = record.multiplier or DEFAULT_MULTIPLIER
    by_default = {**vars(DEFAULTS), "growth_factor": multiplier, "backoff_factor": 1 / multiplier}
    return record.options.get(name, by_default[name])


def set_scale(wrapper: Any, plan: ScalePlan) -> None:
    """Set the loss scale of a wrapper; a native wrapper of Keras 3 must be built."""
    if hasattr(wrapper, "load_state_dict"):
        wrapper.load_state_dict({**dynamic_state(plan.scale, plan.good_steps), **plan.extras})
        return
    target = scale_of(wrapper)
    if target is not None:
        target.scale.assign(plan.scale)
        target.good_steps.assign(plan.good_steps)


def counts_of(wrapper: Any) -> dict[str, int]:
    """Return the counters of a wrapper's steps, empty if it has none; in eager mode."""
    record = record_of(wrapper)
    return {} if record is None else record.read(None)


def tracks_overflows(wrapper: Any) -> bool:
    """Return whether a wrapper counts overflows for each variable; False for None, and for wrappers of others."""
    return bool(getattr(wrapper, "track_overflows", False))


def plan_counts(source: OptimizerRecord, wrapper: Any, plan: Plan) -> Mapping[str, int]:
    """Return the counters of a source that the target will get: none if it counts no steps.

    Args:
        source: the source.
        wrapper: the wrapper of the target; None if it is not wrapped.
        plan: the plan of the transfer, which gets lines for the report.
    """
    if source.options.get("track_overflows"):
        plan.leave_out("overflow counts: they stay with the source", has_effect=False)
    if tracks_overflows(wrapper):
        plan.started.append("overflow counts: the target's stay as they are")
    if source.counts and record_of(wrapper) is None:
        plan.leave_out("counts of steps: the target counts none", has_effect=False)
        return {}
    return source.counts


def set_counts(wrapper: Any, counts: Mapping[str, int]) -> None:
    """Set the counters of a wrapper, which has been built; in eager mode."""
    record = record_of(wrapper)
    if record is not None:
        record.write(dict(counts), None)
