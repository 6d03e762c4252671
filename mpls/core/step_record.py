"""How many steps of an optimizer were applied and skipped, counted on the device, and why they were skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from mpls.core.fast.branches import group
from mpls.core.finite import no_infinity, no_nan
from mpls.core.giving_up import RECENT, Cause, Facts, Stuck, asserted, cause_of, give_up, next_facts
from mpls.core.gradients import values_of
from mpls.core.overflows import Overflows
from mpls.core.persistence.state_dict import checked_extras, plain, read_values, write_values
from mpls.core.replicas import (
    call_in_cross_replica_context,
    decide_together,
    each_finite,
    merges_in_replica_context,
)
from mpls.core.step_losses import StepLosses
from mpls.core.step_options import StepOptions
from mpls.core.unscaled import UnscaledGradients
from mpls.core.weights import Lock, Stateful, Weights
from mpls.errors import MplsWarning, advise_user
from mpls.formats.validity import check_count
from mpls.formats.wrapper_state import COUNTS, NONFINITE_LOSSES, OVERFLOWS, RECENT_SCALES, SKIP_FACTS
from mpls.upstream.tensorflow import caller_of_xla, is_compiled_by_xla
from mpls.upstream.trackables import Trackable, track

__all__ = ["Known", "StepNotes", "StepRecord", "load_with_counts", "with_counts"]

_APPLIED, _SKIPPED, _IN_A_ROW = COUNTS
# What is known of a step besides its gradients: its losses, the gradients as they were unscaled, and their flags.
Known = tuple[list[Any], list[Any], list[Any]]

if TYPE_CHECKING:
    _Base = object
else:
    _Base = Trackable


class StepRecord(Stateful, _Base):
    """The counters of an optimizer: variables for each graph in which it is used, and for eager mode.

    Args:
        options: what is counted beyond applied and skipped steps.
    """

    def __init__(self, options: StepOptions) -> None:
        super().__init__()
        self._variables = Weights()
        self._lock = Lock()
        self.options = options
        self.losses = StepLosses()
        self._has_told = False
        # The number of applied steps before the last warning about skipped ones, and how many those were.
        self._warned = (-1, 0)
        # Whether the program looks at the skipped steps itself, or was told that it should.
        self._is_checked = False
        # Functions that look at them.
        self._around = Weights()
        self.unscaled = UnscaledGradients() if options.check_unscaled else None
        self.overflows = self._make_overflows() if options.needs_overflows else None
        if self.overflows is not None:
            track(self, self.overflows, OVERFLOWS)

    def _initial_weights(self) -> dict[str, tuple[Any, Any]]:
        weights: dict[str, tuple[Any, Any]] = dict.fromkeys(COUNTS, (0, tf.int64))
        if self.options.max_consecutive_skips is not None:
            weights[RECENT_SCALES] = ([0.0] * RECENT, tf.float32)
            weights[NONFINITE_LOSSES] = (0, tf.int64)
            weights[SKIP_FACTS] = ([0.0] * len(Facts._fields), tf.float32)
        return weights

    def _make_overflows(self) -> Overflows:
        return Overflows()

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

    def of_step(self, variables: list[Any]) -> StepNotes:
        """Create the counters and return the notes of a step; to be called outside of the conditional.

        Args:
            variables: those that have a gradient.
        """
        # A branch would own the variables that are created in it.
        self.create_for(variables)
        return StepNotes(self, [_name_of(variable) for variable in variables])

    def tell_of_unknown_gradients(self) -> None:
        """Warn once that only the applied gradients are checked, as the unscaled ones are not known here."""
        if self._has_told:
            return
        self._has_told = True
        advise_user(
            "check_unscaled=True: gradients are applied that were unscaled elsewhere, or not by this optimizer; what "
            "the program did to them in between, such as clipping, may hide an overflow. Compute, unscale and apply "
            "gradients in the same function, session's graph and strategy.run(). See MIGRATION.md#clipping",
            MplsWarning,
        )

    def applied(self) -> Any:
        """Count an applied step, in cross-replica context; return an op, or None in eager mode."""
        resets = [self.counter(_IN_A_ROW).assign(0)]
        if self.options.max_consecutive_skips is not None:
            resets.append(self.counter(NONFINITE_LOSSES).assign(0))
        return group(self.counter(_APPLIED).assign_add(1), *resets)

    def applied_by_all(self) -> Any:
        """Count a step that is applied whatever its gradients, once for all replicas, in whichever context."""
        self.losses.taken()
        if self.unscaled is not None:
            self.unscaled.forget()
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
        if most is None:
            return
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
        give_up(stuck, self.options.on_give_up)

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
        """Return an op that fails if too many steps in a row were skipped; for graphs that XLA does not compile.

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
        return asserted(is_fine, skips, losses if is_loss_known else None, scales, known, names, bad)

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
            "See MIGRATION.md#giving-up",
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
        owners = [self] if self.overflows is None else [self, self.overflows]
        return [variable for owner in owners for variable in owner._weights_here().values()]

    def _saved_numbers(self) -> list[tuple[Any, Any, Callable[[Any, str], Any]]]:
        """Return the variables, each with its initial value and the function that checks a value from a file."""
        weights = self._weights_here()
        own: list[tuple[Any, Any, Callable[[Any, str], Any]]] = [
            (weights[name], initial, check_count if name in COUNTS else _take)
            for name, (initial, _) in self._initial_weights().items()
            if name in weights
        ]
        return own if self.overflows is None else [*own, *self.overflows._saved_numbers()]


def with_counts(state: dict[str, Any], record: StepRecord | None, session: Any) -> dict[str, Any]:
    """Return the state of a loss scale with the optimizer's counters, if it has any."""
    return state if record is None else {**state, **record.read(session)}


def load_with_counts(state: Any, record: StepRecord | None, session: Any, load: Callable[[Any, Any], Any]) -> None:
    """Load a state that `with_counts` has returned; nothing changes unless all of it is valid.

    Args:
        state: what the user passed.
        record: the optimizer's counters, or None.
        session: as in `state_dict`.
        load: loads the state of the loss scale; it gets the state and the session.
    """
    if record is None or not isinstance(state, Mapping):
        load(state, session)
        return
    counts = record.check(state)
    load({name: state[name] for name in state if name not in counts}, session)
    record.write(counts, session)


class StepNotes:
    """Takes notes of one step of an optimizer, in the branch that the step takes.

    Args:
        record: the optimizer's counters.
        names: the names of the variables that have a gradient.
    """

    def __init__(self, record: StepRecord, names: list[str]) -> None:
        self._record = record
        self._names = names

    @property
    def wants_scale(self) -> bool:
        """Whether the scale and the loss of the step are recorded, for the report."""
        return self._record.options.max_consecutive_skips is not None

    def losses(self) -> tuple[list[Any], list[Any]]:
        """Return what `StepLosses.taken` knows of the step, if it is wanted."""
        if not self.wants_scale:
            return [], []
        losses, grads = self._record.losses.taken()
        if is_compiled_by_xla() and self._record.options.on_give_up == "raise":
            self._record.raise_around_xla(self._names, bool(losses))
        return losses, grads

    def flags(self, grads: list[Any], variables: list[Any]) -> list[Any]:
        """Return what `UnscaledGradients.flags` says of gradients without None; an empty list without the option."""
        unscaled = self._record.unscaled
        found = [] if unscaled is None else unscaled.flags(grads, variables)
        if unscaled is not None and not found:
            self._record.tell_of_unknown_gradients()
        return found

    def applied(self) -> Any:
        """Count an applied step, in cross-replica context; return an op, or None in eager mode."""
        return self._record.applied()

    def skipped(self, grads: Callable[[], list[Any]], known: Known, scale: Any, floor: Any) -> Any:
        """Count a skipped step, in cross-replica context, and give up if there are too many.

        Args:
            grads: returns the gradients, None among them.
            known: what `losses` and `flags` returned.
            scale: the scale of the step; None if it is not wanted.
            floor: the scale below which it does not fall, if it is wanted.

        Returns:
            In a graph, an op; in eager mode None.
        """
        record = self._record
        skipped, in_a_row = (record.counter(name).assign_add(1) for name in (_SKIPPED, _IN_A_ROW))
        if record.overflows is None:
            return group(skipped, in_a_row)
        losses, unscaled, flags = known
        given = [grad for grad in grads() if grad is not None]
        are_finite = each_finite([*given, *losses, *flags])
        number = len(self._names)
        of_variables = are_finite[:number]
        if len(flags) == number:
            of_variables = tf.logical_and(of_variables, are_finite[-number:])
        with tf.control_dependencies(None if tf.executing_eagerly() else _ops([skipped, in_a_row])):
            step = tf.convert_to_tensor(record.counter(_SKIPPED)) + tf.convert_to_tensor(record.counter(_APPLIED))
            noted = [record.overflows.note(self._names, of_variables, step)]
        if self.wants_scale:
            # The gradients as they were unscaled: clipping makes NaN of infinity.
            seen = [values_of(grad) for grad in (*given, *unscaled)]
            may_overflow = tf.logical_or(_of_all_replicas(seen, no_nan), ~_of_all_replicas(seen, no_infinity))
            if len(losses) > 1:
                may_overflow = tf.logical_or(may_overflow, ~are_finite[number + 1])
            loss_is_finite = are_finite[number] if losses else None
            with tf.control_dependencies(None if tf.executing_eagerly() else _ops([in_a_row])):
                is_first = tf.equal(tf.convert_to_tensor(record.counter(_IN_A_ROW)), 1)
                before = Facts(*tf.unstack(tf.convert_to_tensor(record.counter(SKIP_FACTS)), num=len(Facts._fields)))
            after = next_facts(before, is_first, tf.cast(scale, tf.float32), floor, loss_is_finite, may_overflow)
            noted.append(group(record.counter(SKIP_FACTS).assign(tf.stack(after))))
            noted.append(self._noted_scale(loss_is_finite, scale))
            noted.append(self._given_up([skipped, in_a_row, *noted], of_variables, bool(losses)))
        return group(skipped, in_a_row, *noted)

    def _noted_scale(self, loss_is_finite: Any, scale: Any) -> Any:
        """Keep the scale, and count the step if the loss was not finite; -1 if that is not known."""
        recent, losses = (self._record.counter(name) for name in (RECENT_SCALES, NONFINITE_LOSSES))
        shifted = tf.concat([tf.convert_to_tensor(recent)[1:], [tf.cast(scale, tf.float32)]], 0)
        if loss_is_finite is None:
            counted = losses.assign(-1)
        else:
            before = tf.maximum(tf.convert_to_tensor(losses), 0)
            counted = losses.assign(before + tf.cast(tf.logical_not(loss_is_finite), tf.int64))
        return group(recent.assign(shifted), counted)

    def _given_up(self, after: list[Any], of_variables: Any, is_loss_known: bool) -> Any:
        record = self._record
        if tf.executing_eagerly():
            # The step is complete; an error now is raised by the call that applied it.
            record.check_skips(None)
            return None
        if record.options.on_give_up != "raise":
            return None
        with tf.control_dependencies(_ops(after)):
            return record.asserted(self._names, ~of_variables, is_loss_known)


def _of_all_replicas(tensors: list[Any], holds: Callable[[Any], Any]) -> Any:
    return decide_together(tensors, lambda agreed: (agreed,), holds)[0]


def _ops(results: list[Any]) -> list[Any]:
    """Return the ops and tensors of a graph, those of all replicas."""
    strategy = tf.distribute.get_strategy()
    return [op for result in results for op in strategy.experimental_local_results(result) if op is not None]


def _name_of(variable: Any) -> str:
    return str(getattr(variable, "path", None) or variable.name).partition(":")[0]


def _take(value: Any, _: str) -> Any:
    return value
