"""Models of today's frameworks with what the recorded files lack: ops as layers, wrappers, lookups, own classes."""

from __future__ import annotations

import pathlib
import sys
import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf_keras

import mpls.keras
import mpls.v1

v1 = tf.compat.v1
WORDS = ["one", "two", "three"]


@tf_keras.utils.register_keras_serializable("fuzz")
class OldScaled(tf_keras.layers.Layer):
    """A layer of the user, who has it registered."""

    def __init__(self, factor: float = 2.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.factor = factor

    def call(self, inputs: Any) -> Any:
        return inputs * self.factor

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "factor": self.factor}


@tf_keras.utils.register_keras_serializable("fuzz")
def old_loss(y_true: Any, y_pred: Any) -> Any:
    return tf.reduce_mean(tf.abs(y_true - y_pred))


@keras.saving.register_keras_serializable("fuzz")
class NewScaled(keras.layers.Layer):
    """The same for Keras 3."""

    def __init__(self, factor: float = 2.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.factor = factor

    def call(self, inputs: Any) -> Any:
        return inputs * self.factor

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "factor": self.factor}


@keras.saving.register_keras_serializable("fuzz")
def new_loss(y_true: Any, y_pred: Any) -> Any:
    return keras.ops.mean(keras.ops.abs(y_true - y_pred))


def _ops(k: Any) -> Any:
    inputs = k.Input([4], name="inputs")
    x = k.layers.Dense(
        4, "relu", kernel_regularizer=k.regularizers.L1L2(1e-3, 1e-4), kernel_constraint=k.constraints.MaxNorm(2.0)
    )(inputs)
    if k is tf_keras:
        x = tf.concat([x[:, 1:], tf.nn.relu(x) * 2.0, tf.expand_dims(x[:, 0], -1)], axis=-1)
    else:
        x = keras.ops.concatenate([x[:, 1:], keras.ops.relu(x) * 2.0, keras.ops.expand_dims(x[:, 0], -1)], axis=-1)
    return k.Model(inputs, k.layers.Dense(1, kernel_initializer=k.initializers.Orthogonal(seed=1))(x))


def _sequential(k: Any) -> Any:
    return k.Sequential(
        [
            k.Input([6, 2]),
            k.layers.Conv1D(2, 3, activation="gelu"),
            k.layers.BatchNormalization(),
            k.layers.Dropout(0.5),
            k.layers.Flatten(),
            k.layers.Dense(1),
        ]
    )


def _recurrent(k: Any) -> Any:
    return k.Sequential(
        [
            k.Input([5, 2]),
            k.layers.Bidirectional(k.layers.LSTM(2, return_sequences=True)),
            k.layers.RNN([k.layers.GRUCell(2), k.layers.SimpleRNNCell(2)], return_sequences=True),
            k.layers.TimeDistributed(k.layers.Dense(1)),
        ]
    )


def _nested(k: Any) -> Any:
    inputs = k.Input([3])
    block = k.Sequential([k.Input([3]), k.layers.Dense(3, "tanh"), k.layers.LayerNormalization()])
    inner = k.Model(inputs, k.layers.Add()([block(inputs), inputs]))
    outer = k.Input([3])
    return k.Model(outer, k.layers.Dense(1)(inner(inner(outer))))


def _lookup(k: Any) -> Any:
    words, text = k.Input([], dtype="string"), k.Input([], dtype="string")
    found = k.layers.StringLookup(vocabulary=WORDS)(words)
    vectors = k.layers.TextVectorization(vocabulary=WORDS, output_sequence_length=2)(text)
    one, two = k.layers.Embedding(6, 2)(found), k.layers.Embedding(6, 2)(vectors)
    return k.Model([words, text], k.layers.Dense(1)(k.layers.Add()([one, k.layers.Flatten()(two)[:, :2]])))


def _custom(k: Any) -> Any:
    layer = OldScaled if k is tf_keras else NewScaled
    return k.Sequential([k.Input([3]), k.layers.Dense(2), layer(3.0), k.layers.Dense(1)])


def _options(k: Any) -> Any:
    return k.Sequential([k.Input([2]), k.layers.Dense(1)])


def _compiled(name: str, model: Any, k: Any) -> Any:
    old = k is tf_keras
    schedule = k.optimizers.schedules.ExponentialDecay(0.01, 10, 0.5)
    adam = tf_keras.optimizers.legacy.Adam if old and name in ("recurrent", "custom") else k.optimizers.Adam
    inner = k.optimizers.SGD(0.01, 0.5) if name == "nested" else adam(schedule if name == "ops" else 0.01)
    loss: Any = k.losses.Huber(delta=0.5)
    if name == "custom":
        loss = old_loss if old else new_loss
    elif name == "sequential":
        loss = "mse"
    options = OPTIONS if name == "options" else {}
    wrapped = mpls.keras.LossScaleOptimizer(inner, **options)
    model.compile(wrapped, loss, metrics=[k.metrics.MeanAbsoluteError(), "mse"])
    # Tracing, and compiling by XLA, would take longer than all else.
    tf.config.run_functions_eagerly(True)
    _train(model, name)
    tf.config.run_functions_eagerly(False)
    return model


def _train(model: Any, name: str) -> None:
    if name == "options":
        for value in (1.0, np.inf, 1.0, np.inf):
            model.train_on_batch(np.full([2, 2], value, np.float32), np.ones([2, 1], np.float32))
    elif name != "lookup":
        batch = np.ones([2, *model.input_shape[1:]], np.float32)
        model.train_on_batch(batch, np.ones([2, *model.output_shape[1:]], np.float32))


MODELS: dict[str, Callable[[Any], Any]] = {
    "ops": _ops,
    "custom": _custom,
    "lookup": _lookup,
    "recurrent": _recurrent,
    "nested": _nested,
    "sequential": _sequential,
    "options": _options,
}
FEW = ("ops", "custom", "lookup", "options")
OPTIONS: dict[str, Any] = {
    "initial_scale": "auto",
    "min_scale": 0.5,
    "max_scale": 2.0**40,
    "hysteresis": 3,
    "consecutive_hysteresis": True,
    "skip_counts_step": False,
    "track_overflows": True,
    "max_consecutive_skips": 100,
    "on_give_up": "warn",
}


def build(folder: pathlib.Path, few: bool = False) -> None:
    """Write the models in all formats, as `<folder>/<framework>.<model>.<format>`.

    Args:
        folder: an empty folder.
        few: whether some of them do.
    """
    for k in (tf_keras, keras):
        k.utils.set_random_seed(0)
        for name in FEW if few else MODELS:
            with warnings.catch_warnings():
                # They advise against the older formats, which are what is wanted.
                warnings.simplefilter("ignore")
                _save(name, _compiled(name, MODELS[name](k), k), folder / f"{k.__name__}.{name}")
    _save_session(folder / "v1.saver" / "ckpt")


def _save(name: str, model: Any, stem: pathlib.Path) -> None:
    mpls.keras.save_model(model, f"{stem}.keras")
    # Keras 3 does not load ops from H5, and neither keeps words there.
    if name != "lookup" and stem.name != "keras.ops":
        mpls.keras.save_model(model, f"{stem}.h5")
    if name in ("ops", "nested", "lookup", "options"):
        if stem.name.startswith("tf_keras"):
            mpls.keras.save_model(model, f"{stem}.folder", save_format="tf")
        tf.train.Checkpoint(model=model, optimizer=model.optimizer).write(f"{stem}.checkpoint/ckpt")


def _save_session(prefix: pathlib.Path) -> None:
    """Train in a session with options, and write its variables by a Saver."""
    with tf.Graph().as_default(), v1.Session() as session:
        variable, batch = v1.get_variable("x", [], initializer=v1.zeros_initializer()), v1.placeholder(tf.float32, [])
        optimizer = mpls.v1.MixedPrecisionLossScaleOptimizer(
            v1.train.MomentumOptimizer(0.1, 0.9),
            mpls.v1.DynamicLossScale(adjustable=True, hysteresis=2, min_scale=0.5),
            track_overflows=True,
        )
        step = optimizer.minimize((variable - batch) ** 2, v1.train.get_or_create_global_step())
        session.run(v1.global_variables_initializer())
        for value in (1.0, np.inf, 1.0):
            session.run(step, {batch: value})
        v1.train.Saver().save(session, str(prefix), write_meta_graph=False)


if __name__ == "__main__":
    build(pathlib.Path(sys.argv[1]))
