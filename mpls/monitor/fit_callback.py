"""The callback that adds the loss scale and the counters to the logs of `fit`."""

from __future__ import annotations

import contextlib
from typing import Any, SupportsInt

import tensorflow as tf

from mpls.core.numbers import to_bool, to_whole
from mpls.core.step_options import explained_arguments
from mpls.core.weights import read_values
from mpls.errors import ArgumentTypeError, ArgumentValueError, MplsWarning, advise_user, error_text
from mpls.formats.training_history import LOSS, SCALE, STEP
from mpls.formats.wrapper_state import COUNTS
from mpls.monitor.scale_readings import ANCHOR, KeepsHistory, Readings, ScaleMessages, reading
from mpls.upstream.keras_packages import CallbackOfAnyKeras, callbacks_before, keras_graph_session

_SUBJECT = "LossScaleCallback"
# Callbacks of both Kerases that write all logs at the ends of epochs.
_WRITERS = ("CSVLogger", "History", "RemoteMonitor", "TensorBoard")


class LossScaleCallback(KeepsHistory, CallbackOfAnyKeras):
    """A callback of `Model.fit` that adds the loss scale and the step counters to the logs.

    Examples:
        >>> import tensorflow as tf
        >>> import tf_keras
        >>> import mpls.keras
        >>> import mpls.monitor
        >>> model = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(2,))])
        >>> opt = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD(), initial_scale=8, count_steps=True)
        >>> model.compile(opt, "mse")
        >>> history = model.fit(tf.ones([4, 2]), tf.ones([4, 1]), batch_size=2, epochs=2, verbose=0,
        ...                     callbacks=[mpls.monitor.LossScaleCallback()])
        >>> history.history["loss_scale"], history.history["applied_steps"]
        ([8.0, 8.0], [2, 4])

    It adds `loss_scale`, a float. If the optimizer counts its steps, it also adds the ints `applied_steps`,
    `skipped_steps` and `consecutive_skips`. Put it before `CSVLogger` and `TensorBoard` in the list of callbacks, so
    that they write these values; otherwise it warns once. Progress bars show the values too. The progress bar of
    tf_keras shows the mean over the epoch.

    If a model has several optimizers, as a GAN has, use one callback for each, with different names. If the optimizer
    has `max_consecutive_skips`, each reading calls `check_skips`.

    `history` has the readings of the last model. A later `fit` of the same model adds readings. The first reading is
    made before the first batch. `step` is the number of batches, counted from the steps that the optimizer made before.
    `loss`, after a batch, is the mean over the epoch so far.

    The model is of tf_keras or Keras 3. Its optimizer is a wrapper of mpls, or a native `LossScaleOptimizer`. You can
    use one callback for several models, one after the other.

    Args:
        every: the number of batches from one reading to the next; each reading waits for the device. The logs of other
            batches have no values.
        messages: whether to log changes of the scale to `logging.getLogger("mpls")`, one line for each change.
        optimizer: the optimizer to read; by default the optimizer of the model.
        name: a prefix for the names in the logs: `"generator"` gives `generator_loss_scale`. By default, there is no
            prefix. The names in `history` have no prefix.

    Raises:
        ValueError: `every` is not a whole number of at least 1; or, in `fit`, the callback for another optimizer has
            the same name.
        TypeError: an argument has a wrong type, or `optimizer` is not a wrapper; or, in `fit`, the optimizer of the
            model is not a wrapper.
        RuntimeError: in `fit`, a `TrainingStuckError`, if the optimizer gives up.
    """

    @explained_arguments(_SUBJECT, see=ANCHOR)
    def __init__(
        self, every: SupportsInt = 1, messages: bool = True, *, optimizer: Any = None, name: str | None = None
    ) -> None:
        super().__init__()
        advice = "Pass the wrapper: optimizer=mpls.keras.LossScaleOptimizer(optimizer)"
        self._given = None if optimizer is None else Readings(optimizer, f"{_SUBJECT}: optimizer", advice)
        if name is not None and not isinstance(name, str):
            raise ArgumentTypeError(error_text(f"{_SUBJECT}: name", "be a string", name, 'name="generator"', ANCHOR))
        self.name = name
        self._has_told_of_order = False
        self._every = to_whole(every, f"{_SUBJECT}: every", "every=100", ANCHOR, least=1)
        self._has_messages = to_bool(messages, f"{_SUBJECT}: messages", ANCHOR)
        self._readings: Readings | None = None
        self._messages: ScaleMessages | None = None
        self._epoch, self._due = 0, self._every
        self._history: list[dict[str, Any]] = []
        self._watched: Any = None
        # The number of batches before the current epoch, and so far.
        self._step_before = self._step = 0

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002
        """Look at the optimizer; `fit` calls it.

        Args:
            logs: a dict, or None.
        """
        self._readings = self._given
        if self._readings is None:
            optimizer = getattr(self.model, "optimizer", None)
            advice = (
                "model.compile(mpls.keras.LossScaleOptimizer(optimizer)), or where the model has several optimizers "
                'LossScaleCallback(optimizer=model.d_optimizer, name="d")'
            )
            self._readings = Readings(optimizer, f"{_SUBJECT}: the optimizer of the model", advice)
        self._look_at_others(self._readings)
        self._messages = (
            ScaleMessages(self._readings.shrinking_factor, self._readings.floor) if self._has_messages else None
        )
        values = self._read("before the first step", self._readings)
        if self._watched is not self.model:
            self._watched, self._step = self.model, self._steps_taken(values)
            self._history = [reading(self._step, values)]

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Count batches anew; `fit` calls it.

        Args:
            epoch: its number, from 0.
            logs: a dict, or None.
        """
        self._epoch, self._due, self._step_before = epoch, self._every, self._step

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Add the values to the logs, every so many batches; `fit` calls it.

        Args:
            batch: its number in the epoch, from 0; with `steps_per_execution`, that of the last one.
            logs: a dict, which is changed, or None.
        """
        trained = int(batch) + 1
        if steps := (self.params or {}).get("steps"):
            # With several steps per execution, Keras 3 counts on where the data has ended.
            trained = min(trained, steps)
        self._step = self._step_before + trained
        if trained >= self._due and self._readings is not None:
            self._due = trained - trained % self._every + self._every
            self._note(f"in epoch {self._epoch + 1}, batch {trained}", logs, self._readings)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Add the values to the logs of the epoch; `fit` calls it.

        Args:
            epoch: its number, from 0.
            logs: a dict, which is changed, or None.
        """
        if self._readings is not None:
            self._note(f"in epoch {epoch + 1}", logs, self._readings)

    @property
    def _prefix(self) -> str:
        return f"{self.name}_" if self.name else ""

    def _look_at_others(self, readings: Readings) -> None:
        """Refuse another optimizer of the same name; warn if a callback before this one reads the logs."""
        before = callbacks_before(self)
        for each in before:
            is_alike = isinstance(each, LossScaleCallback) and each.name == self.name and each._readings is not None
            if is_alike and each._readings.optimizer is not readings.optimizer:
                advice = 'LossScaleCallback(optimizer=model.d_optimizer, name="d")'
                constraint = "differ from that of a callback for another optimizer"
                raise ArgumentValueError(error_text(f"{_SUBJECT}: name", constraint, self.name, advice, ANCHOR))
        readers = [type(each).__name__ for each in before if self._misses(each)]
        if readers and not self._has_told_of_order:
            self._has_told_of_order = True
            advise_user(
                f"{_SUBJECT}: it must stand before the callbacks that read the logs, which else do not see "
                f"{self._prefix}{SCALE}; got it after {', '.join(readers)}. "
                f"model.fit(..., callbacks=[{_SUBJECT}(), {readers[0]}(...)]). See mpls docs {ANCHOR}",
                MplsWarning,
            )

    def _misses(self, callback: Any) -> bool:
        """Return whether a callback before this one writes the logs, or decides by a value that this one adds."""
        names = [self._prefix + name for name in (SCALE, *COUNTS)]
        return getattr(callback, "monitor", None) in names or any(
            each.__name__ in _WRITERS for each in type(callback).__mro__
        )

    def _note(self, where: str, logs: Any, readings: Readings) -> None:
        values = self._read(where, readings)
        # The last batch of an epoch was read already, if it was due.
        is_new = self._step > self._history[-1][STEP]
        if is_new:
            self._history.append(reading(self._step, values, (logs or {}).get(LOSS)))
        if logs is not None:
            logs.update({self._prefix + key: value for key, value in values.items()})
        # An eager step has called `check_skips` itself.
        if is_new and readings.gives_up and not getattr(self.model, "run_eagerly", False):
            with self._scope():
                readings.optimizer.check_skips()

    def _read(self, where: str, readings: Readings) -> dict[str, Any]:
        if hasattr(self.model, "jax_state_sync"):
            # On JAX, Keras 3 keeps the state of variables elsewhere while it trains.
            self.model.jax_state_sync()
        with self._scope():
            values = readings.read(None if tf.executing_eagerly() else keras_graph_session())
        if self._messages is not None:
            whose = f"of {self.name} " if self.name else ""
            self._messages.note(values[SCALE], whose + where, values.get(COUNTS[-1]), readings.times_set)
        return values

    def _steps_taken(self, values: dict[str, Any]) -> int:
        """Return the number of steps that the optimizer has taken before."""
        if COUNTS[0] in values:
            return int(values[COUNTS[0]]) + int(values[COUNTS[1]])
        session = None if tf.executing_eagerly() else keras_graph_session()
        optimizer = self.model.optimizer if self._given is None else self._given.optimizer
        return int(read_values({STEP: optimizer.iterations}, session)[STEP])

    def _scope(self) -> Any:
        """Return the scope of the model's strategy, in which variables are to be made that do not exist yet."""
        strategy = getattr(self.model, "distribute_strategy", None)
        return contextlib.nullcontext() if strategy is None else strategy.scope()
