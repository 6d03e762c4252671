"""A run that changes its Keras: a model, trained by `fit`, and its copy in the other Keras."""

from __future__ import annotations

import json
import tempfile
import unittest
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls
import mpls.keras
from tests.processes import process_environment, run_python
from tests.transfer.training import PAIRS, assert_close, optimizer

X = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
Y = np.random.default_rng(1).normal(size=(8, 2)).astype(np.float32)


def model(family: str, weights: Any = None) -> Any:
    module: Any = keras if family == "keras3" else tf_keras
    layers = [module.layers.Dense(4, activation="tanh", name="hidden"), module.layers.Dense(2, name="output")]
    made = module.Sequential([module.Input((4,)), *layers])
    if weights is not None:
        made.set_weights(weights)
    return made


def fit(trained: Any, optimizer: Any, epochs: int) -> Any:
    trained.compile(optimizer, loss="mse")
    return trained.fit(X, Y, batch_size=4, epochs=epochs, shuffle=False, verbose=0).history["loss"]


class FitTest(unittest.TestCase):
    START = tuple(np.random.default_rng(2).normal(size=shape) for shape in ((4, 4), (4,), (4, 2), (2,)))

    @parameterized.expand([(f"{a}_to_{b}", a, b) for a, b in PAIRS if a != b])
    # Only a new optimizer of tf_keras raises an AttributeError if it is asked for a variable of Keras 3.
    @pytest.mark.default_run("each value", by=lambda label, *pair: (label == "new_to_keras3",))
    def test_goes_on(self, label: str, a: str, b: str) -> None:
        def scaled(family: str) -> Any:
            inner = optimizer(family, "Adam", 0.05)
            return mpls.keras.LossScaleOptimizer(inner, initial_scale=64.0, dynamic_growth_steps=3)

        control, whole = model(a, self.START), scaled(a)
        losses = fit(control, whole, 4)
        first, source = model(a, self.START), scaled(a)
        fit(first, source, 2)
        second, target = model(b, first.get_weights()), scaled(b)
        # Not compiled yet, and not built; names tell which variable is which.
        variables = list(reversed(second.trainable_variables))
        report = mpls.convert_state(source, target, variables)
        self.assertEqual((report.iterations, report.loss_scale), (4, (128.0, 1)))
        names = [each.path if b == "keras3" else each.name.removesuffix(":0") for each in variables]
        self.assertEqual([name for name, _ in report.slots], names)
        np.testing.assert_allclose(fit(second, target, 2), losses[2:], rtol=1e-4)
        assert_close(second.get_weights(), control.get_weights(), rtol=2e-5)
        self.assertEqual(float(target.loss_scale), float(whole.loss_scale))


PROGRAM = """
import json
import keras, numpy as np, tensorflow as tf, tf_keras
import mpls, mpls.keras

weight = tf.Variable([1.0, 2.0], name="w")
old = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.legacy.Nadam(0.1, schedule_decay=1.0), initial_scale=64.0)
own = keras.Variable(np.ones(2), name="w")
new = mpls.keras.LossScaleOptimizer(keras.optimizers.Nadam(0.1))

def grads(step):
    return np.array([0.5 + step, -1.0], np.float32)

def step_old(step):
    scaled = old.get_scaled_loss(tf.constant(grads(step)))
    old.apply_gradients([(old.get_unscaled_gradients([scaled])[0], weight)])

for step in range(4):
    step_old(step)
own.assign(weight.numpy())
report = mpls.convert_state(old, new, [own], source_variables=[weight])
for step in range(4, 7):
    step_old(step)
    new.apply([new.scale_loss(keras.ops.convert_to_tensor(grads(step)))], [own])
back = tf_keras.optimizers.Nadam(0.1)
again = mpls.convert_state(new, back, [tf.Variable([0.0, 0.0], name="w")], source_variables=[own])
print(json.dumps([weight.numpy().tolist(), own.numpy().tolist(), int(new.step_counter.numpy()), again.iterations]))
"""


class JaxTest(unittest.TestCase):
    @pytest.mark.programs
    def test_into_keras_3_on_jax_and_back(self) -> None:
        pytest.importorskip("jax", reason="needs jax, which the extra `test` installs")
        with tempfile.TemporaryDirectory() as folder:
            settings = process_environment(needs=["jax"], KERAS_BACKEND="jax")
            done = run_python("-c", PROGRAM, folder=folder, environment=settings)
        self.assertEqual(done.returncode, 0, done.stderr)
        wanted, found, counter, iterations = json.loads(done.stdout.splitlines()[-1])
        np.testing.assert_allclose(found, wanted, rtol=2e-6)
        self.assertEqual((counter, iterations), (7, 7))


class GraphTest(unittest.TestCase):
    def test_a_graph_is_refused(self) -> None:
        with tf.Graph().as_default(), self.assertRaisesRegex(RuntimeError, "Save what is in the graph"):
            mpls.convert_state(tf.compat.v1.train.AdamOptimizer(), optimizer("legacy", "Adam"), [])
