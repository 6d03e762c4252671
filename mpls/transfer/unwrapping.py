"""`host_of`: the optimizer in a wrapper, and its family. Apart from `hosts.py`, as it imports all kinds of hosts."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from mpls.errors import ArgumentTypeError, error_text
from mpls.formats.validity import ANCHOR
from mpls.transfer.get_slot_hosts import LegacyHost, V1Host
from mpls.transfer.hosts import Host
from mpls.transfer.slot_list_hosts import Keras3Host, NewHost
from mpls.upstream.keras_packages import keras_family_of, native_keras_wrappers
from mpls.upstream.optimizers import inner_of, kept_loss_scale

_HOSTS: dict[str, type[Host]] = {"legacy": LegacyHost, "new": NewHost, "keras3": Keras3Host}


def _v1_host(optimizer: Any) -> Host:
    """Return the host of a v1 optimizer; its wrapper is the outermost of those that have a loss scale."""
    layers = [optimizer]
    # The wrappers of mpls, TensorFlow and tf.contrib and SyncReplicasOptimizer wrap each other in any order.
    while (wrapped := inner_of(layers[-1])) is not None:
        layers.append(wrapped)
    scaled = [each for each in layers if "_loss_scale_manager" in vars(each) or kept_loss_scale(each) is not None]
    return V1Host((scaled or layers)[0 if scaled else -1], layers[-1])


def host_of(optimizer: Any, argument: str, *, takes_v1: bool) -> Host:
    """Return the host of a live optimizer, wrapped or not.

    Args:
        optimizer: the object that the user has passed.
        argument: the public name of the argument, for the error.
        takes_v1: whether optimizers of `tf.compat.v1.train` are allowed.

    Raises:
        TypeError: it is not an optimizer, or not of an allowed family.
    """
    inner: Any = optimizer
    if isinstance(optimizer, native_keras_wrappers()):
        inner = inner.inner_optimizer
    family = keras_family_of(inner)
    if family is not None:
        return _HOSTS[family](optimizer, inner)
    base = tf.compat.v1.train.Optimizer
    if takes_v1 and isinstance(optimizer, base):
        return _v1_host(optimizer)
    advice = "convert_state('checkpoints/ckpt-1', tf_keras.optimizers.Adam(), model.trainable_variables)"
    if isinstance(optimizer, base):
        advice = "For optimizers of tf.compat.v1.train use tf.compat.v1.train.Saver; the target must be one of Keras"
    raise ArgumentTypeError(
        error_text(argument, "be an optimizer of tf_keras or of Keras 3", optimizer, advice, ANCHOR)
    )
