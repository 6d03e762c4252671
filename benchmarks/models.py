"""Whole training steps of small real models: a perceptron, a residual network, a transformer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf_keras

from benchmarks.steps import build, minimize, momentum, scaled

_CLASSES = 10


def perceptron(layers: Any) -> tuple[Any, Any]:
    """Return input and output of three dense layers over 784 features: 0.9 M weights in 8 variables."""
    inputs = layers.Input([784])
    x = inputs
    for width in (512, 512, 512):
        x = layers.Dense(width, activation="relu")(x)
    return inputs, layers.Dense(_CLASSES)(x)


def residual_network(layers: Any) -> tuple[Any, Any]:
    """Return input and output of a residual network of 20 layers for images of 32 by 32: 0.27 M weights."""
    inputs = layers.Input([32, 32, 3])
    x = _convolved(layers, inputs, 16)
    for stage, width in enumerate((16, 32, 64)):
        for block in range(3):
            strides = 2 if stage and not block else 1
            shortcut = layers.Conv2D(width, 1, strides)(x) if strides == 2 else x
            x = _convolved(layers, layers.ReLU()(_convolved(layers, x, width, strides)), width)
            x = layers.ReLU()(layers.Add()([x, shortcut]))
    return inputs, layers.Dense(_CLASSES)(layers.GlobalAveragePooling2D()(x))


def _convolved(layers: Any, x: Any, width: int, strides: int = 1) -> Any:
    return layers.BatchNormalization()(layers.Conv2D(width, 3, strides, padding="same", use_bias=False)(x))


def transformer(layers: Any) -> tuple[Any, Any]:
    """Return input and output of four encoder layers over 32 tokens, 128 wide, with an embedding of 10,000 rows."""
    inputs = layers.Input([32], dtype="int32")
    x = layers.Embedding(10_000, 128)(inputs)
    for _ in range(4):
        attended = layers.MultiHeadAttention(4, 32)(x, x)
        x = layers.LayerNormalization()(layers.Add()([x, attended]))
        hidden = layers.Dense(512, activation="relu")(x)
        x = layers.LayerNormalization()(layers.Add()([x, layers.Dense(128)(hidden)]))
    return inputs, layers.Dense(_CLASSES)(layers.GlobalAveragePooling1D()(x))


MODELS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "perceptron": perceptron,
    "residual network": residual_network,
    "transformer": transformer,
}
_BATCH = 16


def model_step(model_name: str, family: str, candidate: str) -> Callable[[], Any]:
    """Return a training step of a model, a `tf.function`.

    Weights and gradients are float32, as they are under the mixed policies too.

    Args:
        model_name: a key of `MODELS`.
        family: of the optimizer; models for `v1` are of tf_keras.
        candidate: `none`, `floor`, `original` or `mpls`.
    """
    framework: Any = keras if family == "keras3" else tf_keras
    model = framework.Model(*MODELS[model_name](framework.layers))
    random = np.random.default_rng(0)
    shape = [_BATCH, *model.input_shape[1:]]
    is_text = model_name == "transformer"
    features = tf.constant(random.integers(0, 10_000, shape) if is_text else random.random(shape, np.float32))
    labels = tf.constant(random.integers(0, _CLASSES, [_BATCH]))
    variables = model.trainable_variables
    optimizer = scaled(family, candidate, momentum(family))
    build(family, optimizer, variables)

    def loss() -> Any:
        logits = model(features, training=True)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))

    def step() -> None:
        minimize(family, optimizer, loss, variables)

    return tf.function(step, autograph=False)
