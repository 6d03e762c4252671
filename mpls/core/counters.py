"""What is counted of an optimizer's steps: applied and skipped ones, overflows, and when it gives up."""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import tensorflow as tf

from mpls.core.fast import AsOneOp, Stacks, group, value_from
from mpls.core.gradients import all_finite, no_infinity, no_nan, reals_of, sparse_places, values_of
from mpls.core.replicas import (
    call_in_cross_replica_context,
    decide_together,
    each_finite,
    in_replica_context,
    merges_in_replica_context,
)
from mpls.core.state_checks import checked_extras
from mpls.core.step_options import StepOptions
from mpls.core.weights import GraphLocal, Lock, Stateful, Weights, increment, plain, read_values, write_values
from mpls.errors import MplsWarning, TrainingStuckError, advise_user, warn_user
from mpls.formats.validity import check_count
from mpls.formats.wrapper_state import (
    COUNTS,
    NONFINITE_LOSSES,
    OVERFLOW_KINDS,
    OVERFLOWS,
    RECENT_SCALES,
    SKIP_FACTS,
    marks_of,
)
from mpls.upstream.tensorflow import caller_of_xla, is_compiled_by_xla
from mpls.upstream.trackables import track

# Pickles that earlier versions wrote name these modules.
sys.modules.update(
    {
        f"mpls.core.{name}": sys.modules[__name__]
        for name in ("overflows", "step_losses", "step_record", "unscaled", "giving_up")
    }
)

# How many of the last scales are kept.
RECENT = 8
_SEE = "See mpls docs giving-up"
Cause = Literal["loss", "model", "unknown", "scale"]
_ADVICE: dict[Cause, str] = {
    "loss": "No loss scale can mend that: look for the op, the input or the learning rate that makes the loss infinite "
    "or NaN.",
    "model": "The model is broken, as its gradients are not finite at the lowest scale: look for an op whose gradient "
    "is not finite, such as a square root, a logarithm or a norm at 0.",
    "unknown": "The gradients are NaN and never infinite. Either the model is broken: look for an op whose gradient is "
    "not finite, such as a square root, a logarithm or a norm at 0. Or, where the model computes in float16, the scale "
    "is still too high: infinities that cancel are NaN. Allow more skipped steps, max_consecutive_skips=50, or start "
    "with a lower scale, initial_scale=1024. If it goes on at the lowest scale, the model is broken.",
    "scale": "The gradients overflow, as the scale is too high: start with a lower one, initial_scale=1024, or let it "
    "fall for longer, max_consecutive_skips=50.",
}
_LOWER = "Where the lowest scale is above 1, lower it too: min_scale=1, or a smaller fixed scale."
_UNKNOWN = "Whether the loss was finite is not known."
_FINITE = "The loss was finite in all of them."


class Facts(NamedTuple):
    """What is known of the steps that were skipped in a row; scalar float32 tensors.

    Attributes:
        lowest: the lowest scale of them.
        highest: the highest.
        lowest_of_loss: the lowest scale at which the loss itself was not finite; 0 if there is none.
        highest_of_loss: the highest.
        may_overflow: 1 if in any of them a gradient was infinite, or none was NaN; else 0.
        at_floor: 1 if the scale of the last step cannot fall; else 0.
    """

    lowest: Any
    highest: Any
    lowest_of_loss: Any
    highest_of_loss: Any
    may_overflow: Any
    at_floor: Any


def next_facts(before: Facts, is_first: Any, scale: Any, floor: Any, loss_is_finite: Any, may_overflow: Any) -> Facts:
    """Return the facts after one more skipped step.

    Args:
        before: those before it.
        is_first: whether the step before was applied, a scalar boolean tensor.
        scale: the scale of the step, a scalar float32 tensor.
        floor: the scale below which it does not fall, a number or a scalar tensor.
        loss_is_finite: whether the loss itself was finite, a scalar boolean tensor; None if that is not known.
        may_overflow: whether a gradient was infinite, or none was NaN, a scalar boolean tensor.
    """
    # Checkpoints that were written without the facts leave zeros.
    is_first = tf.logical_or(is_first, tf.equal(before.highest, 0.0))
    before = Facts(*(tf.where(is_first, 0.0, each) for each in before))
    is_bad = tf.constant(False) if loss_is_finite is None else tf.logical_not(loss_is_finite)
    lowest_of_loss = tf.where(tf.equal(before.highest_of_loss, 0.0), scale, tf.minimum(before.lowest_of_loss, scale))
    return Facts(
        lowest=tf.where(is_first, scale, tf.minimum(before.lowest, scale)),
        highest=tf.maximum(before.highest, scale),
        lowest_of_loss=tf.where(is_bad, lowest_of_loss, before.lowest_of_loss),
        highest_of_loss=tf.where(is_bad, tf.maximum(before.highest_of_loss, scale), before.highest_of_loss),
        may_overflow=tf.maximum(before.may_overflow, tf.cast(may_overflow, tf.float32)),
        at_floor=tf.cast(scale <= tf.cast(floor, tf.float32), tf.float32),
    )


def cause_of(facts: Facts) -> dict[Cause, Any]:
    """Return whether each cause is the one, booleans of which one is true.

    Args:
        facts: scalar tensors, or NumPy numbers.
    """
    at_floor = facts.at_floor > 0
    is_at_lowest = at_floor & (facts.highest_of_loss > 0) & (facts.lowest_of_loss <= facts.lowest)
    of_loss = (facts.highest_of_loss > facts.lowest_of_loss) | is_at_lowest
    of_model = at_floor & ~of_loss
    # NaN alone proves no broken model: in float16, inf - inf and inf * 0 in the backward pass make it too.
    is_unknown = (facts.may_overflow <= 0) & ~(of_loss | of_model)
    return {"loss": of_loss, "model": of_model, "unknown": is_unknown, "scale": ~(of_loss | of_model | is_unknown)}


@dataclass(frozen=True)
class Stuck:
    """The state of the training when an optimizer gives up; the argument of a function in `on_give_up`.

    Examples:
        >>> import tensorflow as tf
        >>> import mpls.monitor, mpls.v1
        >>> def tell(stuck: mpls.monitor.Stuck) -> None:
        ...     print(stuck.consecutive_skips, stuck.nonfinite_losses, stuck.recent_scales, stuck.cause)
        >>> weight = tf.Variable(1.0)
        >>> opt = mpls.v1.MixedPrecisionLossScaleOptimizer(
        ...     tf.compat.v1.train.GradientDescentOptimizer(0.25), "dynamic", max_consecutive_skips=1, on_give_up=tell)
        >>> for _ in range(2):
        ...     opt.minimize(lambda: weight * float("nan"), var_list=[weight])
        2 2 (32768.0, 16384.0) loss

    Attributes:
        consecutive_skips: the number of steps in a row that were skipped.
        nonfinite_losses: the number of these steps in which the loss was not finite; None if no loss is known. A loss
            that is computed from non-finite gradients of the same step does not count.
        recent_scales: the scales of the last skipped steps, at most 8, the latest last.
        variables: the names of the variables whose gradients were not finite in the last skipped step.
        cause: `'loss'` if the loss itself is not finite; `'model'` if the loss is finite but its gradients are not;
            `'scale'` if the scale is too high; `'unknown'` if the gradients are NaN but never infinite, and the scale
            is above its floor, so that the cause may be the model or the scale.
        at_floor: whether the scale is at its floor and cannot fall further.
    """

    consecutive_skips: int
    nonfinite_losses: int | None
    recent_scales: tuple[float, ...]
    variables: tuple[str, ...]
    cause: Cause
    at_floor: bool

    def __str__(self) -> str:
        scales = ", ".join(f"{scale:g}" for scale in self.recent_scales)
        shown = ", ".join(self.variables[:5]) + (
            f" and {len(self.variables) - 5} more" if len(self.variables) > 5 else ""
        )
        is_above_1 = self.at_floor and self.recent_scales[-1] > 1
        return (
            f"LossScaleOptimizer: {self.consecutive_skips} steps in a row were skipped, as gradients were not finite. "
            f"{self._of_losses()} Last scales: {scales}. Variables: {shown or 'not known'}. "
            f"{_advice(self.cause, self.nonfinite_losses is not None, is_above_1)} {_SEE}"
        )

    def _of_losses(self) -> str:
        if self.nonfinite_losses is None:
            return _UNKNOWN
        if self.nonfinite_losses == 0:
            return _FINITE
        return f"The loss itself was not finite in {self.nonfinite_losses} of them."


def _advice(cause: Cause, is_known: bool, may_be_too_high: bool) -> str:
    text = _ADVICE[cause]
    if not is_known:
        text = f"{text} Or the loss was not finite."
    return f"{text} {_LOWER}" if cause == "model" and may_be_too_high else text


_COUNTS, _NAMES = OVERFLOW_KINDS[0], OVERFLOW_KINDS[2]


@dataclass(frozen=True)
class Overflow:
    """The overflows of one variable's gradient.

    Attributes:
        variable: the variable's name.
        count: the number of steps in which the gradient was not finite.
        last_step: the last of them, counted from 1; applied and skipped steps count.
    """

    variable: str
    count: int
    last_step: int


class OverflowReport(tuple[Overflow, ...]):
    """The variables whose gradients were not finite, the worst first; as a string, a table."""

    __slots__ = ()

    def __str__(self) -> str:
        if not self:
            return "No gradient was infinite or NaN."
        rows = [("variable", "overflows", "last in step")]
        rows += [(each.variable, str(each.count), str(each.last_step)) for each in self]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            f"{name:<{widths[0]}}  {count:>{widths[1]}}  {step:>{widths[2]}}" for name, count, step in rows
        )


class Overflows(Stateful):
    """Counts for each variable of an optimizer.

    A list of variables that is not part of a known one gets its own arrays.

    The name of the counts, which is their key in checkpoints, has the length of the list: counts of a list of another
    length are not restored into them. Beside the counts are numbers that stand for the variables' names, so that
    restored counts belong to the variable of the same name, and to no other.
    """

    def __init__(self) -> None:
        self._variables = Weights()
        self._lock = Lock()
        # In each graph, the names of variables by the end of the names of their counts.
        self._lists = Weights()

    def _initial_weights(self) -> dict[str, tuple[Any, Any]]:
        return {
            kind + end: (
                np.array(sorted(marks_of(names)), np.int64) if kind == _NAMES else np.zeros(len(names), np.int64),
                tf.int64,
            )
            for end, names in self._lists.here().items()
            for kind in OVERFLOW_KINDS
        }

    def create(self, names: Sequence[str]) -> None:
        """Create the counts of variables, if they do not exist yet; before the branch that writes them."""
        self._created_weight(_COUNTS + self._end(names))

    def _end(self, names: Sequence[str]) -> str:
        """Return how the names of the counts of some variables end, in the current graph."""
        wanted = tuple(names)
        with self._lock:
            lists = self._lists.here()
            for end, known in lists.items():
                # A step in which some variables have no gradient uses the arrays of the whole list.
                if known == wanted or _has_each(known, wanted):
                    return end
            alike = sum(len(known) == len(names) for known in lists.values())
            end = f"_{len(names)}" + (f"_{alike}" if alike else "")
            lists[end] = wanted
            return end

    def note(self, names: Sequence[str], are_finite: Any, step: Any) -> Any:
        """Count a skipped step, in cross-replica context; return an op, or None in eager mode.

        Args:
            names: the names of the variables.
            are_finite: boolean tensor, whether the gradient of each was finite.
            step: scalar int64 tensor, the number of the step.
        """
        # In eager mode, a step of another thread must not come between reading and writing.
        with self._lock:
            end = self._end(names)
            marks = sorted(marks_of(self._lists.here()[end]))
            # A variable without a gradient gets the appended True: it counts as finite.
            places = {mark: place for place, mark in enumerate(marks_of(names))}
            order = [places.get(mark, len(places)) for mark in marks]
            are_finite = tf.gather(tf.concat([are_finite, [True]], 0), order)
            variables = [self._created_weight(kind + end) for kind in OVERFLOW_KINDS]
            own = np.array(marks, np.int64)
            counts, steps = _of_names([tf.convert_to_tensor(variable) for variable in variables], own)
            counted = counts + tf.cast(tf.logical_not(are_finite), tf.int64)
            after = counted, tf.where(are_finite, steps, step), tf.constant(own)
            # A variable must not change before all have been read.
            with tf.control_dependencies([] if tf.executing_eagerly() else list(after)):
                return group(*(variable.assign(value) for variable, value in zip(variables, after, strict=True)))

    def in_step(self, names: Sequence[str], step: Any) -> tuple[list[str], Any]:
        """Return the names of a list of variables, and whether the gradient of each was not finite in a step.

        Args:
            names: the names of some of the variables.
            step: scalar int64 tensor, the number of the step.
        """
        end = self._end(names)
        known = self._lists.here()[end]
        ordered = [name for _, name in sorted(zip(marks_of(known), known, strict=True))]
        return ordered, tf.equal(tf.convert_to_tensor(self._created_weight(OVERFLOW_KINDS[1] + end)), step)

    def report(self, session: Any, call: str = "overflow_report") -> OverflowReport:
        """Return which gradients were not finite; `session` and `call` are as in `read_values`."""
        values = read_values({name: self._created_weight(name) for name in self._initial_weights()}, session, call)
        found = []
        for end, names in self._lists.here().items():
            counts, steps, marks = (values[kind + end].tolist() for kind in OVERFLOW_KINDS)
            of_marks = dict(zip(marks, zip(counts, steps, strict=True), strict=True))
            rows = ((name, *of_marks.get(mark, (0, 0))) for name, mark in zip(names, marks_of(names), strict=True))
            found += [Overflow(*row) for row in rows if row[1]]
        return OverflowReport(sorted(found, key=lambda each: (-each.count, each.variable)))


def _has_each(known: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether all names are known; False if either list has a name twice."""
    return len(set(known)) == len(known) and len(set(names)) == len(names) and set(names) <= set(known)


def _of_names(values: list[Any], marks: Any) -> tuple[Any, Any]:
    """Return the counts and the last steps of variables, 0 for those that are not among the values.

    Args:
        values: counts, last steps, and ascending marks of variables' names, which a checkpoint may have brought.
        marks: the ascending marks of the variables.
    """
    counts, steps, known = values
    places = tf.minimum(tf.searchsorted(known, marks), len(marks) - 1)
    is_known = tf.equal(tf.gather(known, places), marks)
    taken = (tf.where(is_known, tf.gather(each, places), 0) for each in (counts, steps))
    return next(taken), next(taken)


class StepLosses(GraphLocal):
    """Remembers the losses of a step, and the gradients that are unscaled in it, for the report about skipped steps.

    It does in each graph and, in eager mode, in each thread; for each replica.
    """

    def noted(self, loss: Any) -> Any:
        """Record a loss and return it; for a callable, return one that records its result."""
        if callable(loss):

            def noting() -> Any:
                return self.noted(loss())

            return noting
        # Integers are refused when they are scaled, and complex losses are not reported.
        if tf.is_tensor(loss) and loss.dtype.is_floating:
            self._of_replica().note_loss(loss)
        return loss

    def noted_gradients(self, grads: list[Any]) -> None:
        """Record unscaled gradients: a loss that is scaled after them may be computed from them."""
        self._of_replica().note_gradients([values_of(grad) for grad in grads if grad is not None])

    def taken(self) -> tuple[list[Any], list[Any]]:
        """Return the losses and gradients recorded since the last call in the same graph or thread.

        Returns:
            A list of at most two tensors. The first is finite if all losses were, without those that the second stands
            for. That one is finite if all losses were that were scaled after gradients that were not finite. And a list
            of the gradients that were unscaled last.
        """
        step = self._store().pop(replica_here(), None)
        return ([], []) if step is None else (step.losses, step.grads)

    def _of_replica(self) -> _Step:
        step: _Step = self._store().setdefault(replica_here(), _Step())
        return step


class _Step:
    """What is known of one step.

    Attributes:
        losses: as `StepLosses.taken` returns them.
        grads: the gradients that were unscaled last.
        are_finite: whether those that were unscaled before were finite, a scalar boolean tensor; None for none.
    """

    def __init__(self) -> None:
        self.losses: list[Any] = []
        self.grads: list[Any] = []
        self.are_finite: Any = None

    def note_loss(self, loss: Any) -> None:
        if not self.losses:
            self.losses = [loss]
            # Gradients of an earlier step, which was not applied, are not the origin of this loss.
            self.grads, self.are_finite = [], None
            return
        # Several losses become flags, so that memory does not grow if the program takes no step.
        first, *later = self.losses
        grads_finite = self._grads_finite()
        if grads_finite is None:
            self.losses = [_flag_of([first, loss]), *later]
            return
        is_fine = all_finite(loss)
        self.losses = [
            _flag_of([first, tf.where(is_fine | ~grads_finite, 0.0, float("nan"))]),
            _flag_of([*later, tf.where(is_fine | grads_finite, 0.0, float("nan"))]),
        ]

    def note_gradients(self, grads: list[Any]) -> None:
        # Those of several calls become one flag, for the same reason.
        self.are_finite = self._grads_finite()
        self.grads = grads

    def _grads_finite(self) -> Any:
        """Return whether all gradients so far were finite, a scalar boolean tensor; None if there were none."""
        if not self.grads:
            return self.are_finite
        last = all_finite(self.grads)
        return last if self.are_finite is None else self.are_finite & last


def _flag_of(losses: list[Any]) -> Any:
    return tf.where(all_finite(losses), 0.0, float("nan"))


def replica_here() -> Any:
    """Return the number of the replica in whose context the caller is; None in no replica context."""
    if not in_replica_context():
        return None
    return int(tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group))


# Eager mode keeps fewer notes than this; more become one.
_MOST = 16


@dataclass(frozen=True)
class _Note:
    """A note of the gradients that one call has unscaled.

    Attributes:
        flags: for each gradient that is not None a scalar float32, which is 0 if it is finite and else NaN; empty if
            Python knows that all are finite.
        values: in a graph, their tensors, by which the gradients that are applied are recognised; in eager mode, weak
            references to them.
    """

    flags: list[Any]
    values: list[Any]


@dataclass
class _Here:
    """What one replica has unscaled in a graph or, in eager mode, in a thread.

    Attributes:
        notes: of a graph, all notes; in eager mode, those of the step that goes on.
        norm: the global norm of the gradients unscaled last.
        unscaled: how many losses' gradients the step has unscaled.
        applied: in eager mode, how often the step has applied gradients to each variable, by its `id`.
    """

    notes: list[_Note] = field(default_factory=list)
    norm: Any = None
    unscaled: int = 0
    applied: Counter[int] = field(default_factory=Counter)

    def add(self, note: _Note, norm: Any) -> None:
        """Add the note of a call, which begins a step if gradients were applied since the last one."""
        if self.applied:
            # A program may apply the gradients of one loss in several calls, each to other variables.
            self.begin_step()
        self.notes.append(note)
        self.unscaled += 1
        self.norm = norm

    def combine(self) -> None:
        """Make one of many notes of eager mode, whose gradients may never be applied."""
        if len(self.notes) < _MOST:
            return
        flags = [flag for each in self.notes for flag in each.flags]
        self.notes = [_Note(_combined(self.notes) or ([tf.add_n(flags)] if flags else []), [])]

    def begin_step(self) -> None:
        """Drop the notes."""
        self.notes, self.unscaled, self.applied = [], 0, Counter()


@AsOneOp
def _sum_of_squares(tensors: list[Any]) -> list[Any]:
    # `l2_loss` is half of the sum.
    return [
        2.0 * tf.add_n([tf.nn.l2_loss(tf.cast(reals_of(tensor), tf.float32)) for tensor in Stacks(tensors).tensors])
    ]


class UnscaledGradients(GraphLocal):
    """Remembers unscaled gradients in each graph and, in eager mode, in each thread; for each replica."""

    def note(self, grads: Iterable[Any]) -> None:
        """Remember whether gradients are finite, and their global norm.

        Args:
            grads: unscaled gradients; None is left out.
        """
        grads = [grad for grad in grads if grad is not None]
        values = [values_of(grad) for grad in grads]
        if not values:
            return
        (total,) = _sum_of_squares(values, sparse_places(grads))
        is_finite, is_eager = tf.math.is_finite(total), tf.executing_eagerly()
        flags: list[Any] = []
        # Replicas must have the same number of flags.
        if not is_eager or replica_here() is not None or not bool(is_finite):
            # A square may leave float32 where the gradient does not, so look again if the sum is not finite.
            flags_together = value_from(
                values,
                is_finite,
                lambda *given: tf.zeros([len(given)]),
                lambda *given: tf.where(tf.stack([all_finite(value) for value in given]), 0.0, float("nan")),
                "unscaled_check",
            )
            flags = tf.unstack(flags_together, num=len(values))
        here = self._here()
        here.add(_Note(flags, list(map(weakref.ref, values)) if is_eager else values), tf.sqrt(total))
        if is_eager:
            here.combine()

    def flags(self, grads: list[Any], variables: list[Any]) -> list[Any] | None:
        """Return the flags of the gradients of a step, which `note` has made in the same graph or thread.

        In eager mode these are those of the gradients themselves, if all of them are as they were unscaled; otherwise
        all flags of the step: it ends when the next gradients are unscaled, or when gradients are applied to a variable
        more often than gradients were unscaled. In a graph they are the flags of those unscaled gradients that these
        gradients are computed from, so that several steps can be built in any order.

        Args:
            grads: the gradients that are applied, without None.
            variables: those that they are applied to.

        Returns:
            A flag for each gradient, a scalar float32: 0 if all unscaled gradients that it combines were finite, else
            NaN. If the numbers differ, a flag for each unscaled gradient. An empty list if Python knows that all were
            finite. None if nothing is known.
        """
        if not grads:
            # Legacy optimizers take a step without any.
            return []
        here = self._here()
        if tf.executing_eagerly():
            here.applied.update(map(id, variables))
            if max(here.applied.values()) > here.unscaled:
                here.begin_step()
            found = _giving([values_of(grad) for grad in grads], here.notes) or here.notes
        else:
            found = _reached([values_of(grad) for grad in grads], here.notes)
        if not found:
            return None
        if any(len(note.flags) not in (0, len(grads)) for note in found):
            return [flag for note in found for flag in note.flags]
        return _combined(found)

    def norm(self) -> Any:
        """Return the global norm of the gradients unscaled last in this graph or thread; None if there were none."""
        return self._here().norm

    def _here(self) -> _Here:
        here: _Here = self._store().setdefault(replica_here(), _Here())
        return here


def _combined(notes: list[_Note]) -> list[Any]:
    """Return the flags of gradients that add up those of all notes; an empty list if their numbers differ."""
    notes = [note for note in notes if note.flags]
    if len({len(note.flags) for note in notes}) > 1:
        return []
    return [tf.add_n(flags) for flags in zip(*(note.flags for note in notes), strict=True)]


def _giving(tensors: list[Any], notes: list[_Note]) -> list[_Note]:
    """Return the notes of the calls that have returned these eager tensors; an empty list if others are among them."""
    known = {id(value): note for note in notes for each in note.values if (value := each()) is not None}
    if any(id(tensor) not in known for tensor in tensors):
        return []
    return list({id(note): note for note in (known[id(tensor)] for tensor in tensors)}.values())


def _reached(tensors: list[Any], notes: list[_Note]) -> list[_Note]:
    """Return the notes of unscaled gradients from which tensors of a graph are computed."""
    wanted = {value.name: note for note in notes for value in note.values}
    found: set[int] = set()
    seen: set[str] = set()
    waiting = list(tensors)
    while waiting and wanted:
        tensor = waiting.pop()
        if tensor.name in wanted:
            found.add(id(wanted[tensor.name]))
        elif tensor.op.name not in seen:
            seen.add(tensor.op.name)
            waiting.extend(tensor.op.inputs)
    return [note for note in notes if id(note) in found]


_APPLIED, _SKIPPED, _IN_A_ROW = COUNTS
# What is known of a step besides its gradients: its losses, the gradients as they were unscaled, and their flags.
Known = tuple[list[Any], list[Any], list[Any]]


class StepRecord(Stateful):
    """The counters of an optimizer: variables for each graph in which it is used, and for eager mode.

    Args:
        options: what is counted beyond applied and skipped steps.
    """

    def __init__(self, options: StepOptions) -> None:
        self._variables = Weights()
        self._lock = Lock()
        self.options = options
        self.losses: StepLosses = StepLosses()
        self._has_told = False
        # The number of applied steps before the last warning about skipped ones, and how many those were.
        self._warned = (-1, 0)
        # Whether the program looks at the skipped steps itself, or was told that it should.
        self._is_checked = False
        # Functions that look at them.
        self._around = Weights()
        self.unscaled: UnscaledGradients | None = UnscaledGradients() if options.check_unscaled else None
        self.overflows: Overflows | None = Overflows() if options.needs_overflows else None
        if self.overflows is not None:
            track(self, self.overflows, OVERFLOWS)

    def _initial_weights(self) -> dict[str, tuple[Any, Any]]:
        weights: dict[str, tuple[Any, Any]] = dict.fromkeys(COUNTS, (0, tf.int64))
        if self.gives_up:
            weights[RECENT_SCALES] = ([0.0] * RECENT, tf.float32)
            weights[NONFINITE_LOSSES] = (0, tf.int64)
            weights[SKIP_FACTS] = ([0.0] * len(Facts._fields), tf.float32)
        return weights

    @property
    def gives_up(self) -> bool:
        """Whether too many skipped steps end the training, so that the scale and the loss of a step are recorded."""
        return self.options.max_consecutive_skips is not None

    def counter(self, name: str) -> Any:
        """Return a counter, a scalar int64 variable."""
        return self._created_weight(name)

    def create(self) -> None:
        """Create the counters of the current graph, or of eager mode, if they do not exist yet."""
        self._created_weight(_APPLIED)

    def create_for(self, variables: Iterable[Any]) -> None:
        """Create the counters, and those of the variables that an optimizer is built with, if they do not exist yet."""
        self.create()
        names = [_name_of(variable) for variable in variables]
        if self.overflows is not None and names:
            self.overflows.create(names)

    def created_for_step(self, variables: list[Any]) -> list[str]:
        """Create the counters for a step, which a branch would own, and return the names of its variables.

        Args:
            variables: those that have a gradient.
        """
        self.create_for(variables)
        return [_name_of(variable) for variable in variables]

    def known_of(self, names: list[str], grads: list[Any], as_given: list[Any], variables: list[Any]) -> Known:
        """Return what is known of a step besides its gradients, where they were computed.

        Args:
            names: the names of the variables.
            grads: the gradients that are applied, without None.
            as_given: the same before any sum over replicas.
            variables: those that have a gradient.
        """
        losses: list[Any] = []
        unscaled: list[Any] = []
        if self.gives_up:
            losses, unscaled = self.losses.taken()
            # Those that are applied as they were unscaled are known already.
            applied = {id(values_of(grad)) for grad in grads}
            unscaled = [grad for grad in unscaled if id(grad) not in applied]
            if is_compiled_by_xla() and self.options.on_give_up == "raise":
                self.raise_around_xla(names, bool(losses))
        flags = [] if self.unscaled is None else self.unscaled.flags(as_given, variables)
        if flags is None:
            self.tell_of_unknown_gradients()
        return losses, unscaled, flags or []

    def tell_of_unknown_gradients(self) -> None:
        """Warn once that only the applied gradients are checked, as the unscaled ones are not known here."""
        if self._has_told:
            return
        self._has_told = True
        advise_user(
            "check_unscaled=True: gradients are applied that were unscaled elsewhere, or not by this optimizer; what "
            "the program did to them in between, such as clipping, may hide an overflow. Compute, unscale and apply "
            "gradients in the same function, session's graph and strategy.run(). See mpls docs clipping",
            MplsWarning,
        )

    def applied(self) -> Any:
        """Count an applied step, in cross-replica context; return an op, or None in eager mode."""
        resets = [self.counter(_IN_A_ROW).assign(0, read_value=False)]
        if self.gives_up:
            resets.append(self.counter(NONFINITE_LOSSES).assign(0, read_value=False))
        return group(increment(self.counter(_APPLIED)), *resets)

    def skipped(self, names: list[str], grads: Callable[[], list[Any]], known: Known, scale: Any, floor: Any) -> Any:
        """Count a skipped step, in cross-replica context, and give up if there are too many.

        Args:
            names: the names of the variables that have a gradient.
            grads: returns the gradients, None among them.
            known: what `known_of` returned.
            scale: the scale of the step; None if it is not wanted.
            floor: the scale below which it does not fall, if it is wanted.

        Returns:
            In a graph, an op; in eager mode None.
        """
        skipped, in_a_row = (self.counter(name).assign_add(1) for name in (_SKIPPED, _IN_A_ROW))
        if self.overflows is None:
            return group(skipped, in_a_row)
        losses, unscaled, flags = known
        given = [grad for grad in grads() if grad is not None]
        are_finite = each_finite([*given, *losses, *flags])
        number = len(names)
        of_variables = are_finite[:number]
        if len(flags) == number:
            of_variables = tf.logical_and(of_variables, are_finite[-number:])
        with tf.control_dependencies(None if tf.executing_eagerly() else _ops([skipped, in_a_row])):
            step = tf.convert_to_tensor(self.counter(_SKIPPED)) + tf.convert_to_tensor(self.counter(_APPLIED))
            noted = [self.overflows.note(names, of_variables, step)]
        if self.gives_up:
            # The gradients as they were unscaled: clipping makes NaN of infinity.
            seen = [values_of(grad) for grad in (*given, *unscaled)]
            may_overflow = tf.logical_or(_of_all_replicas(seen, no_nan), ~_of_all_replicas(seen, no_infinity))
            if len(losses) > 1:
                may_overflow = tf.logical_or(may_overflow, ~are_finite[number + 1])
            loss_is_finite = are_finite[number] if losses else None
            with tf.control_dependencies(None if tf.executing_eagerly() else _ops([in_a_row])):
                is_first = tf.equal(tf.convert_to_tensor(self.counter(_IN_A_ROW)), 1)
                before = Facts(*tf.unstack(tf.convert_to_tensor(self.counter(SKIP_FACTS)), num=len(Facts._fields)))
            after = next_facts(before, is_first, tf.cast(scale, tf.float32), floor, loss_is_finite, may_overflow)
            noted.append(group(self.counter(SKIP_FACTS).assign(tf.stack(after))))
            noted.append(self._noted_scale(loss_is_finite, scale))
            noted.append(self._given_up([skipped, in_a_row, *noted], names, of_variables, bool(losses)))
        # What is noted waits for both.
        return group(*noted)

    def _noted_scale(self, loss_is_finite: Any, scale: Any) -> Any:
        """Keep the scale, and count the step if the loss was not finite; -1 if that is not known."""
        recent, losses = (self.counter(name) for name in (RECENT_SCALES, NONFINITE_LOSSES))
        shifted = tf.concat([tf.convert_to_tensor(recent)[1:], [tf.cast(scale, tf.float32)]], 0)
        if loss_is_finite is None:
            counted = losses.assign(-1)
        else:
            before = tf.maximum(tf.convert_to_tensor(losses), 0)
            counted = losses.assign(before + tf.cast(tf.logical_not(loss_is_finite), tf.int64))
        return group(recent.assign(shifted), counted)

    def _given_up(self, after: list[Any], names: list[str], of_variables: Any, is_loss_known: bool) -> Any:
        if tf.executing_eagerly():
            # The step is complete; an error now is raised by the call that applied it.
            self.check_skips(None)
            return None
        if self.options.on_give_up != "raise":
            return None
        with tf.control_dependencies(_ops(after)):
            return self.asserted(names, ~of_variables, is_loss_known)

    def applied_by_all(self) -> Any:
        """Count a step that is applied whatever its gradients, once for all replicas, in whichever context."""
        self.losses.taken()
        return self.applied() if merges_in_replica_context() else call_in_cross_replica_context(self.applied)

    def last_step_applied(self) -> Any:
        """Return whether the last step was applied, a scalar boolean tensor; false before the first step."""
        applied, in_a_row = (tf.convert_to_tensor(self.counter(name)) for name in (_APPLIED, _IN_A_ROW))
        return tf.logical_and(applied > 0, tf.equal(in_a_row, 0))

    def check_skips(self, session: Any) -> None:
        """Give up if more than `max_consecutive_skips` steps in a row were skipped; `session` is as in `state_dict`.

        Raises:
            TrainingStuckError: there were more, and `on_give_up` is `'raise'`.
        """
        most = self.options.max_consecutive_skips
        assert most is not None
        names = (_IN_A_ROW, NONFINITE_LOSSES, RECENT_SCALES, SKIP_FACTS, _SKIPPED, _APPLIED)
        values = read_values({name: self._created_weight(name) for name in names}, session, "check_skips")
        skips, losses = int(values[_IN_A_ROW]), int(values[NONFINITE_LOSSES])
        if skips <= most or not self._is_worth_telling(int(values[_APPLIED]), skips):
            return
        step = int(values[_SKIPPED]) + int(values[_APPLIED])
        last = () if self.overflows is None else self.overflows.report(session, "check_skips")
        scales = [float(scale) for scale in values[RECENT_SCALES] if scale > 0]
        facts = Facts(*values[SKIP_FACTS])
        # A checkpoint that was written without the facts has zeros.
        is_cause: dict[Cause, Any] = cause_of(facts) if facts.highest else {"loss": losses > 0, "scale": True}
        stuck = Stuck(
            skips,
            None if losses < 0 else losses,
            tuple(scales[-skips:]),
            tuple(each.variable for each in last if each.last_step == step),
            next(cause for cause, is_one in is_cause.items() if is_one),
            bool(facts.at_floor),
        )
        if callable(self.options.on_give_up):
            self.options.on_give_up(stuck)
        elif self.options.on_give_up == "warn":
            warn_user(str(stuck), MplsWarning)
        else:
            raise TrainingStuckError(str(stuck))

    def _is_worth_telling(self, applied: int, skips: int) -> bool:
        """Return whether to give up: always, but a warning of more steps waits until they have doubled."""
        if self.options.on_give_up != "warn":
            return True
        row, of_skips = self._warned
        if row == applied and of_skips < skips < 2 * of_skips:
            return False
        self._warned = applied, skips
        return True

    def asserted(self, names: list[str], bad: Any, is_loss_known: bool) -> Any:
        """Return an op of a graph that fails if too many steps in a row were skipped; compiled by XLA, it does nothing.

        XLA compiles no op that chooses between strings, so that there is an assertion for each pair of a cause and a
        variable. The one that fails names the first variable whose gradient was not finite.

        Args:
            names: the names of variables.
            bad: whether the gradient of each was not finite in the last step, a boolean tensor.
            is_loss_known: whether it is known if the losses were finite.
        """
        skips, losses, scales, facts = (
            tf.convert_to_tensor(self.counter(name))
            for name in (_IN_A_ROW, NONFINITE_LOSSES, RECENT_SCALES, SKIP_FACTS)
        )
        is_fine = skips <= self.options.max_consecutive_skips
        known = Facts(*tf.unstack(facts, num=len(Facts._fields)))
        bad = tf.cast(bad, tf.int32)
        number = tf.reduce_sum(bad)
        # The last place is for none, as where only the sum of several replicas overflows.
        place = tf.where(number > 0, tf.argmax(bad, output_type=tf.int32), len(names))
        is_elsewhere = tf.not_equal(tf.range(len(names) + 1), place)
        others = tf.maximum(number - 1, 0)
        of_losses = ["The loss itself was not finite in this many of them:", losses] if is_loss_known else [_UNKNOWN]
        head = (
            "LossScaleOptimizer skipped more steps in a row than max_consecutive_skips, as gradients were not finite:"
        )
        of_scales = "The scales of the last steps (0: no step):"
        # Tensors that the assertions share.
        facts_first = [tf.convert_to_tensor(each) for each in (head, skips, *of_losses, of_scales, scales)]
        texts = [f"The gradient of {name} was not finite, and those of this many other variables:" for name in names]
        named = [tf.constant(text) for text in [*texts, "Number of variables whose gradients were not finite:"]]
        checks = []
        for cause, is_cause in cause_of(known).items():
            advice = f"{_advice(cause, is_loss_known, True)} opt.check_skips() names all variables. {_SEE}"
            last = [others, tf.constant(advice)]
            conditions = tf.unstack(is_fine | ~is_cause | is_elsewhere, num=len(named))
            for condition, name in zip(conditions, named, strict=True):
                data = [*facts_first, name, *last]
                checks.append(tf.raw_ops.Assert(condition=condition, data=data, summarize=RECENT))
        return tf.group(*checks)

    def raise_around_xla(self, names: list[str], is_loss_known: bool) -> None:
        """Have the next step fail if too many were skipped, from the graph that calls what XLA compiles.

        Nothing that XLA compiles can fail. The step of `fit` is compiled, and called in a function that is not. Where
        there is no such function, warn once.

        Args:
            names: the names of the variables that have a gradient.
            is_loss_known: whether the losses of the step are known.
        """
        graph = caller_of_xla()
        if graph is None:
            self._tell_of_xla()
            return
        # A function may call several that XLA compiles.
        around = self._around.of(graph)
        if around:
            return
        around["is_checked"] = True
        assert self.overflows is not None
        with graph.as_default(), tf.control_dependencies(None):
            step = tf.convert_to_tensor(self.counter(_SKIPPED)) + tf.convert_to_tensor(self.counter(_APPLIED))
            self.asserted(*self.overflows.in_step(names, step), is_loss_known)

    def note_look(self) -> None:
        """Remember that the program looks at the skipped steps itself."""
        self._is_checked = True

    def _tell_of_xla(self) -> None:
        if self._is_checked:
            return
        self._is_checked = True
        advise_user(
            "max_consecutive_skips: a step that XLA compiles must be checked from outside; got on_give_up='raise', and "
            "nothing in the step can raise. Call opt.check_skips() every so many steps, and before the first. "
            "See mpls docs giving-up",
            MplsWarning,
        )

    def read(self, session: Any) -> dict[str, int]:
        """Return the counts, Python ints, by name; `session` is as in `state_dict`."""
        values = read_values({name: self._created_weight(name) for name in COUNTS}, session)
        return {name: int(plain(value)) for name, value in values.items()}

    def check(self, state: Any) -> dict[str, Any]:
        """Return the counts in a `state_dict`, checked; it may lack any."""
        return checked_extras(state, {name: self._created_weight(name) for name in COUNTS})

    def write(self, values: dict[str, Any], session: Any) -> None:
        """Set the counts that `check` has returned."""
        write_values({name: self._created_weight(name) for name in values}, values, session)

    def variables(self) -> list[Any]:
        """Return the variables of the current graph, or of eager mode."""
        return [variable for owner in self._owners() for variable in owner._weights_here().values()]

    def _saved_numbers(self) -> list[tuple[Any, Any, Callable[[Any, str], Any]]]:
        """Return the variables, each with its initial value and the function that checks a value from a file."""
        return [
            (variable, owner._initial_weights()[name][0], check_count if name in COUNTS else lambda value, _: value)
            for owner in self._owners()
            for name, variable in owner._weights_here().items()
        ]

    def _owners(self) -> list[Stateful]:
        return [self] if self.overflows is None else [self, self.overflows]


def _of_all_replicas(tensors: list[Any], holds: Callable[[Any], Any]) -> Any:
    return decide_together(tensors, lambda agreed: (agreed,), holds)[0]


def _ops(results: list[Any]) -> list[Any]:
    """Return the ops and tensors of a graph, those of all replicas."""
    strategy = tf.distribute.get_strategy()
    return [op for result in results for op in strategy.experimental_local_results(result) if op is not None]


def _name_of(variable: Any) -> str:
    return str(getattr(variable, "path", None) or variable.name).partition(":")[0]
