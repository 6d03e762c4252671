"""Strategies over two virtual devices of one machine, and what their replicas hold."""

from __future__ import annotations

import functools
import unittest.mock
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf


@functools.cache
def mirrored() -> Any:
    return _mirrored()


@functools.cache
def mirrored_without_merge_calls() -> Any:
    """Return a strategy whose replicas aggregate by collective ops, as on GPUs in functions that XLA compiles."""
    strategy = _mirrored()
    # What TensorFlow's own test combinations do.
    strategy.extended._use_merge_call = lambda: False
    return strategy


def _mirrored() -> Any:
    # One object each for the whole process, with keys of its own: by these alone collective ops are told apart.
    tf.distribute.MirroredStrategy._collective_key_base += 30_011
    return tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])


@functools.cache
def one_device() -> Any:
    return tf.distribute.OneDeviceStrategy("/cpu:0")


@functools.cache
def central_storage(replicas: int = 2) -> Any:
    devices = [f"/cpu:{index}" for index in range(replicas)]
    return tf.distribute.experimental.CentralStorageStrategy(compute_devices=devices, parameter_device="/cpu:0")


MAKERS: dict[str, Callable[[], Any]] = {
    "no_strategy": tf.distribute.get_strategy,
    "mirrored": mirrored,
    "without_merge_calls": mirrored_without_merge_calls,
    "one_device": one_device,
    "central_storage": central_storage,
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


def quick_joins() -> Any:
    """Return a context in which strategies look every few milliseconds, not every second, whether replicas are done.

    They look once at once; threads of Python 3.13 are often not quite done by then.
    """
    wait = tf.train.Coordinator.wait_for_stop
    return unittest.mock.patch.object(
        tf.train.Coordinator, "wait_for_stop", lambda self, timeout=None: wait(self, timeout and min(timeout, 0.002))
    )
