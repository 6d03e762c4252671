"""Members of optimizers that show their counters of steps, overflows and the norm of unscaled gradients."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from mpls.core.loss_scale import never_skips
from mpls.core.overflows import OverflowReport
from mpls.core.persistence.state_dict import in_graph_of
from mpls.core.program_calls import begin_step
from mpls.core.step_options import ReadOnly, StepOptions, read_only
from mpls.core.step_record import StepRecord
from mpls.core.weights import require_used_here
from mpls.errors import CallOrderError, MissingAttributeError
from mpls.formats.wrapper_state import COUNTS, STEP_RECORD
from mpls.upstream.trackables import track

__all__ = ["Counted", "record_of"]

_APPLIED, _SKIPPED, _IN_A_ROW = COUNTS
# For members that need an option other than `count_steps`: what that option makes an optimizer do, and the section.
_NEEDS = {
    "unscaled_global_norm": ("checks gradients as they are unscaled", "clipping"),
    "overflow_report": ("tracks overflows", "overflows"),
    "check_skips": ("gives up after too many skipped steps", "giving-up"),
}


def _option(name: str, doc: str) -> ReadOnly:
    """Return a property of an optimizer that shows an option, which is given to the constructor only.

    Args:
        name: that of the option.
        doc: the property's docstring.
    """
    return read_only(name, lambda owner: getattr(owner._options, name), doc)


class Counted:
    """Mixin for optimizers: properties that show their counters, and methods that look at them."""

    _options: StepOptions
    _record: StepRecord | None
    _loss_scale: Any
    # A fixed loss scale of 1 where the optimizer is disabled.
    _no_scaling: Any

    count_steps = _option("count_steps", "Whether applied and skipped steps are counted; read-only, as the next ones.")
    skip_counts_step = _option("skip_counts_step", "Whether a skipped step advances the step counter; None by default.")
    track_overflows = _option("track_overflows", "Whether the variables whose gradients are not finite are counted.")
    max_consecutive_skips = _option("max_consecutive_skips", "How many steps in a row may be skipped, or None.")
    on_give_up = _option("on_give_up", "What happens when more are: `'raise'`, `'warn'`, or a function.")
    check_unscaled = _option("check_unscaled", "Whether gradients decide about a step as they were unscaled.")
    enabled = _option("enabled", "Whether the loss is scaled, a Python bool, as the argument `enabled` says.")
    skip_nonfinite = read_only(
        "skip_nonfinite",
        lambda owner: not never_skips(owner._loss_scale),
        "Whether steps with non-finite gradients are skipped, a Python bool; of a fixed scale, as the argument says.",
    )

    def _count_with(self, options: StepOptions) -> None:
        """Keep the options of an optimizer of TF 1, and make the record of its steps if they ask for it."""
        self._options = options
        self._record = StepRecord(options) if options.needs_record else None
        if self._record is None:
            return
        track(self, self._record, STEP_RECORD)
        with tf.init_scope():
            if not tf.executing_eagerly():
                # An initializer op or a Saver that the user makes before the first step has to include the counters.
                self._record.create()

    @property
    def _acting_scale(self) -> Any:
        """The loss scale that decides about steps: the optimizer's own, or where it is disabled one that is always 1.

        The own one keeps its state then, for checkpoints.
        """
        return self._loss_scale if self._options.enabled else self._no_scaling

    @property
    def applied_steps(self) -> Any:
        """The number of applied steps, a scalar int64 variable, with `count_steps=True`."""
        return self._counter(_APPLIED)

    @property
    def skipped_steps(self) -> Any:
        """The number of skipped steps, a scalar int64 variable, with `count_steps=True`."""
        return self._counter(_SKIPPED)

    @property
    def consecutive_skips(self) -> Any:
        """The number of skipped steps since the last applied one, a scalar int64 variable, with `count_steps=True`."""
        return self._counter(_IN_A_ROW)

    @property
    def last_step_applied(self) -> Any:
        """Whether the last step was applied, a scalar boolean tensor, with `count_steps=True`; false before any."""
        return self._needed("last_step_applied", "count_steps=True").last_step_applied()

    @property
    def unscaled_global_norm(self) -> Any:
        """The global norm of the gradients as they were unscaled last, a scalar float32, with `check_unscaled=True`.

        It belongs to the graph, the `tf.function`, or in eager mode the thread, in which they were unscaled, and in a
        replica context to the replica. It is infinite or NaN where a gradient is, or the square of one.

        Raises:
            AttributeError: the optimizer was made without `check_unscaled=True`.
            RuntimeError: no gradients were unscaled here.
        """
        record = self._needed("unscaled_global_norm", "check_unscaled=True", has=lambda each: each.unscaled is not None)
        assert record.unscaled is not None
        norm = record.unscaled.norm()
        if norm is None:
            raise CallOrderError(
                f"{type(self).__name__}.unscaled_global_norm must be read where gradients were unscaled; here none "
                "were. Read it in the same graph, tf.function or thread, after compute_gradients() or "
                "get_unscaled_gradients(). See MIGRATION.md#clipping"
            )
        return norm

    def overflow_report(self, session: Any = None) -> OverflowReport:
        """Return which variables had gradients that were not finite, the worst first, with `track_overflows=True`.

        Args:
            session: in a v1 graph, the session that has the variables; by default the default one.

        Returns:
            A tuple of `Overflow(variable, count, last_step)`, whose `str` is a table.

        Raises:
            AttributeError: the optimizer does not track them.
            RuntimeError: there is no session, or the call is made inside of a `tf.function`.

        Example:
            >>> import tensorflow as tf
            >>> import mpls.v1
            >>> good, bad = tf.Variable(1.0, name="good"), tf.Variable(1.0, name="bad")
            >>> opt = mpls.v1.MixedPrecisionLossScaleOptimizer(
            ...     tf.compat.v1.train.GradientDescentOptimizer(0.25), "dynamic", track_overflows=True)
            >>> opt.minimize(lambda: good + bad * float("inf"), var_list=[good, bad])
            >>> print(opt.overflow_report())
            variable  overflows  last in step
            bad               1             1
        """
        record = self._needed("overflow_report", "track_overflows=True", has=lambda each: each.overflows is not None)
        assert record.overflows is not None
        session = _session_of(self, session)
        with in_graph_of(session):
            require_used_here(record, session, "overflow_report")
            return record.overflows.report(session)

    def check_skips(self, session: Any = None) -> None:
        """Give up if more steps in a row were skipped than `max_consecutive_skips`; it reads device values.

        In eager mode every step does it. Where steps run in a `tf.function` or a session, call it every so many steps.
        With `on_give_up='warn'` it warns again only when the number of skipped steps in a row has doubled.

        Args:
            session: in a v1 graph, the session that has the variables; by default the default one.

        Raises:
            RuntimeError: a `TrainingStuckError`, if `on_give_up` is `'raise'`; or there is no session, or the call is
                made inside of a `tf.function`.
            AttributeError: the optimizer has no `max_consecutive_skips`.
        """
        needs = "max_consecutive_skips=50"
        record = self._needed("check_skips", needs, has=lambda each: each.options.max_consecutive_skips is not None)
        session = _session_of(self, session)
        with in_graph_of(session):
            require_used_here(record, session, "check_skips")
            record.note_look()
            record.check_skips(session)

    def _noted_loss(self, loss: Any) -> Any:
        """Return the loss; with `max_consecutive_skips`, also record it for the report."""
        begin_step(self._loss_scale)
        if self._record is None or self._options.max_consecutive_skips is None:
            return loss
        return self._record.losses.noted(loss)

    def _noted_gradients(self, grads: list[Any]) -> list[Any]:
        """Return the unscaled gradients; record them with `max_consecutive_skips` and with `check_unscaled`."""
        record = self._record
        if record is not None and record.options.max_consecutive_skips is not None:
            record.losses.noted_gradients(grads)
        if record is not None and record.unscaled is not None:
            record.unscaled.note(grads)
        return grads

    def _counter(self, name: str) -> Any:
        return self._needed(name, "count_steps=True").counter(name)

    def _needed(self, name: str, option: str, has: Any = bool) -> StepRecord:
        record = self._record
        if record is None or (has is not bool and not has(record)):
            does, anchor = _NEEDS.get(name, ("counts its steps", "counted-steps"))
            raise MissingAttributeError(
                f"{type(self).__name__}.{name} needs an optimizer that {does}; this one does not. Pass {option} to its "
                f"constructor. See MIGRATION.md#{anchor}"
            )
        return record


def _session_of(optimizer: Any, session: Any) -> Any:
    """Return the session to use: a family may have one of its own in place of the default one."""
    find = getattr(optimizer, "_session_of_state", None)
    return session if find is None else find(session)


def record_of(optimizer: Any) -> StepRecord | None:
    """Return the record of an optimizer's steps; None if it counts nothing, or is not of mpls."""
    return optimizer._record if isinstance(optimizer, Counted) else None
