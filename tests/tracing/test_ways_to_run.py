"""Steps in `fit` of both Kerases, under a strategy, by XLA and of several optimizers: each is recorded once."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import mpls.v1
from mpls.comparing import read_trace
from tests.monitor.models import NATIVE, OURS, keras_of
from tests.options.trainers import FAMILIES, fixed

from .recording import recorded

INPUTS = np.random.default_rng(1).normal(size=(12, 4)).astype(np.float32)
TARGETS = INPUTS.sum(axis=1, keepdims=True)
# The second batch of three.
INPUTS[5] = np.inf
START = [np.random.default_rng(2).normal(size=(4, 1)).astype(np.float32), np.zeros(1, np.float32)]


def fitted(framework: Any, opt: Any, **settings: Any) -> list[np.ndarray]:
    model = framework.Sequential([framework.layers.Input([4]), framework.layers.Dense(1, name="dense")])
    model.set_weights(START)
    model.compile(opt, "mse", **settings)
    model.fit(INPUTS, TARGETS, batch_size=4, epochs=2, shuffle=False, verbose=0)
    return model.get_weights()


@pytest.mark.default_run("one case")
@pytest.mark.parametrize("settings", [{}, {"run_eagerly": True}, {"steps_per_execution": 3}], ids=str)
@pytest.mark.parametrize("family", ["legacy", "new", "keras3", "native_new", "native_keras3"])
def test_fit(tmp_path: pathlib.Path, family: str, settings: dict[str, Any]) -> None:
    framework, make = keras_of(family), {**OURS, **NATIVE}[family]
    path = os.fspath(tmp_path / "trace.json")
    plain = fitted(framework, make(8, 2), **settings)
    with recorded(path):
        found = fitted(framework, make(8, 2), **settings)
    for one, other in zip(plain, found, strict=True):
        np.testing.assert_array_equal(one, other)
    trace = read_trace(path)
    assert [each.name.rpartition("/")[2] for each in trace.wrappers[0].variables] == ["kernel", "bias"]
    assert [step.step for step in trace.steps] == [1, 2, 3, 4, 5, 6]
    assert [step.applied for step in trace.steps] == [True, False, True, True, False, True]
    assert [step.scale for step in trace.steps] == [8, 8, 4, 4, 8, 4]
    assert [step.counter for step in trace.steps] == [0, 1, 0, 1, 0, 0]
    norms = [float(np.linalg.norm(each.astype(np.float64))) for each in found]
    assert trace.steps[-1].variable_norms == pytest.approx(norms, rel=1e-12)
    # Unscaled, whichever the wrapper is given.
    outputs = INPUTS[:4] @ START[0]
    gradient = float(np.abs(2 * (outputs - TARGETS[:4]).mean()))
    assert trace.steps[0].gradient_norms[1] == pytest.approx(gradient, rel=1e-5)
    assert trace.steps[0].loss == pytest.approx(float(((outputs - TARGETS[:4]) ** 2).mean()), rel=1e-5)
    assert trace.wrappers[0].framework == framework.__name__


def test_functions_for_xla_run_without_it(tmp_path: pathlib.Path) -> None:
    variable = tf.Variable([1.0, 2.0])
    opt = FAMILIES["v1"](8, 2000)
    path = os.fspath(tmp_path / "trace.json")
    said: list[str] = []
    with recorded(path, said.append):

        @tf.function(jit_compile=True)
        def step() -> None:
            opt.minimize(lambda: tf.reduce_sum(variable**2), var_list=[variable])

        step()
        step()
    assert len(read_trace(path).steps) == 2
    (line,) = said
    assert "functions run without jit_compile=True" in line
    assert "the last bits of numbers may differ" in line
    assert "without XLA they draw other random numbers from the same seed, so dropout drops others" in line


def test_a_replica_with_an_overflow_is_seen(tmp_path: pathlib.Path) -> None:
    path = os.fspath(tmp_path / "trace.json")
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        variable = tf.Variable([1.0, 2.0], name="weights")
        opt = FAMILIES["v1"](8, 2000)

    def in_replica(factors: Any) -> None:
        opt.minimize(lambda: tf.reduce_sum(variable**2) * factors[0], var_list=[variable])

    with recorded(path):
        step = tf.function(lambda factors: strategy.run(in_replica, args=(factors,)))
        for second in (1.0, float("inf"), 1.0):
            factors = strategy.experimental_distribute_values_from_function(
                lambda context, second=second: tf.constant([second if context.replica_id_in_sync_group else 1.0])
            )
            step(factors)
    trace = read_trace(path)
    assert [step.step for step in trace.steps] == [1, 2, 3]
    assert [step.applied for step in trace.steps] == [True, False, True]
    # Of the second replica, while the norms are those of the first.
    assert [step.nonfinite for step in trace.steps] == [0, 2, 0]
    assert trace.steps[0].gradient_norms == pytest.approx([2 * 5**0.5])
    assert trace.steps[2].variable_norms == pytest.approx([float(np.linalg.norm(variable.numpy()))])


def test_two_optimizers_have_steps_of_their_own(tmp_path: pathlib.Path) -> None:
    path = os.fspath(tmp_path / "trace.json")
    variables = [tf.Variable(1.0, name="first"), tf.Variable(2.0, name="second")]
    opts = [FAMILIES["v1"](scale, 2000) for scale in (8, 16)]
    with recorded(path):
        for number in (0, 1, 1, 0):
            opts[number].minimize(lambda number=number: variables[number] ** 2, var_list=[variables[number]])
    trace = read_trace(path)
    assert [(step.wrapper, step.step, step.scale) for step in trace.steps] == [
        (0, 1, 8),
        (1, 1, 16),
        (1, 2, 16),
        (0, 2, 8),
    ]
    assert [each.variables[0].name for each in trace.wrappers] == ["first", "second"]


def test_sparse_gradients_are_measured_by_their_values(tmp_path: pathlib.Path) -> None:
    path = os.fspath(tmp_path / "trace.json")
    variable = tf.Variable(np.ones([4, 2], np.float32), name="table")
    opt = fixed("v1")
    with recorded(path):

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
        def step(rows: Any) -> None:
            opt.minimize(lambda: tf.reduce_sum(tf.gather(variable, rows)), var_list=[variable])

        step(tf.constant([0]))
        step(tf.constant([0, 1, 1]))
    assert [step.gradient_norms[0] for step in read_trace(path).steps] == pytest.approx([2**0.5, 6**0.5])


def test_a_subclass_is_recorded_once(tmp_path: pathlib.Path) -> None:
    class Own(mpls.v1.MixedPrecisionLossScaleOptimizer):
        def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
            halved = [(grad / 2, variable) for grad, variable in grads_and_vars]
            return super().apply_gradients(halved, *args, **kwargs)

    path = os.fspath(tmp_path / "trace.json")
    variable = tf.Variable(3.0)
    opt = Own(tf.compat.v1.train.GradientDescentOptimizer(0.5), 8)
    with recorded(path):
        opt.minimize(lambda: variable * 2, var_list=[variable])
    trace = read_trace(path)
    assert [(step.gradient_norms, step.loss) for step in trace.steps] == [((1.0,), 6.0)]
    assert trace.wrappers[0].class_name == "Own"
