"""Models as programs build them, for what must not be refused."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

import mpls.keras

L, Input, Model = tf_keras.layers, tf_keras.Input, tf_keras.Model
Models = Iterator[tuple[str, Any]]
_SERIES, _IMAGE, _VOLUME = (6, 4), (8, 8, 3), (6, 6, 6, 2)
_WORDS = ["a", "b", "c"]
_ACTIVATIONS = (
    "elu",
    "gelu",
    "hard_sigmoid",
    "mish",
    "relu",
    "selu",
    "sigmoid",
    "softmax",
    "softplus",
    "swish",
    "tanh",
)


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
    """Yield one of each of the kinds below."""
    inputs = Input((None,), dtype="int32")
    yield "masked_lstm", Model(inputs, L.LSTM(3)(L.Embedding(9, 4, mask_zero=True)(inputs)))
    yield "text", _of(L.TextVectorization(vocabulary=_WORDS), (1,), "string")
    wrapper: Any = mpls.keras.LossScaleOptimizer
    yield "wrapped", trained(tf_keras.Sequential([L.Dense(2)]), wrapper(tf_keras.optimizers.Adam()), metrics=["mae"])


def core(_: pathlib.Path) -> Models:
    for activation in _ACTIVATIONS:
        yield activation, _of(L.Dense(2, activation), (4,))
    for name in ("Add", "Average", "Concatenate", "Maximum", "Minimum", "Multiply", "Subtract"):
        yield name, _of(getattr(L, name)(), _SERIES, number=2)
    yield "Dot", _of(L.Dot(-1), _SERIES, number=2)
    yield "Attention", _of(L.Attention(use_scale=True), _SERIES, number=2)
    yield "AdditiveAttention", _of(L.AdditiveAttention(), _SERIES, number=2)
    inputs = Input(_SERIES)
    yield "MultiHeadAttention", Model(inputs, L.MultiHeadAttention(2, 2)(inputs, inputs, use_causal_mask=True))
    for name in ("AlphaDropout", "Dropout", "GaussianDropout", "GaussianNoise", "SpatialDropout1D", "Permute"):
        yield name, _of(getattr(L, name)((2, 1) if name == "Permute" else 0.1), _SERIES)
    for name in ("BatchNormalization", "GroupNormalization", "LayerNormalization", "UnitNormalization"):
        yield name, _of(getattr(L, name)(*([2] if name[0] == "G" else [])), _SERIES)
    for name in ("ELU", "LeakyReLU", "PReLU", "ReLU", "Softmax", "ThresholdedReLU", "Masking", "Flatten"):
        yield name, _of(getattr(L, name)(), _SERIES)
    yield "EinsumDense", _of(L.EinsumDense("abc,cd->abd", (None, 5), bias_axes="d"), _SERIES)
    yield "regularized", _of(L.Dense(2, kernel_regularizer="l1_l2", kernel_constraint="non_neg"), (4,))
    yield "Lambda", _of(L.Lambda(lambda x: x * 2), (4,))


def convolutions(_: pathlib.Path) -> Models:
    shapes = {"1D": _SERIES, "2D": _IMAGE, "3D": _VOLUME}
    for dimensions, shape in shapes.items():
        for name in ("Conv{}", "Conv{}Transpose", *(["SeparableConv{}"] if dimensions != "3D" else [])):
            yield name.format(dimensions), _of(getattr(L, name.format(dimensions))(2, 2), shape)
        for name in ("MaxPool", "AveragePooling", "GlobalMaxPooling", "GlobalAveragePooling", "UpSampling"):
            yield name + dimensions, _of(getattr(L, name + dimensions)(), shape)
        for name in ("Cropping", "ZeroPadding"):
            yield name + dimensions, _of(getattr(L, name + dimensions)(), shape)
        kept = (3, *shape) if dimensions != "3D" else (2, 4, 4, 4, 2)
        yield f"ConvLSTM{dimensions}", _of(getattr(L, f"ConvLSTM{dimensions}")(2, 2), kept)
    for name in ("DepthwiseConv1D", "DepthwiseConv2D"):
        yield name, _of(getattr(L, name)(2), shapes[name[-2:]])
    for implementation in (1, 2, 3):
        yield (
            f"LocallyConnected{implementation}",
            _of(L.LocallyConnected1D(2, 2, implementation=implementation), _SERIES),
        )
    yield "BatchNormalization", _of(L.BatchNormalization(), _IMAGE)
    yield "bicubic", _of(L.UpSampling2D(interpolation="bicubic"), _IMAGE)


def recurrent(_: pathlib.Path) -> Models:
    for kind in (L.LSTM, L.GRU, L.SimpleRNN):
        yield kind.__name__, _of(kind(3), _SERIES)
        yield f"{kind.__name__}_unrolled", _of(kind(3, unroll=True), _SERIES)
        yield f"{kind.__name__}_stateful", _of(kind(3, stateful=True), _SERIES, batch_size=2)
        yield f"{kind.__name__}_ragged", _of(kind(3), (None, 4), ragged=True)
        settings = {"return_sequences": True, "go_backwards": True, "recurrent_dropout": 0.1, "dropout": 0.1}
        yield f"{kind.__name__}_settings", _of(kind(3, **settings), _SERIES)
        yield f"{kind.__name__}_bidirectional", _of(L.Bidirectional(kind(3)), _SERIES)
    yield "cells", _of(L.RNN(L.StackedRNNCells([L.LSTMCell(2), L.GRUCell(2), L.SimpleRNNCell(2)])), _SERIES)
    yield "TimeDistributed", _of(L.TimeDistributed(L.Dense(2)), (None, 4))


def preprocessing(folder: pathlib.Path) -> Models:
    vocabulary = folder / "words.txt"
    vocabulary.write_text("a\nb\nc\n")
    for mode in ("int", "multi_hot", "count", "tf_idf"):
        settings = {"output_mode": mode, "idf_weights": [0.1, 0.2, 0.3] if mode == "tf_idf" else None}
        yield f"StringLookup_{mode}", _of(L.StringLookup(vocabulary=_WORDS, **settings), (3,), "string")
        yield f"IntegerLookup_{mode}", _of(L.IntegerLookup(vocabulary=[1, 2, 3], **settings), (3,), "int64")
        yield (
            f"TextVectorization_{mode}",
            _of(L.TextVectorization(vocabulary=_WORDS, ngrams=2, **settings), (1,), "string"),
        )
    yield "lookup_of_file", _of(L.StringLookup(vocabulary=str(vocabulary)), (3,), "string")
    yield "text_of_file", _of(L.TextVectorization(vocabulary=str(vocabulary)), (1,), "string")
    for layer, data in ((L.StringLookup(), [["a"], ["b"]]), (L.TextVectorization(split="character"), [["a b"]])):
        layer.adapt(np.array(data))
        yield f"{layer.name}_adapted", _of(layer, (1,), "string")
    normalization = L.Normalization()
    normalization.adapt(np.ones((4, 3), np.float32))
    yield "Normalization", _of(normalization, (3,))
    yield "Discretization", _of(L.Discretization([0.0, 1.0], output_mode="count"), (3,))
    yield "Hashing", _of(L.Hashing(5, salt=[1, 2], mask_value=""), (3,), "string")
    yield "HashedCrossing", _of(L.HashedCrossing(5, output_mode="one_hot"), (1,), "string", 2)
    yield "CategoryEncoding", _of(L.CategoryEncoding(4, output_mode="count", sparse=True), (3,), "int64")
    for name in ("Resizing", "CenterCrop", "RandomCrop"):
        yield name, _of(getattr(L, name)(4, 4), _IMAGE)
    for name in ("Brightness", "Contrast", "Height", "Width", "Rotation", "Zoom"):
        yield name, _of(getattr(L, f"Random{name}")(0.1), _IMAGE)
    yield "RandomTranslation", _of(L.RandomTranslation(0.1, 0.1), _IMAGE)
    yield "RandomFlip", _of(L.RandomFlip(), _IMAGE)
    for how in ("nearest", "bicubic", "area", "lanczos3", "mitchellcubic"):
        yield f"Resizing_{how}", _of(L.Resizing(4, 4, interpolation=how), _IMAGE)


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


def of_ops(_: pathlib.Path) -> Models:
    inputs = Input(_SERIES)
    yield "ops", Model(inputs, tf.where(inputs > 0, tf.exp(inputs)[:, :, :1], tf.sort(inputs)))
    words = Input((), dtype="string")
    yield "strings", Model(words, tf.strings.length(tf.strings.regex_replace(tf.strings.lower(words), "a", "b")))
    sparse = Input((6,), sparse=True)
    yield "sparse", Model(sparse, L.Dense(2)(sparse))
    ragged = Input((None,), ragged=True, dtype="int32")
    yield "ragged", Model(ragged, tf.reduce_mean(L.Embedding(5, 3)(ragged), axis=1))
    signal = Input((16,))
    yield "signal", Model(signal, tf.abs(tf.signal.stft(signal, 8, 4)))
    nested = tf_keras.Sequential([L.Dense(3), tf_keras.Sequential([L.Dense(2)])])
    yield "nested", _of(nested, (4,))
    written = _Written()
    written(np.ones((1, 4), np.float32))
    yield "written", written
    yield "application", tf_keras.applications.MobileNetV3Small(weights=None)


def optimizers(_: pathlib.Path) -> Models:
    wrappers: tuple[Callable[..., Any], ...] = (mpls.keras.LossScaleOptimizer, lambda each: each)
    for family, module in (("new", tf_keras.optimizers), ("legacy", tf_keras.optimizers.legacy)):
        for name in (
            "Adadelta",
            "Adafactor",
            "Adagrad",
            "Adam",
            "AdamW",
            "Adamax",
            "Ftrl",
            "Lion",
            "Nadam",
            "RMSprop",
            "SGD",
        ):
            if hasattr(module, name):
                for number, wrapper in enumerate(wrappers):
                    optimizer = wrapper(getattr(module, name)())
                    yield f"{family}_{name}_{number}", trained(tf_keras.Sequential([L.Dense(2)]), optimizer)
    metrics = [tf_keras.metrics.AUC(), tf_keras.metrics.Precision(), tf_keras.metrics.MeanIoU(2), "mae"]
    activated = tf_keras.Sequential([L.Dense(2, activation="sigmoid")])
    yield "metrics", trained(activated, "adam", tf_keras.losses.BinaryFocalCrossentropy(), metrics=metrics)


FAMILIES = (core, convolutions, recurrent, preprocessing, of_ops, optimizers)
