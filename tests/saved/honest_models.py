"""Models as programs build them, for what must not be refused."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

import mpls.keras

L, Input, Model = tf_keras.layers, tf_keras.Input, tf_keras.Model
Models = Iterator[tuple[str, Any]]
_WORDS = ["a", "b", "c"]


class Tables(tf_keras.Model):
    """A class that whoever loads it does not have, with tables: TensorFlow makes them by functions of the file."""

    def __init__(self) -> None:
        super().__init__()
        filled = tf.lookup.KeyValueTensorInitializer(["1"], [1.0])
        self.fixed = tf.lookup.StaticHashTable(filled, 0.0)
        self.mutable = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, 0.0)
        self.mutable.insert(["2"], [2.0])

    def call(self, x: Any) -> Any:
        words = tf.strings.as_string(tf.cast(x, tf.int32))
        return self.fixed.lookup(words) + self.mutable.lookup(words)


def tables() -> Any:
    model = Tables()
    model(np.ones((1, 4), np.float32))
    return model


def trained(model: Any, optimizer: Any, loss: Any = "mse", **kwargs: Any) -> Any:
    model.compile(optimizer, loss, **kwargs)
    model.fit(np.ones((4, 4), np.float32), np.ones((4, 2), np.float32), verbose=0)
    return model


def _of(layer: Any, shape: tuple[Any, ...], dtype: str = "float32", number: int = 1, **kwargs: Any) -> Any:
    inputs = [Input(shape, dtype=dtype, **kwargs) for _ in range(number)]
    return Model(inputs, layer(inputs if number > 1 else inputs[0]))


def small(_: pathlib.Path) -> Models:
    """Yield a recurrent model, one of texts, one that a user has written, and one that was trained."""
    inputs = Input((None,), dtype="int32")
    yield "masked_lstm", Model(inputs, L.LSTM(3)(L.Embedding(9, 4, mask_zero=True)(inputs)))
    yield "text", _of(L.TextVectorization(vocabulary=_WORDS), (1,), "string")
    wrapper: Any = mpls.keras.LossScaleOptimizer
    written = _Written()
    written(np.ones((1, 4), np.float32))
    yield "written", written
    yield "wrapped", trained(tf_keras.Sequential([L.Dense(2)]), wrapper(tf_keras.optimizers.Adam()), metrics=["mae"])


class _Written(tf_keras.Model):
    """What users write: loops, conditions, assertions, random numbers, a step of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.count = L.Dense(4), tf.Variable(0, trainable=False)

    @tf.function
    def call(self, x: Any, training: bool = False) -> Any:
        self.count.assign_add(1)
        y = self.dense(x)
        values = tf.TensorArray(tf.float32, 3)
        for number in tf.range(3):
            if tf.reduce_sum(x) > 0:
                values = values.write(number, tf.reduce_sum(y))
            else:
                values = values.write(number, tf.random.uniform([]))
        tf.debugging.assert_less(y, 1e9)
        return y + tf.reduce_sum(values.stack()) + tf.random.stateless_normal([4], [1, 2])

    @tf.function(input_signature=[tf.TensorSpec([1, 4])])
    def step(self, x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(self.dense(x) ** 2)
        self.dense.kernel.assign_sub(tape.gradient(loss, self.dense.kernel))
        return loss
