"""The devices and strategies on which a training runs: the last column of the table.

A new setting is one more entry in `DEVICES`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Devices:
    """A strategy, or none.

    Attributes:
        name: part of the test ids.
        replicas: the number of replicas.
        make: returns the strategy; None for none.
        forbids_merge_calls: whether each replica's step is a function of its own, inside which replicas cannot meet
            in a `merge_call`, as where XLA compiles them for GPUs.
        ulps: by how many last bits a scaled training may differ from its control, in other modes than eager.
    """

    name: str
    replicas: int
    make: Callable[[], Any] | None = None
    forbids_merge_calls: bool = False
    ulps: int = 0


@functools.cache
def mirrored() -> tf.distribute.MirroredStrategy:
    return tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])


@functools.cache
def mirrored_without_merge_calls() -> tf.distribute.MirroredStrategy:
    # The collective ops of strategies in one process are told apart by these keys alone.
    tf.distribute.MirroredStrategy._collective_key_base += 20_011
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    # What TensorFlow's own test combinations do.
    strategy.extended._use_merge_call = lambda: False
    return strategy


@functools.cache
def mirrored_over_one() -> tf.distribute.MirroredStrategy:
    return tf.distribute.MirroredStrategy(["/cpu:0"])


@functools.cache
def central_storage(replicas: int = 2) -> Any:
    devices = [f"/cpu:{index}" for index in range(replicas)]
    return tf.distribute.experimental.CentralStorageStrategy(compute_devices=devices, parameter_device="/cpu:0")


DEVICES: dict[str, Devices] = {
    devices.name: devices
    for devices in (
        Devices("one", 1),
        Devices("two", 2, mirrored),
        # Replicas meet in collective ops, not in merge_call.
        Devices("nomerge", 2, mirrored_without_merge_calls, forbids_merge_calls=True),
        # TensorFlow orders the products of two graphs in two ways, where all is on one device.
        Devices("central2", 2, central_storage, ulps=4),
        Devices("mirrored1", 1, mirrored_over_one),
    )
}


def tf_variable(variable: Any) -> Any:
    """Return TensorFlow's variable in one of Keras 3; any other as it is."""
    return variable.value if isinstance(variable, keras.Variable) else variable
