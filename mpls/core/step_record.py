"""How many steps of an optimizer were applied and skipped, counted on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from mpls.core.fast.branches import group
from mpls.core.persistence.state_dict import checked_extras, plain, read_values, write_values
from mpls.core.replicas import call_in_cross_replica_context, merges_in_replica_context
from mpls.core.step_options import StepOptions
from mpls.core.weights import Lock, Stateful, Weights
from mpls.errors import MissingAttributeError
from mpls.formats.validity import check_good_steps
from mpls.formats.wrapper_state import COUNTS, STEP_RECORD
from mpls.upstream.trackables import Trackable, track

__all__ = ["Counted", "StepRecord"]

_APPLIED, _SKIPPED, _IN_A_ROW = COUNTS


if TYPE_CHECKING:
    _Base = object
else:
    _Base = Trackable


class StepRecord(Stateful, _Base):
    """The counters of an optimizer: variables for each graph in which it is used, and for eager mode."""

    def __init__(self) -> None:
        super().__init__()
        self._variables = Weights()
        self._lock = Lock()

    def _initial_weights(self) -> dict[str, tuple[Any, Any]]:
        return dict.fromkeys(COUNTS, (0, tf.int64))

    def counter(self, name: str) -> Any:
        """Return a counter, a scalar int64 variable."""
        return self._created_weight(name)

    def create(self) -> None:
        """Create the counters of the current graph, or of eager mode, if they do not exist yet."""
        self._created_weight(_APPLIED)

    def applied(self) -> Any:
        """Count an applied step, in cross-replica context; return an op, or None in eager mode."""
        return group(self.counter(_APPLIED).assign_add(1), self.counter(_IN_A_ROW).assign(0))

    def skipped(self) -> Any:
        """Count a skipped step, in cross-replica context; return an op, or None in eager mode."""
        return group(self.counter(_SKIPPED).assign_add(1), self.counter(_IN_A_ROW).assign_add(1))

    def applied_by_all(self) -> Any:
        """Count an applied step once for all replicas, in whichever context the caller is."""
        return self.applied() if merges_in_replica_context() else call_in_cross_replica_context(self.applied)

    def last_step_applied(self) -> Any:
        """Return whether the last step was applied, a scalar boolean tensor; false before the first step."""
        applied, in_a_row = (tf.convert_to_tensor(self.counter(name)) for name in (_APPLIED, _IN_A_ROW))
        return tf.logical_and(applied > 0, tf.equal(in_a_row, 0))

    def read(self, session: Any) -> dict[str, int]:
        """Return the counts, Python ints, by name; `session` is as in `state_dict`."""
        values = read_values({name: self.counter(name) for name in COUNTS}, session)
        return {name: int(plain(value)) for name, value in values.items()}

    def check(self, state: Any) -> dict[str, Any]:
        """Return the counts in a `state_dict`, checked; it may lack any."""
        return checked_extras(state, {name: self.counter(name) for name in COUNTS})

    def write(self, values: dict[str, Any], session: Any) -> None:
        """Set the counts that `check` has returned."""
        write_values({name: self.counter(name) for name in values}, values, session)

    def _saved_numbers(self) -> list[tuple[Any, float, Callable[[Any, str], float]]]:
        """Return the variables, each with its initial value and the function that checks a value from a file."""
        weights = self._weights_here()
        return [(weights[name], 0, _check) for name in COUNTS if name in weights]


def _check(value: Any, subject: str) -> int:
    return check_good_steps(value, subject, None)


class Counted:
    """Mixin for optimizers that scale the loss: the properties that show their counters."""

    _options: StepOptions
    _record: StepRecord | None

    def _count_with(self, options: StepOptions) -> None:
        """Keep the options of an optimizer of TF 1, and make the record of its steps if they ask for it."""
        self._options = options
        self._record = StepRecord() if options.count_steps else None
        if self._record is None:
            return
        track(self, self._record, STEP_RECORD)
        with tf.init_scope():
            if not tf.executing_eagerly():
                # An initializer op or a Saver that the user makes before the first step has to include the counters.
                self._record.create()

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
        return self._counting("last_step_applied").last_step_applied()

    def _counter(self, name: str) -> Any:
        return self._counting(name).counter(name)

    def _counting(self, name: str) -> StepRecord:
        if self._record is None:
            raise MissingAttributeError(
                f"{type(self).__name__}.{name} needs an optimizer that counts its steps; this one does not. Pass "
                "count_steps=True to its constructor. See MIGRATION.md#counted-steps"
            )
        return self._record
