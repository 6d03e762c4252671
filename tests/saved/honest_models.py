"""Models as programs build them, for what must not be refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

L = tf_keras.layers


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


def small() -> Iterator[tuple[str, Any]]:
    """Yield a recurrent model, one of texts, and one that a user has written."""
    numbers, words = tf_keras.Input((None,), dtype="int32"), tf_keras.Input((1,), dtype="string")
    embedded = L.Embedding(9, 4, mask_zero=True)(numbers)
    yield "masked_lstm", tf_keras.Model(numbers, L.LSTM(3)(embedded))
    yield "text", tf_keras.Model(words, L.TextVectorization(vocabulary=["a", "b", "c"])(words))
    written = _Written()
    written(np.ones((1, 4), np.float32))
    yield "written", written


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
