"""The scale and counters of an optimizer of any family, of mpls or of a framework, and their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from mpls.core.dynamic import DynamicLossScale, current_settings
from mpls.core.numbers import to_int
from mpls.core.weights import read_values
from mpls.core.wrapper_members import Counted, record_of
from mpls.errors import ArgumentTypeError, ArgumentValueError, error_text
from mpls.formats.training_history import SCALE
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
        return self._record is not None and self._record.options.max_consecutive_skips is not None

    @property
    def shrinking_factor(self) -> float:
        """The factor by which the scale shrinks, above 1; 2 where that is not known."""
        held = kept_loss_scale(self.optimizer)
        backoff = current_settings(held).settings.backoff_factor if isinstance(held, DynamicLossScale) else None
        factor = getattr(held, "multiplier", 2.0) if backoff is None else 1 / backoff
        return float(factor) if isinstance(factor, int | float) and factor > 1 else 2.0

    @property
    def times_set(self) -> int:
        """How often the program itself has set the scale, by `set_scale`, `configure` or `load_state_dict`."""
        held = getattr(self.optimizer, _MANAGER, None) or kept_loss_scale(self.optimizer)
        return int(getattr(held, "_times_set", 0))

    def tensors(self) -> dict[str, Any]:
        """Return the scale, a scalar float tensor, and the counters, scalar int64 variables, by name."""
        record = self._record
        counters = {} if record is None else {name: record._created_weight(name) for name in COUNTS}
        return {SCALE: _as_tensor(_held_scale(self.optimizer)), **counters}

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


def checked_every(value: Any, subject: str) -> int:
    """Return how often to read, a whole number of at least 1.

    Raises:
        TypeError: it is no number.
        ValueError: it is below 1, or no whole number.
    """
    every = to_int(value, f"{subject}: every")
    if isinstance(value, bool) or every < 1 or every != value:
        constraint = "be a whole number of at least 1"
        raise ArgumentValueError(error_text(f"{subject}: every", constraint, value, "every=100", ANCHOR))
    return every


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


def _as_tensor(scale: Any) -> Any:
    # The variables of Keras 3 hold those of its backend.
    scale = scale if tf.is_tensor(scale) else getattr(scale, "value", scale)
    return tf.convert_to_tensor(scale if tf.is_tensor(scale) else np.asarray(scale, np.float32))
