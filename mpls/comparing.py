"""`mpls compare`: whether two recorded trainings are the same, where they differ, and why. Loads no TensorFlow."""

from __future__ import annotations

import itertools
import json
import math
import pathlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from mpls.errors import MissingFileError, MplsError, printable
from mpls.formats.validity import LARGEST_COUNT
from mpls.formats.wrapper_state import WRAPPERS
from mpls.tracing import FORMAT, VERSION

__all__ = [
    "DEFAULT_TOLERANCE",
    "DIFFERENT",
    "SAME_BITS",
    "SAME_UP_TO_ROUNDING",
    "Comparison",
    "Difference",
    "Explanation",
    "IncomparableTracesError",
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


class IncomparableTracesError(MplsError, ValueError):
    """Two traces are of different programs, or have no step in common."""


class TracedVariable(NamedTuple):
    """A variable that was measured."""

    name: str
    shape: tuple[int | None, ...]


class TracedWrapper(NamedTuple):
    """An optimizer that scales the loss.

    Attributes:
        class_name: the name of its class.
        framework: `tensorflow`, `keras` or `tf_keras`, which the class that it wraps is of or derives from; empty for
            another.
        variables: those that were measured, in order.
    """

    class_name: str
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

    @property
    def digests(self) -> tuple[str, str]:
        """Those of gradients and variables."""
        return self.gradients_digest, self.variables_digest


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

    def last_step(self, wrapper: int) -> int:
        """Return the number of the last step of an optimizer, 0 if it has none."""
        return max((step.step for step in self.steps if step.wrapper == wrapper), default=0)


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
        variables.append(TracedVariable(str(each["name"]), shape))
    return TracedWrapper(str(about["class"]), str(about["framework"]), tuple(variables))


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


class PairedStep(NamedTuple):
    """A step that both traces have; the new one has its variables in the order of the old one."""

    old: TracedStep
    new: TracedStep


class Difference(NamedTuple):
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
        steps: those that both have, in the order of the old trace.
        first: the first difference beyond the tolerance; None if there is none.
        largest: the largest size of a difference before it.
    """

    old: Trace
    new: Trace
    tolerance: float
    steps: tuple[PairedStep, ...]
    first: Difference | None
    largest: float

    @property
    def same_bits(self) -> int:
        """The number of steps, from the first, in which gradients and variables have the same bits."""
        return sum(1 for _ in itertools.takewhile(lambda step: step.old.digests == step.new.digests, self.steps))

    @property
    def verdict(self) -> str:
        """`SAME_BITS`, `SAME_UP_TO_ROUNDING` or `DIFFERENT`."""
        if self.first is not None:
            return DIFFERENT
        is_exact = self.same_bits == len(self.steps) and not self.largest
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
    steps = _paired(*traces)
    largest = 0.0
    for at, step in enumerate(steps):
        found = list(_differences(at, step))
        first = next((each for each in found if each.size > tolerance), None)
        if first is not None:
            return Comparison(*traces, tolerance, steps, first, largest)
        largest = max([largest, *(each.size for each in found)])
    return Comparison(*traces, tolerance, steps, _number_of_steps(*traces, len(steps)), largest)


def _paired(old: Trace, new: Trace) -> tuple[PairedStep, ...]:
    """Return the steps that two traces have.

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
    by_place = {(step.wrapper, step.step): _reordered(step, orders[step.wrapper]) for step in new.steps}
    pairs = ((step, by_place.get((step.wrapper, step.step))) for step in old.steps)
    steps = tuple(PairedStep(one, other) for one, other in pairs if other is not None)
    if not steps:
        raise IncomparableTracesError(
            f"{printable(old.path)} and {printable(new.path)} have no step in common; record both with the same "
            "--every and --steps"
        )
    return steps


def _reordered(step: TracedStep, order: tuple[int, ...]) -> TracedStep:
    gradients, variables = (tuple(norms[at] for at in order) for norms in (step.gradient_norms, step.variable_norms))
    return replace(step, gradient_norms=gradients, variable_norms=variables)


def _order(old: TracedWrapper, new: TracedWrapper, number: int) -> tuple[int, ...]:
    names = [[each.name for each in wrapper.variables] for wrapper in (old, new)]
    if len(names[0]) != len(names[1]):
        raise IncomparableTracesError(
            f"optimizer {number} has {len(names[0])} measured variables in the old trace and {len(names[1])} in the "
            "new one: these are different programs, or were recorded with different --variables"
        )
    has_same_names = sorted(names[0]) == sorted(names[1]) and len(set(names[0])) == len(names[0])
    order = tuple(names[1].index(name) if has_same_names else at for at, name in enumerate(names[0]))
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


def _number_of_steps(old: Trace, new: Trace, at: int) -> Difference | None:
    """Return the difference in how many steps an optimizer took; what is beyond the `--steps` of one is not counted."""
    traces = (old, new)
    limits = [trace.settings.get("steps") for trace in traces]
    limit = min([each for each in limits if isinstance(each, int)], default=LARGEST_COUNT)
    everies = [each if isinstance(each, int) else 1 for each in (trace.settings.get("every") for trace in traces)]
    # If the runs recorded different steps in between, the last steps may differ although the runs agree.
    least = 1 if everies[0] == everies[1] else max(everies)
    for wrapper in range(len(old.wrappers)):
        ours, theirs = (min(trace.last_step(wrapper), limit) for trace in traces)
        if abs(ours - theirs) >= least:
            return Difference("steps", at, None, None, ours, theirs)
    return None


def _differences(at: int, step: PairedStep) -> Iterator[Difference]:
    """Yield what differs in a step, in the order in which it comes about."""
    old, new = step

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


# Why runs differ.

# More explanations would hide the likeliest one.
_MOST = 2
# A difference up to this, relative to the value itself, is of the size of rounding.
_ROUNDING_ERROR = 1e-2
# The releases in which a skipped step advances `iterations`, and the first whose optimizers compute other bits.
_SKIPS_COUNT_FROM, _SKIPS_COUNT_TO, _NEW_OPTIMIZERS_FROM = (2, 3), (2, 15), (2, 11)


class Explanation(NamedTuple):
    """A likely reason for a difference.

    Attributes:
        anchor: the section of the documentation about it.
        text: what is said, with the remedy; `{release}` is that of the old run.
    """

    anchor: str
    text: str


_UNSEEDED = Explanation(
    "proof",
    "They differ at once, and were not recorded with one seed: random weights or data differ between such runs. "
    "Record both again with --seed 1.",
)
_OTHER_START = Explanation(
    "proof",
    "They differ at once: the runs begin with other weights, or see other data. TensorFlow's random numbers differ "
    "between releases, with the same seed too; have both programs load the same weights and data, or draw them "
    "with NumPy.",
)
_COUNTED_SKIPS = Explanation(
    "as-of",
    "A step was skipped before. From 2.3 on a skipped step advances `iterations`, up to 2.2 and on Keras 3 it does "
    "not, and Adam's bias correction and schedules of the learning rate read it: try --as-of {release}, or "
    "skip_counts_step.",
)
_OTHER_OPTIMIZERS = Explanation(
    "keras-2",
    "Optimizers since TF 2.11 and those of Keras 3 compute other last bits, and some, such as RMSprop and Nadam, "
    "other steps: try --keras 2 --legacy-optimizers.",
)
_ROUNDING = Explanation(
    "proof",
    "The difference is of the size of rounding: sums are in another order, and many steps or a loss near zero make it "
    "larger; or layers compute in float16. Try --tolerance 1e-4, or 5e-3 for float16.",
)
_OTHER_RELEASES = Explanation(
    "differences",
    "mpls repairs defects of the originals, and releases differ from each other; the documentation lists how.",
)


def explanations(comparison: Comparison) -> list[Explanation]:
    """Return what may explain the first difference, the likeliest first, and not more than two."""
    old, new, first = comparison.old, comparison.new, comparison.first
    if first is None or first.step is None:
        return []
    found = _of_the_beginning(old, new, first) if first.at == 0 else []
    if first.quantity == "variables":
        was_skipped = any(not step.old.applied and not step.new.applied for step in comparison.steps[: first.at])
        counts = [_counts_skips(trace) for trace in (old, new)]
        if was_skipped and None not in counts and counts[0] != counts[1]:
            release = ".".join(map(str, old.release))
            found.append(_COUNTED_SKIPS._replace(text=_COUNTED_SKIPS.text.format(release=release)))
        if first.step.old.applied and _has_other_optimizers(old, new):
            found.append(_OTHER_OPTIMIZERS)
    is_rounding = first.quantity in ("loss", "gradients", "variables") and not _differs_much(first)
    return found[:_MOST] or [_ROUNDING if is_rounding else _OTHER_RELEASES]


def _of_the_beginning(old: Trace, new: Trace, first: Difference) -> list[Explanation]:
    if first.quantity not in ("loss", "gradients", "nonfinite", "variables"):
        return []
    releases = {tuple(str(trace.environment.get("tensorflow")).split(".")[:2]) for trace in (old, new)}
    seeds = [trace.settings.get("seed") for trace in (old, new)]
    if len(releases) == 1 and (None in seeds or seeds[0] != seeds[1]):
        return [_UNSEEDED]
    return [_OTHER_START] if _differs_much(first) else []


def _differs_much(first: Difference) -> bool:
    """Return whether a difference is larger than those of rounding, beside the value itself."""
    if first.size == math.inf or first.old is None or first.new is None:
        return True
    return abs(first.old - first.new) > _ROUNDING_ERROR * max(abs(first.old), abs(first.new))


def _counts_skips(trace: Trace) -> bool | None:
    """Return whether a skipped step advanced `iterations`; None where wrappers have no such count."""
    if not _is_of_keras(trace):
        return None
    if not trace.is_of_mpls:
        return trace.release >= _SKIPS_COUNT_FROM
    if trace.options.get("as_of"):
        return _SKIPS_COUNT_FROM <= trace.release <= _SKIPS_COUNT_TO
    return any(wrapper.framework != "keras" for wrapper in trace.wrappers)


def _has_other_optimizers(old: Trace, new: Trace) -> bool:
    is_older = _is_of_keras(old) and not old.is_of_mpls and old.release < _NEW_OPTIMIZERS_FROM
    return is_older and new.is_of_mpls and not new.options.get("legacy_optimizers")


def _is_of_keras(trace: Trace) -> bool:
    return {wrapper.class_name for wrapper in trace.wrappers} <= set(WRAPPERS)


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


def text_of(comparison: Comparison) -> str:
    """Return the verdict in a sentence, and otherwise where two traces first differ, and why."""
    lines = [_about("old", comparison.old), _about("new", comparison.new), ""]
    first = comparison.first
    if first is None:
        return "\n".join(lines + _agreement(comparison))
    lines += [_headline(comparison, first), _agreed_until(comparison, first), "", *_table(comparison, first)]
    for anchor, text in explanations(comparison):
        lines += ["", f"{text} See mpls docs {anchor}"]
    return "\n".join(lines)


def json_of(comparison: Comparison) -> str:
    """Return the same for machines."""
    first, about = comparison.first, None
    if first is not None:
        step = first.step
        about = {
            "quantity": first.quantity,
            "step": None if step is None else step.old.step,
            "optimizer": None if step is None else step.old.wrapper,
            "variable": _variable_of(comparison, first),
            "old": _jsonable(first.old),
            "new": _jsonable(first.new),
            "size": _jsonable(first.size),
        }
    content = {
        "verdict": comparison.verdict,
        "tolerance": comparison.tolerance,
        "steps": len(comparison.steps),
        "steps_with_the_same_bits": comparison.same_bits,
        "largest_within_tolerance": comparison.largest,
        "first_difference": about,
        "explanations": [{"text": text, "anchor": anchor} for anchor, text in explanations(comparison)],
    }
    return json.dumps(content, indent=2, allow_nan=False)


def _jsonable(value: float | bool | None) -> float | bool | str | None:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _variable_of(comparison: Comparison, first: Difference) -> str | None:
    if first.step is None or first.variable is None:
        return None
    return comparison.old.wrappers[first.step.old.wrapper].variables[first.variable].name


def _about(which: str, trace: Trace) -> str:
    environment = trace.environment
    versions = [f"TensorFlow {environment.get('tensorflow', '?')}"]
    versions += [f"mpls {environment['mpls']}"] if trace.is_of_mpls else []
    as_of = trace.options.get("as_of")
    versions += [f"as of {as_of}"] if as_of else []
    ended = f", ended by {trace.ended_by}" if trace.ended_by else ""
    return printable(
        f"{which}: {trace.path} ({trace.program}, {', '.join(versions)}, {_counted(len(trace.steps), 'step')}{ended})"
    )


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _agreement(comparison: Comparison) -> list[str]:
    steps, same = comparison.steps, comparison.same_bits
    knows_losses = all(None not in (step.old.loss, step.new.loss) for step in steps)
    what = f"{_counted(len(steps), 'step')} of {_counted(len(comparison.old.wrappers), 'optimizer')}"
    exact = "the same scales, counts, applied and skipped steps"
    if comparison.verdict == SAME_BITS:
        lines = [f"The two agree to the last bit, in {what}: {exact}, and the same bits of gradients and variables."]
    else:
        losses = "losses, and norms" if knows_losses else "norms"
        size = f"by at most {comparison.largest:.2g}, relatively" if comparison.largest else "in no digit"
        where = "no step" if not same else "each step" if same == len(steps) else f"the first {_counted(same, 'step')}"
        lines = [
            f"The two agree up to rounding, in {what}: {exact}; {losses} of gradients and variables beside those of "
            f"all, differ {size} (tolerance {comparison.tolerance:g}).",
            f"The bits of gradients and variables are the same in {where}.",
        ]
    if not knows_losses:
        lines.append("One of them has no loss in some steps, as the wrapper did not see it.")
    if any(step.old.nonfinite and step.old.nonfinite != step.new.nonfinite for step in steps):
        lines.append("In steps that overflow, the numbers of non-finite elements differ, which no step depends on.")
    return lines


def _headline(comparison: Comparison, first: Difference) -> str:
    values = f"{_shown(first.old)} in the old run, {_shown(first.new)} in the new one"
    what = _WORDS[first.quantity]
    if first.step is None:
        return f"The two differ in {what}: {values}."
    variable = _variable_of(comparison, first)
    if variable is not None:
        what += f", {printable(variable)}"
    of_what = "of the larger one" if variable is None else f"of the norm of all {first.quantity}"
    by = "" if first.size == math.inf else f" ({first.size:.2g} {of_what}; tolerance {comparison.tolerance:g})"
    of = f" of optimizer {first.step.old.wrapper}" if len(comparison.old.wrappers) > 1 else ""
    return f"The two differ from step {first.step.old.step}{of} on: {what}: {values}{by}."


def _agreed_until(comparison: Comparison, first: Difference) -> str:
    if not first.at:
        return "They have no step in which they agree."
    is_exact = comparison.same_bits >= first.at
    bits = "to the last bit" if is_exact else f"up to rounding, to {comparison.largest:.2g}, relatively"
    before = f"In the {_counted(first.at, 'step')} before, they agree {bits}."
    if first.step is None:
        return before
    number, wrapper = first.step.old.step, first.step.old.wrapper
    last = max((each.old.step for each in comparison.steps[: first.at] if each.old.wrapper == wrapper), default=0)
    return before + (" Steps in between were not recorded: --every 1 shows the first." if number > last + 1 else "")


def _table(comparison: Comparison, first: Difference) -> list[str]:
    """Return the steps around the first difference; a second row has what the new run has otherwise."""
    rows: list[list[str]] = []
    for step in comparison.steps[max(0, first.at - _AROUND) : first.at + _AROUND + 1]:
        old, new = _cells(step.old, first), _cells(step.new, first)
        rows = rows or [["", "step", *old]]
        number = f"{step.old.step}" + (f" ({step.old.wrapper})" if len(comparison.old.wrappers) > 1 else "")
        rows.append([">" if step is first.step else "", number, *old.values()])
        if old != new:
            rows.append(["", "new", *("" if old[name] == value else value for name, value in new.items())])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [*lines, 'a row "new" has the values of the new run that differ from those of the old run above it']


def _cells(step: TracedStep, first: Difference) -> dict[str, str]:
    """Return what the table has of a step, by column; the last is of the variable that differs."""
    cells = {
        "scale": _shown(step.scale),
        "count": _shown(step.counter),
        "loss": _shown(step.loss),
        "inf, nan": _shown(step.nonfinite),
        "applied": _shown(step.applied),
        "|gradients|": _shown(math.hypot(*step.gradient_norms)),
        "|variables|": _shown(math.hypot(*step.variable_norms)),
    }
    if first.step is not None and first.variable is not None:
        norms = step.gradient_norms if first.quantity == "gradients" else step.variable_norms
        # Other optimizers have other variables.
        is_of_it = step.wrapper == first.step.old.wrapper
        cells["|this one|"] = _shown(norms[first.variable]) if is_of_it else ""
    return cells


def _shown(value: float | bool | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.7g}"
