"""`mpls compare`: whether two recorded trainings are the same, where they differ, and why. Loads no TensorFlow."""

from __future__ import annotations

import json
import math
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mpls.errors import MissingFileError, MplsError, printable
from mpls.formats.validity import LARGEST_COUNT
from mpls.formats.wrapper_state import WRAPPERS
from mpls.tracing import FORMAT, VERSION

__all__ = [
    "DEFAULT_TOLERANCE",
    "DIFFERENT",
    "KNOWN",
    "ROUNDING",
    "SAME_BITS",
    "SAME_UP_TO_ROUNDING",
    "Comparison",
    "Difference",
    "IncomparableTracesError",
    "KnownDifference",
    "Trace",
    "UnreadableTraceError",
    "compare",
    "explanations",
    "is_trace",
    "json_of",
    "read_trace",
    "text_of",
]

# Sums of float32 in another order differ by less in small models.
DEFAULT_TOLERANCE = 1e-5
# The verdicts.
SAME_BITS, SAME_UP_TO_ROUNDING, DIFFERENT = "the same bits", "the same up to rounding", "different"


class UnreadableTraceError(MplsError, ValueError):
    """A file is not a trace, or is broken."""


@dataclass(frozen=True)
class TracedVariable:
    """A variable that was measured."""

    name: str
    shape: tuple[int | None, ...]
    dtype: str


@dataclass(frozen=True)
class TracedWrapper:
    """An optimizer that scales the loss.

    Attributes:
        class_name: the name of its class.
        optimizer: the name of the class that it wraps.
        framework: `tensorflow`, `keras` or `tf_keras`, which that class is of or derives from; empty for another.
        variables: those that were measured, in order.
    """

    class_name: str
    optimizer: str
    framework: str
    variables: tuple[TracedVariable, ...]


@dataclass(frozen=True)
class TracedStep:
    """A step of an optimizer.

    Attributes:
        wrapper: the number of the optimizer.
        step: from 1.
        scale: the loss scale of the step.
        counter: the number of good steps before it; None if there is none.
        applied: whether it was applied.
        nonfinite: the number of elements of its gradients that are not finite.
        loss: None if it is not known.
        gradient_norms: of each measured variable.
        gradients_digest: of the bits of all gradients.
        variable_norms: after the step.
        variables_digest: of the bits of the measured variables, after the step.
        scale_after: the scale after the step.
        counter_after: the count after it.
    """

    wrapper: int
    step: int
    scale: float
    counter: int | None
    applied: bool
    nonfinite: int
    loss: float | None
    gradient_norms: tuple[float, ...]
    gradients_digest: str
    variable_norms: tuple[float, ...]
    variables_digest: str
    scale_after: float
    counter_after: int | None


@dataclass(frozen=True)
class Trace:
    """A training that `mpls trace` or its recorder for old machines has recorded.

    Attributes:
        path: the file, as the user named it.
        program: what was run.
        settings: the options of the recorder.
        environment: versions, by name.
        options: those of `mpls trace` with which the program ran, by name.
        ended_by: the error that the program ended in; None if it ended well.
        wrappers: the optimizers.
        steps: in the order in which they were taken.
    """

    path: str
    program: str
    settings: Mapping[str, Any]
    environment: Mapping[str, Any]
    options: Mapping[str, Any]
    ended_by: str | None
    wrappers: tuple[TracedWrapper, ...]
    steps: tuple[TracedStep, ...] = field(repr=False)

    @property
    def release(self) -> tuple[int, int]:
        """The release of TensorFlow that the program behaved as: that of `as_of`, or the one that it ran on."""
        text = self.options.get("as_of") or self.environment.get("tensorflow") or "0.0"
        parts = [int(each) if each.isdigit() else 0 for each in str(text).split(".")[:2]]
        return parts[0], parts[-1]

    @property
    def is_of_mpls(self) -> bool:
        """Whether `mpls trace` recorded it."""
        return "mpls" in self.environment


def is_trace(content: Any) -> bool:
    """Return whether the value of a JSON text is that of a trace."""
    return isinstance(content, dict) and content.get("format") == FORMAT


def read_trace(path: str) -> Trace:
    """Read a trace.

    Raises:
        MissingFileError: there is no such file.
        UnreadableTraceError: it is not a regular file, not a trace, not whole, or is one of a later version.
        OSError: it cannot be read.
    """
    name = printable(path)
    place = pathlib.Path(path)
    if not place.exists():
        raise MissingFileError(f"there is nothing at {name}")
    if not place.is_file():
        # A pipe may never end, or never begin.
        raise UnreadableTraceError(f"{name} is not a regular file")
    try:
        content = json.loads(place.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UnreadableTraceError(f"{name} is not complete JSON ({printable(str(error))}); record it again") from None
    if not is_trace(content):
        raise UnreadableTraceError(f"{name} is not a trace; mpls trace, or its recorder, writes them")
    if content.get("version") != VERSION:
        raise UnreadableTraceError(
            f"{name} has version {printable(repr(content.get('version')))} of the format, and this mpls reads {VERSION}"
        )
    try:
        wrappers = tuple(map(_traced_wrapper, content["wrappers"]))
        steps = tuple(_traced_step(each, wrappers) for each in content["steps"])
        settings, environment, options = (dict(content[each]) for each in ("settings", "environment", "options"))
        ended_by = None if content["ended_by"] is None else str(content["ended_by"])
        return Trace(path, str(content["program"]), settings, environment, options, ended_by, wrappers, steps)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise UnreadableTraceError(
            f"{name} is a broken trace ({type(error).__name__}: {printable(str(error))}); record it again"
        ) from None


def _traced_wrapper(about: Mapping[str, Any]) -> TracedWrapper:
    variables = []
    for each in about["variables"]:
        shape = tuple(None if size is None else int(size) for size in each["shape"])
        variables.append(TracedVariable(str(each["name"]), shape, str(each["dtype"])))
    return TracedWrapper(str(about["class"]), str(about["optimizer"]), str(about["framework"]), tuple(variables))


def _traced_step(row: Mapping[str, Any], wrappers: tuple[TracedWrapper, ...]) -> TracedStep:
    found: dict[str, Any] = {key: _count(row[key]) for key in ("wrapper", "step", "nonfinite")}
    found |= {key: None if row[key] is None else _count(row[key]) for key in ("counter", "counter_after")}
    found |= {key: _number(row[key]) for key in ("scale", "scale_after")}
    found |= {key: str(row[key]) for key in ("gradients_digest", "variables_digest")}
    for key in ("gradient_norms", "variable_norms"):
        found[key] = tuple(map(_number, row[key]))
        if len(found[key]) != len(wrappers[found["wrapper"]].variables):
            raise ValueError(f"it has {len(found[key])} norms of another number of variables")
    if not isinstance(row["applied"], bool):
        raise ValueError(f"{row['applied']!r} is neither true nor false")
    loss = None if row["loss"] is None else _number(row["loss"])
    return TracedStep(**found, applied=row["applied"], loss=loss)


def _number(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if is_number or value in ("inf", "-inf", "nan"):
        return float(value)
    raise ValueError(f"{value!r} is not a number")


def _count(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_COUNT:
        return value
    raise ValueError(f"{value!r} is not a count")


class IncomparableTracesError(MplsError, ValueError):
    """Two traces are of different programs, or have no step in common."""


@dataclass(frozen=True)
class PairedStep:
    """A step that both traces have.

    Attributes:
        wrapper: the number of the optimizer in the old trace.
        old: the step there.
        new: the step in the new trace, with its variables in the order of the old one.
    """

    wrapper: int
    old: TracedStep
    new: TracedStep


@dataclass(frozen=True)
class Pairing:
    """What two traces have in common.

    Attributes:
        steps: those that both have, in the order of the old trace.
        missing: by number of an optimizer in the old trace, the steps that only one of the two runs took: their number
            in the old trace, and in the new one. Where one trace was to stop earlier, what is beyond is not counted.
    """

    steps: tuple[PairedStep, ...]
    missing: dict[int, tuple[int, int]]

    def leaves_out(self, at: int) -> bool:
        """Return whether a trace lacks steps between the paired step at an index and the optimizer's one before it."""
        step = self.steps[at]
        before = [each.old.step for each in self.steps[:at] if each.wrapper == step.wrapper]
        return step.old.step > (before[-1] if before else 0) + 1


@dataclass(frozen=True)
class Difference:
    """A quantity that differs in a step.

    Attributes:
        quantity: `scale`, `counter`, `loss`, `nonfinite`, `gradients`, `applied`, `scale_after`, `counter_after`,
            `variables`, or `steps`.
        at: the place among the paired steps.
        step: the step; None for `steps`.
        variable: the position of the variable in the old trace; None where the quantity is not of one.
        old: the value in the old trace.
        new: the value in the new one.
        size: what is compared with the tolerance: of a loss, the difference relative to the larger one; of the norm
            of a part, relative to the norm of all gradients, or variables, of the step. Infinite where no tolerance
            applies.
    """

    quantity: str
    at: int
    step: PairedStep | None
    variable: int | None
    old: float | bool | None
    new: float | bool | None
    size: float = math.inf


@dataclass(frozen=True)
class Comparison:
    """What two traces have in common, and where they first differ.

    Attributes:
        old: the one trace.
        new: the other.
        tolerance: the largest size of a difference of losses and norms that counts as rounding.
        pairing: the steps of both.
        first: the first difference beyond the tolerance; None if there is none.
        largest: the largest size of a difference before it.
        same_bits: the number of steps, from the first, in which gradients and variables have the same bits.
        knows_losses: whether both have the loss of every step.
        counts_differ: whether steps that overflow in both have different numbers of non-finite elements.
    """

    old: Trace
    new: Trace
    tolerance: float
    pairing: Pairing
    first: Difference | None
    largest: float
    same_bits: int
    knows_losses: bool
    counts_differ: bool

    @property
    def verdict(self) -> str:
        """`SAME_BITS`, `SAME_UP_TO_ROUNDING` or `DIFFERENT`."""
        if self.first is not None:
            return DIFFERENT
        is_exact = self.same_bits == len(self.pairing.steps) and not self.largest
        return SAME_BITS if is_exact else SAME_UP_TO_ROUNDING


def compare(old: str, new: str, tolerance: float | None = None) -> Comparison:
    """Compare two files that `mpls trace` or its recorder has written.

    Scale, counter, and whether a step was applied and had gradients that are not finite, have to be the same. A loss
    may differ by the tolerance, relative to the larger one. The norm of a gradient may differ by the tolerance,
    relative to the norm of all gradients of the step: rounding is as large as the largest terms of a sum, also where
    little is left of them. It is the same with variables. Where the bits are the same, nothing differs.

    Args:
        old: the one trace.
        new: the other.
        tolerance: by default 1e-5.

    Returns:
        What they have in common, and where they first differ; `text_of` puts it into words.

    Raises:
        MissingFileError: there is no such file.
        UnreadableTraceError: one is not a trace, or is broken.
        IncomparableTracesError: they are of different programs.
        OSError: a file cannot be read.
    """
    tolerance = DEFAULT_TOLERANCE if tolerance is None else tolerance
    traces = read_trace(old), read_trace(new)
    pairing = _paired(*traces)
    steps = pairing.steps
    largest, first = 0.0, None
    for at, step in enumerate(steps):
        found = list(_differences(at, step))
        first = next((each for each in found if each.size > tolerance), None)
        if first is not None:
            break
        largest = max([largest, *(each.size for each in found)])
    if first is None and pairing.missing:
        first = Difference("steps", len(steps), None, None, *pairing.missing[min(pairing.missing)])
    return Comparison(
        *traces,
        tolerance,
        pairing,
        first,
        largest,
        same_bits=next((at for at, step in enumerate(steps) if not _has_same_bits(step)), len(steps)),
        knows_losses=all(None not in (step.old.loss, step.new.loss) for step in steps),
        counts_differ=any(step.old.nonfinite != step.new.nonfinite and step.old.nonfinite for step in steps),
    )


def _paired(old: Trace, new: Trace) -> Pairing:
    """Pair what two traces have.

    Optimizers belong together in the order of their first steps; variables by their names if these are the same in
    both, else in order. Shapes have to be the same.

    Raises:
        IncomparableTracesError: these are traces of different programs.
    """
    if len(old.wrappers) != len(new.wrappers):
        raise IncomparableTracesError(
            f"{printable(old.path)} has {len(old.wrappers)} optimizers that scale a loss, and {printable(new.path)} "
            f"has {len(new.wrappers)}: these are different programs, or only parts of one"
        )
    orders = [_order(*each, number) for number, each in enumerate(zip(old.wrappers, new.wrappers, strict=True))]
    by_place = {(step.wrapper, step.step): step for step in new.steps}
    steps = tuple(
        PairedStep(step.wrapper, step, _reordered(by_place[step.wrapper, step.step], orders[step.wrapper]))
        for step in old.steps
        if (step.wrapper, step.step) in by_place
    )
    if not steps:
        raise IncomparableTracesError(
            f"{printable(old.path)} and {printable(new.path)} have no step in common; record both with the same "
            "--every and --steps"
        )
    return Pairing(steps, _missing(old, new, len(orders)))


def _reordered(step: TracedStep, order: tuple[int, ...]) -> TracedStep:
    gradients, variables = (tuple(norms[at] for at in order) for norms in (step.gradient_norms, step.variable_norms))
    return replace(step, gradient_norms=gradients, variable_norms=variables)


def _order(old: TracedWrapper, new: TracedWrapper, number: int) -> tuple[int, ...]:
    names = [[each.name for each in wrapper.variables] for wrapper in (old, new)]
    has_same_names = sorted(names[0]) == sorted(names[1]) and len(set(names[0])) == len(names[0])
    order = tuple(names[1].index(name) if has_same_names else at for at, name in enumerate(names[0]))
    if len(names[0]) != len(names[1]):
        raise IncomparableTracesError(
            f"optimizer {number} has {len(names[0])} measured variables in the old trace and {len(names[1])} in the "
            "new one: these are different programs, or were recorded with different --variables"
        )
    for at, variable in enumerate(old.variables):
        other = new.variables[order[at]]
        if variable.shape != other.shape:
            raise IncomparableTracesError(
                f"variable {at} of optimizer {number} is {printable(variable.name)} of shape {_shape_of(variable)} "
                f"in the old trace, and {printable(other.name)} of shape {_shape_of(other)} in the new one: these "
                "are different programs"
            )
    return order


def _shape_of(variable: TracedVariable) -> str:
    return f"[{', '.join('?' if size is None else str(size) for size in variable.shape)}]"


def _missing(old: Trace, new: Trace, count: int) -> dict[int, tuple[int, int]]:
    """Return how many steps each run took, where these are not as many."""
    limits = [trace.settings.get("steps") for trace in (old, new)]
    limit = min([each for each in limits if isinstance(each, int)], default=None)
    everies = [each if isinstance(each, int) else 1 for each in (trace.settings.get("every") for trace in (old, new))]
    found = {}
    for number in range(count):
        last = [max((step.step for step in trace.steps if step.wrapper == number), default=0) for trace in (old, new)]
        if limit is not None:
            last = [min(each, limit) for each in last]
        # If the runs recorded different steps in between, the last steps may differ although the runs agree.
        if abs(last[0] - last[1]) >= (1 if everies[0] == everies[1] else max(everies)):
            found[number] = (last[0], last[1])
    return found


def _differences(at: int, step: PairedStep) -> Iterator[Difference]:
    """Yield what differs in a step, in the order in which it comes about."""
    old, new = step.old, step.new

    def exactly(*quantities: str) -> Iterator[Difference]:
        for quantity in quantities:
            one, other = getattr(old, quantity), getattr(new, quantity)
            if None not in (one, other) and one != other and not (math.isnan(one) and math.isnan(other)):
                yield Difference(quantity, at, step, None, one, other)

    yield from exactly("scale", "counter")
    if old.loss is not None and new.loss is not None:
        size = _size(old.loss, new.loss, max(abs(old.loss), abs(new.loss)))
        if size:
            yield Difference("loss", at, step, None, old.loss, new.loss, size)
    if bool(old.nonfinite) != bool(new.nonfinite):
        yield Difference("nonfinite", at, step, None, old.nonfinite, new.nonfinite)
    if old.gradients_digest != new.gradients_digest:
        yield from _norms("gradients", at, step, old.gradient_norms, new.gradient_norms)
    yield from exactly("applied", "scale_after", "counter_after")
    if old.variables_digest != new.variables_digest:
        yield from _norms("variables", at, step, old.variable_norms, new.variable_norms)


def _norms(
    quantity: str, at: int, step: PairedStep, old: tuple[float, ...], new: tuple[float, ...]
) -> Iterator[Difference]:
    pairs = list(zip(old, new, strict=True))
    # In a step that overflows, the finite parts are still compared, beside each other.
    finite = [pair for pair in pairs if all(map(math.isfinite, pair))]
    whole = min(max(math.hypot(*norms) for norms in zip(*finite, strict=True)), sys.float_info.max) if finite else 0.0
    found = [Difference(quantity, at, step, place, *pair, _size(*pair, whole)) for place, pair in enumerate(pairs)]
    # The one that differs most is the one to look at.
    yield from sorted((each for each in found if each.size), key=lambda each: -each.size)


def _size(old: float, new: float, whole: float) -> float:
    """Return the size of a difference beside a whole: 0 for equal numbers and for two that are not finite."""
    if old == new or not (math.isfinite(old) or math.isfinite(new)):
        return 0.0
    return abs(old - new) / whole if math.isfinite(old) and math.isfinite(new) else math.inf


def _has_same_bits(step: PairedStep) -> bool:
    old, new = step.old, step.new
    return (old.gradients_digest, old.variables_digest) == (new.gradients_digest, new.variables_digest)


# Why runs differ: differences of releases that docs/differences.md lists, and what programs do not fix.

_SKIPS_COUNT_FROM, _SKIPS_COUNT_TO = (2, 3), (2, 15)
_LARGEST_OF_HALF = 65504.0
_OBJECTS_TO = (2, 3)
_NEW_OPTIMIZERS_FROM = (2, 11)
_ROUNDING = 1e-2
# More explanations would hide the likeliest one.
_MOST = 2


@dataclass(frozen=True)
class KnownDifference:
    """A known reason why two runs differ.

    Attributes:
        anchor: the section of the documentation about it.
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


def _is_unseeded(comparison: Comparison, first: Difference) -> bool:
    traces = (comparison.old, comparison.new)
    releases = {tuple(str(trace.environment.get("tensorflow")).split(".")[:2]) for trace in traces}
    seeds = [trace.settings.get("seed") for trace in traces]
    return _differs_at_once(first) and len(releases) == 1 and (None in seeds or seeds[0] != seeds[1])


def _begins_elsewhere(comparison: Comparison, first: Difference) -> bool:
    return _differs_at_once(first) and _differs_much(first) and not _is_unseeded(comparison, first)


def _differs_at_once(first: Difference) -> bool:
    return first.at == 0 and first.quantity in ("loss", "gradients", "nonfinite", "variables")


def _differs_much(first: Difference) -> bool:
    """Return whether a difference is larger than those of rounding, beside the value itself."""
    old, new = first.old, first.new
    if first.size == math.inf or old is None or new is None:
        return True
    return abs(old - new) > _ROUNDING * max(abs(old), abs(new))


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


def _first_replica_decided(_: Comparison, first: Difference) -> bool:
    step = first.step
    if first.quantity != "applied" or step is None:
        return False
    return step.old.applied and not step.new.applied and step.old.nonfinite > 0


def _reaches_bounds(_: Comparison, first: Difference) -> bool:
    values = [each for each in (first.old, first.new) if isinstance(each, float)]
    is_of_scale = first.quantity in ("scale", "scale_after")
    return is_of_scale and any(value < 1 or not math.isfinite(value) for value in values)


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
        _is_unseeded,
        "They differ at once, and were not recorded with one seed: random weights or data differ between such runs. "
        "Record both again with --seed 1.",
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
    "The difference is of the size of rounding: sums are in another order, and many steps or a loss near zero make it "
    "larger; or layers compute in float16. Try --tolerance 1e-4, or 5e-3 for float16.",
)

# Words.

_AROUND = 2
_WORDS = {
    "scale": "the loss scale",
    "counter": "the count of good steps",
    "loss": "the loss",
    "nonfinite": "the number of non-finite elements of gradients",
    "gradients": "the norm of a gradient",
    "applied": "whether the step was applied",
    "scale_after": "the loss scale after the step",
    "counter_after": "the count of good steps after the step",
    "variables": "the norm of a variable after the step",
    "steps": "the number of steps",
}
_Cell = Callable[[TracedStep], str]


def text_of(comparison: Comparison) -> str:
    """Return the verdict in a sentence, and otherwise where two traces first differ, and why."""
    old, new = comparison.old, comparison.new
    lines = [_about("old", old), _about("new", new), ""]
    lines += _agreement(comparison) if comparison.first is None else _difference(comparison, comparison.first)
    return "\n".join(lines)


def json_of(comparison: Comparison) -> str:
    """Return the same for machines."""
    first, about = comparison.first, None
    if first is not None:
        step = first.step
        wrapper = None if step is None else comparison.old.wrappers[step.wrapper]
        about = {
            "quantity": first.quantity,
            "step": None if step is None else step.old.step,
            "optimizer": None if step is None else step.wrapper,
            "variable": None if wrapper is None or first.variable is None else wrapper.variables[first.variable].name,
            "old": _jsonable(first.old),
            "new": _jsonable(first.new),
            "size": _jsonable(first.size),
        }
    content = {
        "verdict": comparison.verdict,
        "tolerance": comparison.tolerance,
        "steps": len(comparison.pairing.steps),
        "steps_with_the_same_bits": comparison.same_bits,
        "largest_within_tolerance": comparison.largest,
        "first_difference": about,
        "explanations": [
            {"text": each.text_for(comparison), "anchor": each.anchor} for each in explanations(comparison)
        ],
    }
    return json.dumps(content, indent=2, allow_nan=False)


def _jsonable(value: float | bool | None) -> float | bool | str | None:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _about(which: str, trace: Trace) -> str:
    environment = trace.environment
    versions = [f"TensorFlow {environment.get('tensorflow', '?')}"]
    versions += [f"mpls {environment['mpls']}"] if trace.is_of_mpls else []
    as_of = trace.options.get("as_of")
    versions += [f"as of {as_of}"] if as_of else []
    ended = f", ended by {trace.ended_by}" if trace.ended_by else ""
    return printable(
        f"{which}: {trace.path} ({trace.program}, {', '.join(versions)}, {_steps(len(trace.steps))}{ended})"
    )


def _steps(number: int) -> str:
    return f"{number} step{'' if number == 1 else 's'}"


def _agreement(comparison: Comparison) -> list[str]:
    count, same = len(comparison.pairing.steps), comparison.same_bits
    optimizers = len(comparison.old.wrappers)
    what = f"{_steps(count)} of {optimizers} optimizer{'' if optimizers == 1 else 's'}"
    exact = "the same scales, counts, applied and skipped steps"
    if comparison.verdict == SAME_BITS:
        lines = [f"The two agree to the last bit, in {what}: {exact}, and the same bits of gradients and variables."]
    else:
        losses = "losses, and norms" if comparison.knows_losses else "norms"
        size = f"by at most {comparison.largest:.2g}, relatively" if comparison.largest else "in no digit"
        where = "no step" if not same else "each step" if same == count else f"the first {_steps(same)}"
        lines = [
            f"The two agree up to rounding, in {what}: {exact}; {losses} of gradients and variables beside those of "
            f"all, differ {size} (tolerance {comparison.tolerance:g}).",
            f"The bits of gradients and variables are the same in {where}.",
        ]
    if not comparison.knows_losses:
        lines.append("One of them has no loss in some steps, as the wrapper did not see it.")
    if comparison.counts_differ:
        lines.append("In steps that overflow, the numbers of non-finite elements differ, which no step depends on.")
    return lines


def _difference(comparison: Comparison, first: Difference) -> list[str]:
    lines = [_headline(comparison, first), _agreed_until(comparison, first), ""]
    lines += _table(comparison, first)
    for each in explanations(comparison):
        lines += ["", f"{each.text_for(comparison)} See mpls docs {each.anchor}"]
    return lines


def _headline(comparison: Comparison, first: Difference) -> str:
    values = f"{_shown(first.old)} in the old run, {_shown(first.new)} in the new one"
    if first.step is None:
        return f"The two differ in {_WORDS[first.quantity]}: {values}."
    what = _WORDS[first.quantity]
    if first.variable is not None:
        what += f", {printable(comparison.old.wrappers[first.step.wrapper].variables[first.variable].name)}"
    of_what = "of the larger one" if first.variable is None else f"of the norm of all {first.quantity}"
    by = "" if first.size == math.inf else f" ({first.size:.2g} {of_what}; tolerance {comparison.tolerance:g})"
    of = f" of optimizer {first.step.wrapper}" if len(comparison.old.wrappers) > 1 else ""
    return f"The two differ from step {first.step.old.step}{of} on: {what}: {values}{by}."


def _agreed_until(comparison: Comparison, first: Difference) -> str:
    if not first.at:
        return "They have no step in which they agree."
    same = min(comparison.same_bits, first.at)
    bits = "to the last bit" if same == first.at else f"up to rounding, to {comparison.largest:.2g}, relatively"
    before = f"In the {_steps(first.at)} before, they agree {bits}."
    is_sparse = first.step is not None and comparison.pairing.leaves_out(first.at)
    return before + " Steps in between were not recorded: --every 1 shows the first." if is_sparse else before


def _table(comparison: Comparison, first: Difference) -> list[str]:
    """Return the steps around the first difference; a second row has what the new run has otherwise."""
    steps = comparison.pairing.steps[max(0, first.at - _AROUND) : first.at + _AROUND + 1]
    columns = list(_columns(comparison, first))
    header = ["", "step", *(name for name, _ in columns)]
    rows = []
    for step in steps:
        mark = ">" if step is first.step else ""
        number = f"{step.old.step}" + (f" ({step.wrapper})" if len(comparison.old.wrappers) > 1 else "")
        pairs = [(cell(step.old), cell(step.new)) for _, cell in columns]
        rows.append([mark, number, *(old for old, _ in pairs)])
        if any(old != new for old, new in pairs):
            rows.append(["", "new", *("" if old == new else new for old, new in pairs)])
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    table = [header, *rows]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    return [*lines, 'a row "new" has the values of the new run that differ from those of the old run above it']


def _columns(comparison: Comparison, first: Difference) -> Iterator[tuple[str, _Cell]]:
    yield "scale", lambda step: _shown(step.scale)
    yield "count", lambda step: _shown(step.counter)
    if any(step.old.loss is not None for step in comparison.pairing.steps):
        yield "loss", lambda step: _shown(step.loss)
    yield "inf, nan", lambda step: _shown(step.nonfinite)
    yield "applied", lambda step: _shown(step.applied)
    yield "|gradients|", lambda step: _shown(math.hypot(*step.gradient_norms))
    yield "|variables|", lambda step: _shown(math.hypot(*step.variable_norms))
    at = first.variable
    if at is not None:
        has_several = len(comparison.old.wrappers) > 1
        # Other optimizers have other variables.
        wrapper = None if first.step is None or not has_several else first.step.wrapper
        yield (
            "|this one|",
            lambda step: _norm_at(step, first.quantity, at, wrapper),
        )


def _norm_at(step: TracedStep, quantity: str, at: int, wrapper: int | None) -> str:
    if wrapper is not None and step.wrapper != wrapper:
        return ""
    return _shown((step.gradient_norms if quantity == "gradients" else step.variable_norms)[at])


def _shown(value: float | bool | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.7g}"
