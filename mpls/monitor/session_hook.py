"""The hook that reads the loss scale and the counters in a monitored session of TF 1."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, SupportsInt

import tensorflow as tf

from mpls.core.numbers import to_bool, to_whole
from mpls.core.step_options import explained_arguments
from mpls.core.weights import read_values
from mpls.formats.training_history import LOSS, SCALE, STEP
from mpls.formats.wrapper_state import COUNTS
from mpls.monitor.scale_readings import ANCHOR, KeepsHistory, Readings, ScaleMessages, reading
from mpls.monitor.summaries import tag_of

_SUBJECT = "LossScaleHook"

if TYPE_CHECKING:
    _Base = object
else:
    _Base = tf.compat.v1.train.SessionRunHook


class LossScaleHook(KeepsHistory, _Base):
    """A hook of monitored sessions that reads the loss scale and the step counters after every `every` runs.

    Examples:
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

    The hook also reads the values at the end of the session. It creates all ops before the graph is finalized. If the
    optimizer has `max_consecutive_skips`, each reading calls `check_skips`.

    In `history`, `step` is the global step of the graph, or the number of runs if there is no global step. `loss` is in
    `history` if you passed it.

    Args:
        optimizer: a wrapper of `mpls.v1` or `mpls.contrib`, a wrapper of `mpls.keras` over a legacy optimizer, or
            TensorFlow's own wrapper. It may be inside a v1 optimizer such as `SyncReplicasOptimizer`.
        every: the number of runs of the session from one reading to the next.
        messages: whether to log changes of the scale to `logging.getLogger("mpls")`, one line for each change.
        loss: the loss, a scalar tensor, to add it to `history`; the hook fetches it in the same run as the step. The
            reading at the end of the session has no loss.
        summary_dir: a folder for summaries of TF 1, with the tags of `write_scalars` and `loss`. By default the hook
            writes none. If there are several processes, pass it in one of them.

    Raises:
        ValueError: `every` is not a whole number of at least 1.
        TypeError: `optimizer` is not a wrapper, `every` is not a number, or `messages` is not a bool.
        RuntimeError: in a run, a `TrainingStuckError`, if the optimizer gives up.
    """

    @explained_arguments(_SUBJECT, see=ANCHOR)
    def __init__(
        self,
        optimizer: Any,
        every: SupportsInt = 100,
        messages: bool = True,
        *,
        loss: Any = None,
        summary_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__()
        advice = 'LossScaleHook(mpls.v1.MixedPrecisionLossScaleOptimizer(opt, "dynamic"))'
        self._readings = Readings(optimizer, f"{_SUBJECT}: optimizer", advice)
        self._every = to_whole(every, f"{_SUBJECT}: every", "every=100", ANCHOR, least=1)
        has_messages = to_bool(messages, f"{_SUBJECT}: messages", ANCHOR)
        self._messages = ScaleMessages(self._readings.shrinking_factor, self._readings.floor) if has_messages else None
        self._history: list[dict[str, Any]] = []
        self._graph: Any = None
        self._step: Any = None
        self._runs = self._runs_read = 0
        self._loss = loss
        self._summary_dir = None if summary_dir is None else os.fspath(summary_dir)

    def begin(self) -> None:
        """Create the ops that read the values, in the graph of the session; the session calls it."""
        self._graph = tf.compat.v1.get_default_graph()
        self._step = tf.compat.v1.train.get_global_step()
        self._readings.build()

    def after_create_session(self, session: Any, coord: Any) -> None:  # noqa: ARG002
        """Read the initial scale; the session calls it.

        Args:
            session: the session.
            coord: its coordinator.
        """
        self._read(session)

    def before_run(self, run_context: Any) -> Any:  # noqa: ARG002
        """Return the loss to fetch in a run before a reading; the session calls it.

        Args:
            run_context: an object with the session.

        Returns:
            The tensors to fetch, or None.
        """
        if self._loss is None or (self._runs + 1) % self._every:
            return None
        return tf.compat.v1.train.SessionRunArgs(self._loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Read the values after every `every` runs; the session calls it.

        Args:
            run_context: an object with the session.
            run_values: an object with the fetched loss, if there is one.
        """
        self._runs += 1
        if self._runs % self._every == 0:
            self._note(run_context.session, run_values.results)

    def end(self, session: Any) -> None:
        """Read the values after the last run; the session calls it.

        Args:
            session: the session.
        """
        if self._runs > self._runs_read:
            self._note(session)

    def _note(self, session: Any, loss: Any = None) -> None:
        self._runs_read = self._runs
        self._history.append(self._read(session, loss))
        if self._summary_dir is not None:
            self._write(self._summary_dir, self._history[-1])
        if self._readings.gives_up:
            with self._graph.as_default():
                self._readings.optimizer.check_skips(session)

    def _read(self, session: Any, loss: Any = None) -> dict[str, Any]:
        # The session may be used where its graph is not the default one.
        with self._graph.as_default():
            step = self._runs if self._step is None else int(read_values({STEP: self._step}, session)[STEP])
            values = self._readings.read(session)
        if self._messages is not None:
            skips, times_set = values.get(COUNTS[-1]), self._readings.times_set
            self._messages.note(values[SCALE], f"in step {step}", skips, times_set)
        return reading(step, values, loss)

    def _write(self, folder: str, values: dict[str, Any]) -> None:
        v1 = tf.compat.v1
        tags = {name: name if name == LOSS else tag_of(name) for name in values if name != STEP}
        summary = [v1.Summary.Value(tag=tag, simple_value=values[name]) for name, tag in tags.items()]
        with self._graph.as_default():
            writer = v1.summary.FileWriterCache.get(folder)
        writer.add_summary(v1.Summary(value=summary), values[STEP])
        writer.flush()
