"""What usually explains a difference: those of releases that MIGRATION.md lists, and what programs do not fix."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mpls.comparing.differences import Comparison, Difference
from mpls.formats.scale_range import LARGEST_FIXED_SCALE
from mpls.formats.wrapper_state import WRAPPERS
from mpls.saved.traces import Trace

__all__ = ["KNOWN", "ROUNDING", "KnownDifference", "explanations"]

_SKIPS_COUNT_FROM, _SKIPS_COUNT_TO = (2, 3), (2, 15)
_LARGEST_OF_HALF = 65504.0
_LARGEST_SAFE_OF_HALF = 2.0**24
_OBJECTS_TO = (2, 3)
_DENSE_TO = (2, 14)
_NEW_OPTIMIZERS_FROM = (2, 11)
_ROUNDING = 1e-2
# More explanations would hide the likeliest one.
_MOST = 2


@dataclass(frozen=True)
class KnownDifference:
    """A known reason why two runs differ.

    Attributes:
        anchor: the section of MIGRATION.md about it.
        explains: whether it may be the reason for the first difference.
        text: what is said, with the remedy; `{release}` is that of the old run.
    """

    anchor: str
    explains: Callable[[Comparison, Difference], bool]
    text: str

    def text_for(self, comparison: Comparison) -> str:
        """Return what is said of two traces."""
        return self.text.format(release=".".join(map(str, comparison.old.release)))


def explanations(comparison: Comparison) -> Iterator[KnownDifference]:
    """Yield what may explain the first difference, the likeliest first, and not more than two."""
    first = comparison.first
    if first is None:
        return
    found = [each for each in KNOWN if each.explains(comparison, first)]
    yield from found[:_MOST]
    if not found and _rounds_otherwise(comparison, first):
        yield ROUNDING


def _ended_early(comparison: Comparison, first: Difference) -> bool:
    return first.quantity == "steps" and any(trace.ended_by for trace in (comparison.old, comparison.new))


def _begins_elsewhere(_: Comparison, first: Difference) -> bool:
    step = first.step
    if step is None or first.at > 0:
        return False
    return first.quantity in ("loss", "gradients", "nonfinite", "variables") and _differs_much(first)


def _differs_much(first: Difference) -> bool:
    return first.relative is None or first.relative > _ROUNDING


def _advances_on_skips(trace: Trace) -> bool | None:
    """Return whether a skipped step advanced `iterations`; None where wrappers have no such count."""
    names = {wrapper.class_name for wrapper in trace.wrappers}
    if not names <= set(WRAPPERS):
        return None
    if not trace.is_of_mpls:
        return trace.release >= _SKIPS_COUNT_FROM
    if trace.options.get("as_of"):
        return _SKIPS_COUNT_FROM <= trace.release <= _SKIPS_COUNT_TO
    return any(wrapper.framework != "keras" for wrapper in trace.wrappers)


def _skips_before(comparison: Comparison, first: Difference) -> bool:
    return any(not step.old.applied and not step.new.applied for step in comparison.pairing.steps[: first.at])


def _counts_skips_otherwise(comparison: Comparison, first: Difference) -> bool:
    counts = [_advances_on_skips(trace) for trace in (comparison.old, comparison.new)]
    return (
        first.quantity == "variables"
        and None not in counts
        and counts[0] != counts[1]
        and (_skips_before(comparison, first))
    )


def _repeats_rows(comparison: Comparison, first: Difference) -> bool:
    step = first.step
    if first.quantity != "applied" or step is None or comparison.old.release > _DENSE_TO:
        return False
    return not step.old.applied and step.new.applied and step.old.nonfinite == step.new.nonfinite == 0


def _first_replica_decided(_: Comparison, first: Difference) -> bool:
    step = first.step
    if first.quantity != "applied" or step is None:
        return False
    return step.old.applied and not step.new.applied and step.old.nonfinite > 0


def _reaches_bounds(_: Comparison, first: Difference) -> bool:
    values = [each for each in (first.old, first.new) if isinstance(each, float)]
    is_of_scale = first.quantity in ("scale", "scale_after")
    return is_of_scale and any(value < 1 or not math.isfinite(value) for value in values)


def _underflows(comparison: Comparison, first: Difference) -> bool:
    step = first.step
    if first.quantity != "gradients" or step is None or first.variable is None:
        return False
    half = comparison.old.wrappers[step.wrapper].variables[first.variable].dtype == "float16"
    return first.old == 0.0 and step.old.scale > (_LARGEST_SAFE_OF_HALF if half else LARGEST_FIXED_SCALE)


def _overflows_half_loss(_: Comparison, first: Difference) -> bool:
    step = first.step
    return first.quantity == "nonfinite" and step is not None and step.old.scale > _LARGEST_OF_HALF


def _scales_by_no_power_of_two(_: Comparison, first: Difference) -> bool:
    step = first.step
    is_small = first.quantity == "gradients" and not _differs_much(first)
    return is_small and step is not None and not math.log2(step.old.scale).is_integer()


def _optimizes_otherwise(comparison: Comparison, first: Difference) -> bool:
    step = first.step
    if first.quantity != "variables" or step is None or not step.old.applied:
        return False
    old, new = comparison.old, comparison.new
    is_keras = {wrapper.class_name for wrapper in old.wrappers} <= set(WRAPPERS)
    is_older = not old.is_of_mpls and old.release < _NEW_OPTIMIZERS_FROM
    return is_keras and is_older and new.is_of_mpls and not new.options.get("legacy_optimizers")


def _has_other_settings(_: Comparison, first: Difference) -> bool:
    return first.quantity in ("scale", "counter") and first.at == 0


def _grows_otherwise(comparison: Comparison, first: Difference) -> bool:
    return first.quantity in ("scale_after", "counter_after") and comparison.old.release <= _OBJECTS_TO


def _rounds_otherwise(_: Comparison, first: Difference) -> bool:
    return first.quantity in ("loss", "gradients", "variables") and not _differs_much(first)


KNOWN = (
    KnownDifference(
        "proof",
        _ended_early,
        "A program that ended in an error took fewer steps: mend it, and record it again.",
    ),
    KnownDifference(
        "proof",
        _has_other_settings,
        "The runs begin with other scales or counts: the settings of the loss scale differ, or one went on from a "
        "checkpoint.",
    ),
    KnownDifference(
        "proof",
        _begins_elsewhere,
        "They differ at once: the runs begin with other weights, or see other data. TensorFlow's random numbers differ "
        "between releases, with the same seed too; have both programs load the same weights and data, or draw them "
        "with NumPy.",
    ),
    KnownDifference(
        "as-of",
        _counts_skips_otherwise,
        "A step was skipped before. From 2.3 on a skipped step advances `iterations`, up to 2.2 and on Keras 3 it does "
        "not, and Adam's bias correction and schedules of the learning rate read it: try --as-of {release}, or "
        "skip_counts_step.",
    ),
    KnownDifference(
        "where-the-originals-disagree",
        _repeats_rows,
        "Up to 2.14, rows that occur twice in IndexedSlices were summed before the check, and a step was skipped if "
        "the sum overflowed; now only the values are looked at.",
    ),
    KnownDifference(
        "what-the-originals-got-wrong-and-mpls-does-right",
        _first_replica_decided,
        "The old run applied gradients that are not finite, as it looked at those of the first replica only, or had a "
        "fixed scale; mpls looks at all.",
    ),
    KnownDifference(
        "what-the-originals-got-wrong-and-mpls-does-right",
        _reaches_bounds,
        "Keras 3's own wrapper has neither a floor nor a ceiling for the scale; mpls keeps it from 1 to the largest "
        "finite float.",
    ),
    KnownDifference(
        "what-the-originals-got-wrong-and-mpls-does-right",
        _underflows,
        "The old run multiplied gradients by the reciprocal of the scale, which became zero; mpls divides.",
    ),
    KnownDifference(
        "float16-losses",
        _overflows_half_loss,
        "A scale above 65504 is infinite in a float16 loss, where some releases multiplied in that dtype.",
    ),
    KnownDifference(
        "where-the-originals-disagree",
        _grows_otherwise,
        "Up to 2.3, wrappers took multipliers other than 2 and LossScale classes of one's own: try --as-of {release}.",
    ),
    KnownDifference(
        "what-else-is-different",
        _scales_by_no_power_of_two,
        "The originals multiplied gradients by the reciprocal of the scale, mpls divides: the bits are the same for "
        "powers of two, and this scale is none. Try a larger --tolerance.",
    ),
    KnownDifference(
        "keras-2",
        _optimizes_otherwise,
        "Optimizers since TF 2.11 and those of Keras 3 compute other last bits, and some, such as RMSprop and Nadam, "
        "other steps: try --keras 2 --legacy-optimizers.",
    ),
)
# Where nothing else explains the difference.
ROUNDING = KnownDifference(
    "proof",
    _rounds_otherwise,
    "The difference is of the size of rounding: sums are in another order, or layers compute in float16. Try a larger "
    "--tolerance, 5e-3 for float16.",
)
