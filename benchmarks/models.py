"""Whole training steps, forward and backward and update, of small and medium-sized real models."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf_keras

from benchmarks.steps import build, minimize, momentum, scaled, two_replicas
from mpls.core.fast import group

v1 = tf.compat.v1

_CLASSES = 10


def regression(layers: Any) -> tuple[Any, Any]:
    """Return input and output of a logistic regression over 784 features: one variable of 7,840 weights."""
    inputs = layers.Input([784])
    return inputs, layers.Dense(_CLASSES, use_bias=False)(inputs)


def perceptron(
    layers: Any, features: int = 784, widths: Sequence[int] = (512, 512, 512), dtype: str = "float32"
) -> tuple[Any, Any]:
    """Return input and output of dense layers; by default three over 784 features, 0.9 M weights in 8 variables."""
    inputs = layers.Input([features], dtype=dtype)
    x = inputs
    for width in widths:
        x = layers.Dense(width, activation="relu", dtype=dtype)(x)
    return inputs, layers.Dense(_CLASSES, dtype=dtype)(x)


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


Model = Callable[[Any], tuple[Any, Any]]

MODELS: dict[str, Model] = {
    "perceptron": perceptron,
    "residual network": residual_network,
    "transformer": transformer,
}
# Where one of the quick ways is meant to help: few and tiny weights, large ones, those of half precision.
MORE_MODELS: dict[str, Model] = {
    "regression": regression,
    "controller": functools.partial(perceptron, features=8, widths=(64, 64)),
    "deep perceptron": functools.partial(perceptron, features=16, widths=(16,) * 20),
    "half perceptron": functools.partial(perceptron, dtype="float16"),
    "wide perceptron": functools.partial(perceptron, widths=(4096, 4096)),
    "wide half perceptron": functools.partial(perceptron, widths=(4096, 4096), dtype="float16"),
}
_BATCH = 16


class ModelStep:
    """A training step of a model. Weights and gradients are float32, as they are under the mixed policies too.

    Args:
        model_name: a key of `MODELS` or `MORE_MODELS`; that of a model of half precision has float16 weights.
        family: of the optimizer; models for `v1` are of tf_keras.
        candidate: `none`, `floor`, `original` or `mpls`.
        mode: `eager`, `session`, `function`, or `xla` for `tf.function(jit_compile=True)`.
        replicas: their number, one or two.
        is_dynamic: whether the scale adapts.
        settings: keyword arguments of the wrapper of mpls.
    """

    def __init__(
        self,
        model_name: str,
        family: str,
        candidate: str,
        mode: str = "function",
        *,
        replicas: int = 1,
        is_dynamic: bool = True,
        settings: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._settings = settings
        self._family, self._mode = family, mode
        self._model_name = model_name
        self.session: Any = None
        graph = tf.Graph() if mode == "session" else None
        with contextlib.ExitStack() as stack:
            if graph is not None:
                stack.enter_context(graph.as_default())
            self._strategy = two_replicas() if replicas > 1 else None
            if self._strategy is not None:
                stack.enter_context(self._strategy.scope())
            self._create(candidate, is_dynamic)
            self.step: Callable[[], Any] = self._eager_step() if graph is None else self._session_step()

    def _create(self, candidate: str, is_dynamic: bool) -> None:
        framework: Any = keras if self._family == "keras3" else tf_keras
        self._model = framework.Model(*{**MODELS, **MORE_MODELS}[self._model_name](framework.layers))
        random = np.random.default_rng(0)
        shape = [_BATCH, *self._model.input_shape[1:]]
        is_text = self._model_name == "transformer"
        features = random.integers(0, 10_000, shape) if is_text else random.random(shape, np.float32)
        self._features = tf.constant(features, self._model.inputs[0].dtype)
        self._labels = tf.constant(random.integers(0, _CLASSES, [_BATCH]))
        self._variables = self._model.trainable_variables
        self._optimizer = scaled(
            self._family, candidate, momentum(self._family), is_dynamic=is_dynamic, **self._settings
        )
        build(self._family, self._optimizer, self._variables)

    def _loss(self) -> Any:
        logits = tf.cast(self._model(self._features, training=True), tf.float32)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(self._labels, logits))

    def _once(self) -> Any:
        def in_replica() -> Any:
            return minimize(self._family, self._optimizer, self._loss, self._variables)

        return in_replica() if self._strategy is None else self._strategy.run(in_replica)

    def _eager_step(self) -> Callable[[], Any]:
        def step() -> None:
            self._once()

        return step if self._mode == "eager" else tf.function(step, jit_compile=self._mode == "xla", autograph=False)

    def _session_step(self) -> Callable[[], Any]:
        train_op = group(self._once())
        session = self.session = v1.Session()
        session.run(v1.global_variables_initializer())
        return lambda: session.run(train_op)

    def close(self) -> None:
        """Close the session, where there is one."""
        if self.session is not None:
            self.session.close()
