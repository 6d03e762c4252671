"""Reading an optimizer during training: its scale and counters, the history of them, and messages about them."""

from __future__ import annotations

import json
import logging
import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from mpls.core.dynamic import DynamicLossScale, current_settings
from mpls.core.weights import read_values
from mpls.core.wrapper_members import Counted, record_of
from mpls.errors import ArgumentTypeError, error_text
from mpls.formats.training_history import LOSS, SCALE, STEP
from mpls.formats.wrapper_state import COUNTS, STATE_OF_KERAS_3
from mpls.upstream.keras_packages import native_keras_wrappers
from mpls.upstream.optimizers import inner_of, kept_loss_scale

ANCHOR = "monitoring"
_MANAGER = "_loss_scale_manager"


class Readings:
    """Reads an optimizer.

    Args:
        optimizer: one that scales the loss, or a v1 optimizer around one.
        subject: the public name and the argument, for the error.
        advice: what to write instead, for the error.

    Raises:
        ArgumentTypeError: it scales nothing.
    """

    def __init__(self, optimizer: Any, subject: str, advice: str) -> None:
        found = optimizer
        while found is not None and not _scales(found):
            found = inner_of(found)
        if found is None:
            raise ArgumentTypeError(error_text(subject, "scale the loss", optimizer, advice, ANCHOR))
        self.optimizer = found
        self._record = record_of(found)
        self._built: dict[str, Any] | None = None

    @property
    def gives_up(self) -> bool:
        """Whether the optimizer gives up after too many skipped steps."""
        return self._record is not None and self._record.gives_up

    @property
    def shrinking_factor(self) -> float:
        """The factor by which the scale shrinks, above 1; 2 where that is not known."""
        held = kept_loss_scale(self.optimizer)
        backoff = current_settings(held).settings.backoff_factor if isinstance(held, DynamicLossScale) else None
        factor = getattr(held, "multiplier", 2.0) if backoff is None else 1 / backoff
        return float(factor) if isinstance(factor, int | float) and factor > 1 else 2.0

    @property
    def floor(self) -> float:
        """The scale below which it does not fall; 0 where that is not known."""
        manager = getattr(self.optimizer, _MANAGER, None)
        held = kept_loss_scale(self.optimizer)
        settings = current_settings(held).settings if isinstance(held, DynamicLossScale) else None
        return float(getattr(getattr(manager, "_bounds", settings), "min_scale", 0.0))

    @property
    def times_set(self) -> int:
        """How often the program itself has set the scale, by `set_scale`, `configure` or `load_state_dict`."""
        held = getattr(self.optimizer, _MANAGER, None) or kept_loss_scale(self.optimizer)
        return int(getattr(held, "_times_set", 0))

    def tensors(self) -> dict[str, Any]:
        """Return the scale, a scalar float tensor, and the counters, scalar integer tensors, by name."""
        record = self._record
        counters = {} if record is None else {name: _as_tensor(record.counter(name), np.int64) for name in COUNTS}
        return {SCALE: _as_tensor(_held_scale(self.optimizer), np.float32), **counters}

    def build(self) -> None:
        """In a v1 graph, build the tensors that `read` needs, so that the graph can be finalized afterwards."""
        self._built = self.tensors()

    def read(self, session: Any = None) -> dict[str, Any]:
        """Return the scale, a Python float, and the counters, Python ints, by name.

        Args:
            session: in a v1 graph, the session that has the variables.
        """
        if tf.executing_eagerly():
            values = read_values(self.tensors(), None)
        else:
            if self._built is None:
                self.build()
            values = read_values(self._built or {}, session)
        return {name: float(value) if name == SCALE else int(value) for name, value in values.items()}


def _scales(optimizer: Any) -> bool:
    if hasattr(optimizer, _MANAGER) or isinstance(optimizer, native_keras_wrappers()):
        return True
    return kept_loss_scale(optimizer) is not None


def _held_scale(optimizer: Any) -> Any:
    """Return the current scale: a tensor, a variable or a number; 1 where the loss is not scaled."""
    if isinstance(optimizer, Counted) and not optimizer.enabled:
        return 1.0
    manager = getattr(optimizer, _MANAGER, None)
    if manager is not None:
        return manager.get_loss_scale()
    held = kept_loss_scale(optimizer)
    if held is None:
        # Keras 3's own wrapper makes its variables when it is built.
        held = getattr(optimizer, STATE_OF_KERAS_3[0], optimizer.initial_scale)
    return held() if callable(held) else held


def _as_tensor(value: Any, dtype: Any) -> Any:
    # The variables of Keras 3 hold those of its backend.
    value = value if tf.is_tensor(value) else getattr(value, "value", value)
    return tf.convert_to_tensor(value if tf.is_tensor(value) else np.asarray(value, dtype))


def reading(step: int, values: Mapping[str, Any], loss: Any = None) -> dict[str, Any]:
    """Return an entry of a history.

    Args:
        step: number of steps so far.
        values: the loss scale and counters, Python numbers, by name.
        loss: the loss, a number or a scalar tensor; None if it is not known.
    """
    return {STEP: step, **values, **({} if loss is None else {LOSS: float(loss)})}


class KeepsHistory:
    """Mixin for callbacks and hooks that read an optimizer during training: the readings, and their file."""

    _history: list[dict[str, Any]]

    @property
    def history(self) -> list[dict[str, Any]]:
        """The readings, a list of dicts, in the order of the steps.

        Each reading has the int `step` and the float `loss_scale`. If the optimizer counts its steps, it has the ints
        `applied_steps`, `skipped_steps` and `consecutive_skips`. If the loss is known, it has the float `loss`.
        """
        return self._history

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the history as JSON, which `mpls plot` draws.

        Args:
            path: the file; an existing one is replaced. It has a list of objects; a number that is not finite is null.

        Raises:
            OSError: it cannot be written.
        """
        lines = [
            json.dumps(
                {
                    name: None if isinstance(value, float) and not math.isfinite(value) else value
                    for name, value in each.items()
                },
                allow_nan=False,
            )
            for each in self._history
        ]
        pathlib.Path(path).write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


# Falls in a row from which on the log warns, and then again at each doubling of them.
_MANY_FALLS = 3
# Steps skipped in a row, while the scale stays, from which on the log warns, and then again at each doubling.
_MANY_SKIPS = 10
_LOGGER = logging.getLogger("mpls")
_STUCK = "the-scale-is-stuck-at-its-floor"


class ScaleMessages:
    """Logs changes of a scale to the logger `mpls`.

    Args:
        factor: by which the scale shrinks, above 1; it tells how often it has fallen between two readings.
        floor: the scale below which it does not fall.
    """

    def __init__(self, factor: float = 2.0, floor: float = 0.0) -> None:
        self._factor = factor
        self._floor = floor
        self._has_told_of_floor = False
        self._last: float | None = None
        self._top = 0.0
        self._falls = 0
        self._warns_at = _MANY_FALLS
        self._warns_at_skips = _MANY_SKIPS
        self._skips_at_change = 0
        self._times_set = 0

    def note(self, scale: float, where: str, consecutive_skips: int | None = None, times_set: int = 0) -> None:
        """Log a line if the scale has changed since the last call, or stays while many steps are skipped.

        Args:
            scale: the scale now.
            where: when it was read, for the line: `"in step 100"`.
            consecutive_skips: steps skipped since the last applied one; None if they are not counted.
            times_set: how often the program itself has set the scale so far.
        """
        before, self._last = self._last, scale
        was_set, self._times_set = times_set != self._times_set, times_set
        skips = consecutive_skips or 0
        if before is None or scale == before or (math.isnan(scale) and math.isnan(before)):
            self._skips_at_change = min(self._skips_at_change, skips)
            self._note_skips(scale, where, skips - self._skips_at_change)
            return
        self._skips_at_change = skips
        change = f"loss scale {before:g} -> {scale:g} {where}"
        if was_set:
            self._falls, self._warns_at = 0, _MANY_FALLS
            _LOGGER.info("%s: the program has set it since the last reading.", change)
            return
        if scale > before:
            self._falls, self._warns_at = 0, _MANY_FALLS
            _LOGGER.info("%s: gradients were finite for many steps, so it grows. This is normal.", change)
            return
        if self._falls == 0:
            self._top = before
        self._falls += self._falls_between(before, scale)
        if scale <= self._floor and self._falls >= _MANY_FALLS and not self._has_told_of_floor:
            self._has_told_of_floor = True
            _LOGGER.warning(
                "%s: it has reached its floor, from %g. If gradients stay infinite or NaN, every further step is "
                "skipped: max_consecutive_skips=20 stops then, and says why. See mpls docs %s",
                change,
                self._top,
                _STUCK,
            )
        elif self._falls >= self._warns_at:
            while self._warns_at <= self._falls:
                self._warns_at *= 2
            _LOGGER.warning(
                f"{change}: it has fallen {self._falls} times in a row, from {self._top:g}. In the first steps this "
                "only means that it started too high. Later, gradients that stay infinite or NaN are a fault of the "
                "model or its input: track_overflows=True says of which variables, max_consecutive_skips when to stop. "
                f"See mpls docs {_STUCK}"
            )
        else:
            _LOGGER.info(
                "%s: gradients were not finite, and the step was skipped. This is normal: every growth ends in one "
                "skipped step once the scale is at its limit, and a scale that starts too high falls to it.",
                change,
            )

    def _note_skips(self, scale: float, where: str, skips: int) -> None:
        if skips < self._warns_at_skips:
            self._warns_at_skips = _MANY_SKIPS if skips < _MANY_SKIPS else self._warns_at_skips
            return
        while self._warns_at_skips <= skips:
            self._warns_at_skips *= 2
        _LOGGER.warning(
            f"loss scale stays at {scale:g} {where}, and the last {skips} steps were all skipped, so nothing is "
            "learned. Gradients that stay infinite or NaN are a fault of the model or its input, or the scale may not "
            "fall any more: track_overflows=True says of which variables, max_consecutive_skips when to stop. "
            f"See mpls docs {_STUCK}"
        )

    def _falls_between(self, before: float, scale: float) -> int:
        if not (scale > 0 and math.isfinite(before)):
            return 1
        return max(1, round(math.log(before / scale, self._factor)))
