"""The callback and summaries on the JAX backend of Keras 3, in a process of its own: JAX keeps the state elsewhere."""

from __future__ import annotations

import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

import pytest

from mpls.plotting import read_course
from tests.processes import process_environment

from .events import scalars

PROGRAM = """
import csv, sys
import keras, numpy as np, tensorflow as tf
import mpls.keras
from mpls.monitor import LossScaleCallback, write_scalars

INF, FOLDER = float("inf"), sys.argv[1]
SETTINGS = {"initial_scale": 16, "dynamic_growth_steps": 3}
SCALES = [16.0, 16.0, 16.0, 32.0, 16.0, 16.0, 16.0, 32.0, 16.0]
WRAPPERS = (mpls.keras.LossScaleOptimizer, keras.optimizers.LossScaleOptimizer)
WAYS = ({}, {"run_eagerly": True}, {"jit_compile": False})

def model_of(opt, **options):
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    model.compile(opt, loss=lambda _, y: y, **options)
    return model

def fit(model, *callbacks, epochs=2):
    x = np.array([1, 1, 1, INF], np.float32).reshape(-1, 1)
    done = model.fit(x, np.zeros_like(x), batch_size=1, shuffle=False, epochs=epochs, verbose=0, callbacks=callbacks)
    return done.history

class Seen(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.logs = []

    def on_train_batch_end(self, batch, logs=None):
        self.logs.append((logs or {}).get("loss_scale"))

assert keras.backend.backend() == "jax"
for wrapper in WRAPPERS:
    for options in WAYS:
        callback, seen = LossScaleCallback(), Seen()
        model = model_of(wrapper(keras.optimizers.SGD(0.25), **SETTINGS), **options)
        assert fit(model, callback, seen)["loss_scale"] == [16.0, 16.0]
        assert seen.logs == SCALES[1:], seen.logs
        assert [each["loss_scale"] for each in callback.history] == SCALES, callback.history
        assert [each["step"] for each in callback.history] == list(range(9))

# The weights are what they are without the callback.
weights = []
for callbacks in ([], [LossScaleCallback(every=3)]):
    keras.utils.set_random_seed(1)
    model = model_of(WRAPPERS[0](keras.optimizers.SGD(0.25), **SETTINGS))
    fit(model, *callbacks)
    weights.append(model.get_weights()[0].tolist())
assert weights[0] == weights[1], weights
assert [each["step"] for each in callbacks[0].history] == [0, 3, 4, 7, 8]

callback, path = LossScaleCallback(), FOLDER + "/log.csv"
opt = WRAPPERS[0](keras.optimizers.SGD(0.25), **SETTINGS)
fit(model_of(opt), callback, keras.callbacks.CSVLogger(path), keras.callbacks.TensorBoard(FOLDER + "/tensorboard"))
callback.save(FOLDER + "/history.json")
with tf.summary.create_file_writer(FOLDER + "/scalars").as_default():
    write_scalars(opt, step=8)
with tf.summary.create_file_writer(FOLDER + "/native").as_default():
    write_scalars(model.optimizer, step=8)

model = model_of(keras.optimizers.SGD())
try:
    fit(model, LossScaleCallback())
except TypeError as error:
    assert "must scale the loss" in str(error), error
else:
    raise AssertionError("it scales nothing")
"""


@pytest.mark.programs
class JaxTest(unittest.TestCase):
    @pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax, which the extra `test` installs")
    def test_the_scale_is_shown_and_drawn(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", PROGRAM, folder]
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                env=process_environment(needs=["jax"], KERAS_BACKEND="jax", JAX_PLATFORMS="cpu"),
                timeout=240,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            courses = {name: read_course(str(pathlib.Path(folder, name))).scale for name in ("log.csv", "history.json")}
            events = {name: scalars(pathlib.Path(folder, name)) for name in ("tensorboard", "scalars", "native")}
        self.assertEqual(courses["log.csv"], [(0, 16.0), (1, 16.0)])
        self.assertEqual(events["tensorboard"]["epoch_loss_scale"], [(0, 16.0), (1, 16.0)])
        self.assertEqual([scale for _, scale in courses["history.json"]], [16, 16, 16, 32, 16, 16, 16, 32, 16])
        for name in ("scalars", "native"):
            self.assertEqual(events[name]["loss_scale"], [(8, 16.0)])
