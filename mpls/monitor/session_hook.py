"""The hook that reads the loss scale and the counters in a monitored session of TF 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsInt

import tensorflow as tf

from mpls.core.numbers import to_bool
from mpls.core.persistence.state_dict import read_values
from mpls.monitor.scale_messages import ScaleMessages
from mpls.monitor.scale_readings import ANCHOR, SCALE, Readings, checked_every

_SUBJECT = "LossScaleHook"

if TYPE_CHECKING:
    _Base = object
else:
    _Base = tf.compat.v1.train.SessionRunHook


class LossScaleHook(_Base):
    """A hook of monitored sessions that reads the loss scale, and the counters if there are any, every so many runs.

    It reads them after the run, so that they are those after the step, and at the end of the session. What it needs is
    built before the graph is finalized. If the optimizer has `max_consecutive_skips`, each reading calls `check_skips`.

    Args:
        optimizer: one of `mpls.v1` or `mpls.contrib`, a legacy one of `mpls.keras`, or TensorFlow's own wrapper; it may
            be inside of a v1 optimizer such as `SyncReplicasOptimizer`.
        every: the number of runs of the session from one reading to the next.
        messages: whether to log changes of the scale to `logging.getLogger("mpls")`, a line for each that is seen.

    Raises:
        ValueError: `every` is no whole number of at least 1.
        TypeError: the optimizer scales nothing, `every` is no number, or `messages` is no bool.
        RuntimeError: in a run, a `TrainingStuckError`, if the optimizer gives up.

    Example:
        >>> import tensorflow as tf
        >>> import mpls.monitor
        >>> import mpls.v1
        >>> with tf.Graph().as_default():
        ...     step = tf.compat.v1.train.get_or_create_global_step()
        ...     weight = tf.compat.v1.Variable(1.0, use_resource=True)
        ...     opt = tf.compat.v1.train.GradientDescentOptimizer(0.25)
        ...     opt = mpls.v1.MixedPrecisionLossScaleOptimizer(opt, mpls.v1.DynamicLossScale(8), count_steps=True)
        ...     train_op = opt.minimize(weight ** 2, step)
        ...     hook = mpls.monitor.LossScaleHook(opt, every=2)
        ...     with tf.compat.v1.train.MonitoredTrainingSession(hooks=[hook]) as session:
        ...         for _ in range(4):
        ...             _ = session.run(train_op)
        >>> for reading in hook.history:
        ...     print(reading)
        {'step': 2, 'loss_scale': 8.0, 'applied_steps': 2, 'skipped_steps': 0, 'consecutive_skips': 0}
        {'step': 4, 'loss_scale': 8.0, 'applied_steps': 4, 'skipped_steps': 0, 'consecutive_skips': 0}
    """

    def __init__(self, optimizer: Any, every: SupportsInt = 100, messages: bool = True) -> None:
        super().__init__()
        advice = 'LossScaleHook(mpls.v1.MixedPrecisionLossScaleOptimizer(opt, "dynamic"))'
        self._readings = Readings(optimizer, f"{_SUBJECT}: optimizer", advice)
        self._every = checked_every(every, _SUBJECT)
        has_messages = to_bool(messages, f"{_SUBJECT}: messages", ANCHOR)
        self._messages = ScaleMessages(self._readings.shrinking_factor) if has_messages else None
        self._history: list[dict[str, Any]] = []
        self._graph: Any = None
        self._step: Any = None
        self._runs = self._runs_read = 0

    @property
    def history(self) -> list[dict[str, Any]]:
        """The readings, a list of dicts.

        Each has `step`, the value of the graph's global step, or without one the number of runs, an int; `loss_scale`,
        a float; and, if the optimizer counts its steps, `applied_steps`, `skipped_steps` and `consecutive_skips`, ints.
        """
        return self._history

    def begin(self) -> None:
        """Build what reads the values, in the graph of the session; the session calls it."""
        self._graph = tf.compat.v1.get_default_graph()
        self._step = tf.compat.v1.train.get_global_step()
        self._readings.build()

    def after_create_session(self, session: Any, coord: Any) -> None:  # noqa: ARG002
        """Read the scale from which changes are told; the session calls it.

        Args:
            session: the session.
            coord: its coordinator.
        """
        self._read(session)

    def after_run(self, run_context: Any, run_values: Any) -> None:  # noqa: ARG002
        """Read the values every so many runs; the session calls it.

        Args:
            run_context: what has the session.
            run_values: what the run returned for this hook: nothing.
        """
        self._runs += 1
        if self._runs % self._every == 0:
            self._note(run_context.session)

    def end(self, session: Any) -> None:
        """Read the values after the last run, if that has not been done; the session calls it.

        Args:
            session: the session.
        """
        if self._runs > self._runs_read:
            self._note(session)

    def _note(self, session: Any) -> None:
        self._runs_read = self._runs
        self._history.append(self._read(session))
        if self._readings.gives_up:
            with self._graph.as_default():
                self._readings.optimizer.check_skips(session)

    def _read(self, session: Any) -> dict[str, Any]:
        # The session may be used where its graph is not the default one.
        with self._graph.as_default():
            step = self._runs if self._step is None else int(read_values({"step": self._step}, session)["step"])
            values = self._readings.read(session)
        if self._messages is not None:
            self._messages.note(values[SCALE], f"in step {step}")
        return {"step": step, **values}
