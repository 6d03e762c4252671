"""Members of wrappers of all families: their counters, and how users restore, read and change state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import tensorflow as tf

from mpls.core.counters import OverflowReport, StepRecord
from mpls.core.dynamic import DynamicLossScale, ScaleMembers, growth_steps_for_files
from mpls.core.loss_scale import is_dynamic, never_skips
from mpls.core.state_checks import (
    WITHOUT_SCALE,
    SavedObject,
    examine,
    examine_slot,
    refuse_other_family,
    require_valid_state,
    warn_of_unrestored_scale,
)
from mpls.core.step_options import ReadOnly, StepOptions, read_only
from mpls.core.weights import in_graph_of, require_used_here
from mpls.errors import ArgumentTypeError, CallOrderError, MissingAttributeError
from mpls.formats.families import Family
from mpls.formats.wrapper_state import COUNTS, LOSS_SCALE, STATE, STEP_RECORD
from mpls.upstream.optimizers import fill_slot
from mpls.upstream.tensorflow import graph_key
from mpls.upstream.trackables import track

_APPLIED, _SKIPPED, _IN_A_ROW = COUNTS
# For members that need an option other than `count_steps`: what that option makes an optimizer do, and the section.
_NEEDS = {
    "unscaled_global_norm": ("checks gradients as they are unscaled", "clipping"),
    "overflow_report": ("tracks overflows", "overflows"),
    "check_skips": ("gives up after too many skipped steps", "giving-up"),
}


def _option(name: str, doc: str) -> ReadOnly:
    return read_only(name, lambda owner: getattr(owner._options, name), doc)


class Counted:
    """Mixin for wrappers: properties for their options and counters, and methods that read and set their state."""

    _options: StepOptions
    _record: StepRecord | None
    _loss_scale: Any
    # A fixed loss scale of 1 where the optimizer is disabled.
    _no_scaling: Any
    # Of `SettingMembers`.
    _session_of_state: Callable[[Any], Any]

    count_steps: ReadOnly = _option("count_steps", "Whether applied and skipped steps are counted; read-only.")
    skip_counts_step: ReadOnly = _option(
        "skip_counts_step", "Whether a skipped step advances the step counter, or None; read-only."
    )
    track_overflows: ReadOnly = _option(
        "track_overflows", "Whether non-finite gradients are counted for each variable; read-only."
    )
    max_consecutive_skips: ReadOnly = _option(
        "max_consecutive_skips", "The number of steps in a row that may be skipped, or None; read-only."
    )
    on_give_up: ReadOnly = _option(
        "on_give_up", "The reaction to more skipped steps: `'raise'`, `'warn'`, or a function; read-only."
    )
    check_unscaled: ReadOnly = _option("check_unscaled", "Whether unscaled gradients are checked; read-only.")
    enabled: ReadOnly = _option("enabled", "Whether the loss is scaled, a Python bool; read-only.")
    skip_nonfinite: ReadOnly = read_only(
        "skip_nonfinite",
        lambda owner: not never_skips(owner._loss_scale),
        "Whether steps with non-finite gradients are skipped, a Python bool; read-only.",
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
        """Whether the last step was applied, a boolean tensor, with `count_steps=True`; false before any step."""
        return self._needed("last_step_applied", "count_steps=True").last_step_applied()

    @property
    def unscaled_global_norm(self) -> Any:
        """The global norm of what the last call unscaled, a scalar float32 tensor, with `check_unscaled=True`."""
        record = self._needed("unscaled_global_norm", "check_unscaled=True", has=lambda each: each.unscaled is not None)
        assert record.unscaled is not None
        norm = record.unscaled.norm()
        if norm is None:
            raise CallOrderError(
                f"{type(self).__name__}.unscaled_global_norm must be read where gradients were unscaled; here none "
                "were. Read it in the same graph, tf.function or thread, after compute_gradients() or "
                "get_unscaled_gradients(). See mpls docs clipping"
            )
        return norm

    def overflow_report(self, session: Any = None) -> OverflowReport:
        """Return a tuple of `Overflow(variable, count, last_step)`, worst first; in a v1 graph, pass the `session`."""
        record = self._needed("overflow_report", "track_overflows=True", has=lambda each: each.overflows is not None)
        assert record.overflows is not None
        session = self._session_of_state(session)
        with in_graph_of(session):
            require_used_here(record, session, "overflow_report")
            return record.overflows.report(session)

    def check_skips(self, session: Any = None) -> None:
        """Give up, as `on_give_up` says, if too many steps were skipped; in a v1 graph, pass the `session`."""
        needs = "max_consecutive_skips=50"
        record = self._needed("check_skips", needs, has=lambda each: each.gives_up)
        session = self._session_of_state(session)
        with in_graph_of(session):
            require_used_here(record, session, "check_skips")
            record.note_look()
            record.check_skips(session)

    def state_dict(self, session: Any = None) -> dict[str, Any]:
        """Return the state of the loss scale, without the wrapped optimizer, as a small dict for `json`.

        Its keys are `dynamic`, `scale`, and for a dynamic scale `good_steps`, `initial_scale`, `growth_steps` and
        `multiplier`. Options of mpls add keys. In a v1 graph, pass the `session`.
        """
        session = self._session_of_state(session)
        with in_graph_of(session):
            counts = {} if self._record is None else self._record.read(session)
            return {**self._state_keeper().state_dict(session), **counts}

    def load_state_dict(self, state: Mapping[str, Any], session: Any = None) -> None:
        """Set the state of the loss scale to `state`, a dict from `state_dict`; in a v1 graph, pass the `session`."""
        session = self._session_of_state(session)
        with in_graph_of(session):
            load, record = self._state_keeper().load_state_dict, self._record
            if record is None or not isinstance(state, Mapping):
                load(state, session)
                return
            # Nothing changes unless all of it is valid.
            counts = record.check(state)
            load({name: state[name] for name in state if name not in counts}, session)
            record.write(counts, session)

    def _state_keeper(self) -> Any:
        if not hasattr(self._loss_scale, "load_state_dict"):
            raise ArgumentTypeError(
                f"{type(self).__name__}: the loss scale must have state_dict and load_state_dict; got a "
                f"{type(self._loss_scale).__name__}. Derive its class from mpls.v1.LossScale. "
                "See mpls docs my-checkpoints"
            )
        return self._loss_scale

    def _noted_loss(self, loss: Any) -> Any:
        """Return the loss; with `max_consecutive_skips`, also record it for the report."""
        record = self._record
        return loss if record is None or not record.gives_up else record.losses.noted(loss)

    def _noted_gradients(self, grads: list[Any]) -> list[Any]:
        """Return the unscaled gradients; record them with `max_consecutive_skips` and with `check_unscaled`."""
        record = self._record
        if record is not None and record.gives_up:
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
                f"constructor. See mpls docs {anchor}"
            )
        return record


def record_of(optimizer: Any) -> StepRecord | None:
    """Return the record of an optimizer's steps; None if it counts nothing, or is not of mpls."""
    return optimizer._record if isinstance(optimizer, Counted) else None


class ChangesScale(ScaleMembers):
    """Mixin for wrappers that have a `LossScale`: its settings, and how users change the scale."""

    _loss_scale: Any

    def _setting(self, name: str) -> Any:
        loss_scale = self._loss_scale
        return loss_scale._setting(name) if isinstance(loss_scale, DynamicLossScale) else None

    def _dynamic_scale_for(self, method: str) -> DynamicLossScale:
        if not isinstance(self._loss_scale, DynamicLossScale):
            raise ArgumentTypeError(
                f"{type(self).__name__}: {method}() needs a dynamic loss scale of mpls; got a "
                f"{type(self._loss_scale).__name__}. Wrap the optimizer with a dynamic one. "
                "See mpls docs bounds-and-dynamics"
            )
        return self._loss_scale


class Restorable:
    """Checks of the checkpoints that users restore."""

    _loss_scale: Any

    # The family whose state it can be restored from.
    _restored_family: ClassVar[Family]

    def _check_restore(self) -> None:
        """Check the checkpoint from which TensorFlow is restoring this object; called by `_trackable_children`."""
        examine(self, self._check_saved_object)

    def _check_saved_object(self, node: SavedObject) -> None:
        refuse_other_family(node, self._restored_family)
        if not self._has_saved_scale:
            return
        saved = self._valid_loss_scale(node, growth_steps_for_files(self._loss_scale))
        problem = self._problem_with_scale(saved)
        if problem is not None and not vars(self).get("_has_told_of_missing_scale"):
            vars(self)["_has_told_of_missing_scale"] = True
            warn_of_unrestored_scale(node.subject, problem)

    def _problem_with_scale(self, saved: SavedObject | None) -> str | None:
        """Return why the loss scale is not restored from its place in a checkpoint; None if it is."""
        if saved is None:
            return f"{WITHOUT_SCALE} stays at {self._scale_known_now()}"
        if saved.is_restored_into_another(self._part_with_scale):
            call = "set_scale" if hasattr(self, "set_scale") else "load_state_dict"
            return (
                "shared its loss scale with another optimizer, and only that one gets it: the rest is restored, and "
                f"the loss scale stays at {self._scale_known_now()}. Share the loss scale again, or call {call}()"
            )
        if saved.is_replaced_by_another(self._part_with_scale):
            return "had a loss scale of its own, which is not restored: now it shares that of another optimizer"
        return None

    def _valid_loss_scale(self, node: SavedObject, growth_steps: int | None) -> SavedObject | None:
        """Refuse an invalid state; return the place of the loss scale, or None if the checkpoint holds none."""
        loss_scale = node.child(LOSS_SCALE)
        require_valid_state(loss_scale, growth_steps)
        return None if loss_scale is None or loss_scale.child(STATE[0]) is None else loss_scale

    @property
    def _has_saved_scale(self) -> bool:
        """Whether a checkpoint has to hold a scale."""
        return is_dynamic(self._loss_scale)

    @property
    def _part_with_scale(self) -> Any:
        """The object that holds the scale in checkpoints."""
        return self._loss_scale

    def _scale_known_now(self) -> float:
        if graph_key() is not None:
            return float(self._loss_scale.initial_loss_scale)
        with tf.init_scope():
            return float(self._loss_scale())


class RestorableWithSlots(Restorable):
    """The same for families whose optimizers restore slot variables of TensorFlow: all but Keras 3."""

    _optimizer: Any

    def _create_or_restore_slot_variable(self, slot_variable_position: Any, *args: Any, **kwargs: Any) -> Any:
        examine_slot(self, slot_variable_position, self._check_saved_object)
        return fill_slot(self._optimizer, slot_variable_position, *args, **kwargs)
