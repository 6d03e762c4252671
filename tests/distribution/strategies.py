"""Strategies over two virtual devices of one machine, and what their replicas hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.conformance.devices import mirrored, one_device

MAKERS: dict[str, Callable[[], Any]] = {
    "no_strategy": tf.distribute.get_strategy,
    "mirrored": mirrored,
    "one_device": one_device,
}


def parts(strategy: Any, variable: Any) -> list[np.ndarray]:
    """Return what a variable holds: on each replica, or once where all replicas share it."""
    if isinstance(variable, keras.Variable):
        variable = variable.value
    return [np.array(part) for part in strategy.experimental_local_results(variable)]


def agreed(strategy: Any, variable: Any, what: str) -> np.ndarray:
    """Return what a variable holds on every replica; fail if replicas differ in a single bit."""
    first, *others = parts(strategy, variable)
    for replica, other in enumerate(others, start=1):
        assert first.tobytes() == other.tobytes(), f"{what}: {first!r} on replica 0, {other!r} on replica {replica}"
    return first


def replica_slice(value: Any) -> Any:
    """Return the rows of a global batch that are the calling replica's."""
    context = tf.distribute.get_replica_context()
    rows = value.shape[0] // context.num_replicas_in_sync
    index = context.replica_id_in_sync_group
    first = (index if isinstance(index, int) else tf.get_static_value(index)) * rows
    return value[first : first + rows]
