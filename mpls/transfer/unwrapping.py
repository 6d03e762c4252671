"""Which family an optimizer is of, and what is the wrapper around it."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from mpls.errors import ArgumentTypeError, error_text
from mpls.transfer.hosts import ANCHOR, Host, Keras3Host, LegacyHost, NewHost, V1Host
from mpls.upstream import keras_family_of, native_keras_wrappers

_HOSTS: dict[str, type[Host]] = {"legacy": LegacyHost, "new": NewHost, "keras3": Keras3Host}


def _v1_host(optimizer: Any) -> Host:
    layers = [optimizer]
    # Wrappers of mpls and TensorFlow, those of tf.contrib and SyncReplicasOptimizer, in any order.
    for name in ("_optimizer", "_opt") * 3:
        wrapped = vars(layers[-1]).get(name)
        layers += [wrapped] if isinstance(wrapped, tf.compat.v1.train.Optimizer) else []
    scaled = [each for each in layers if {"_loss_scale", "_loss_scale_manager"} & set(vars(each))]
    return V1Host((scaled or layers)[0 if scaled else -1], layers[-1])


def host_of(optimizer: Any, argument: str, *, takes_v1: bool) -> Host:
    """Take a live optimizer apart.

    Args:
        optimizer: what the user passes.
        argument: the public name of it, for the error.
        takes_v1: whether it may be one of `tf.compat.v1.train`.

    Raises:
        TypeError: it is none.
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
