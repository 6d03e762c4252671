"""Recording changes no number of a run, and what it records is what the run computes."""

from __future__ import annotations

import json
import os
import pathlib
import zlib
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import mpls.contrib
import mpls.keras
import mpls.v1
from mpls.comparing import Trace, read_trace
from mpls.tracing import LARGE, digest_of
from tests.options.trainers import unscaled

from .recording import recorded

v1 = tf.compat.v1
# The loss is multiplied by each; the gradients of one overflow.
FACTORS = (1.0, 0.5, float("inf"), 2.0, 1.0, 0.25)
START = np.random.default_rng(1).normal(size=(8, 4)).astype(np.float32)
BIAS = np.linspace(-1, 1, 4).astype(np.float32)
INPUTS = np.random.default_rng(2).normal(size=(6, 8)).astype(np.float32)


def loss_of(kernel: Any, bias: Any, factor: Any) -> Any:
    return tf.reduce_mean(tf.nn.relu(tf.matmul(INPUTS, kernel) + bias) ** 2) * factor


def scale_of(module: Any) -> Any:
    return module.DynamicLossScale(8, 2)


V1 = {
    "mpls.v1": lambda: mpls.v1.MixedPrecisionLossScaleOptimizer(v1.train.AdamOptimizer(0.1), scale_of(mpls.v1)),
    "mpls.contrib": lambda: mpls.contrib.LossScaleOptimizer(
        v1.train.AdamOptimizer(0.1),
        mpls.contrib.ExponentialUpdateLossScaleManager(8, 2, decr_every_n_nan_or_inf=1, decr_ratio=0.5),
    ),
    "tf.compat.v1": lambda: v1.mixed_precision.MixedPrecisionLossScaleOptimizer(
        v1.train.AdamOptimizer(0.1), scale_of(v1.mixed_precision)
    ),
}
SETTINGS = {"initial_scale": 8, "dynamic_growth_steps": 2}
NATIVE = tf_keras.mixed_precision.LossScaleOptimizer
KERAS = {
    "mpls.keras legacy": lambda: mpls.keras.LossScaleOptimizer(tf_keras.optimizers.legacy.Adam(0.1), **SETTINGS),
    "mpls.keras new": lambda: mpls.keras.LossScaleOptimizer(tf_keras.optimizers.Adam(0.1), **SETTINGS),
    "mpls.keras Keras 3": lambda: mpls.keras.LossScaleOptimizer(keras.optimizers.Adam(0.1), **SETTINGS),
    "tf_keras legacy": lambda: NATIVE(tf_keras.optimizers.legacy.Adam(0.1), **SETTINGS),
    "tf_keras new": lambda: NATIVE(tf_keras.optimizers.Adam(0.1), **SETTINGS),
}
Weights = list[np.ndarray]


def in_session(make: Callable[[], Any]) -> Weights:
    # TensorFlow's own does not work with reference variables where control flow is that of TF 2.
    takes_references = make is not V1["tf.compat.v1"]
    with tf.Graph().as_default():
        kernel = v1.get_variable("kernel", initializer=START, use_resource=True)
        bias = v1.get_variable("bias", initializer=BIAS, use_resource=not takes_references)
        factor = v1.placeholder(tf.float32, [])
        step = make().minimize(loss_of(kernel, bias, factor), v1.train.get_or_create_global_step())
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for each in FACTORS:
                session.run(step, {factor: each})
            return session.run([kernel, bias])


def in_eager_mode(make: Callable[[], Any]) -> Weights:
    return _by_calls(make, lambda step: step)


def in_function(make: Callable[[], Any]) -> Weights:
    return _by_calls(make, tf.function)


def _by_calls(make: Callable[[], Any], wrap: Callable[[Any], Any]) -> Weights:
    opt = make()
    kind = keras.Variable if isinstance(opt, keras.optimizers.Optimizer) else tf.Variable
    kernel, bias = kind(START, name="kernel"), kind(BIAS, name="bias")
    variables = [kernel, bias]
    if not isinstance(opt, v1.train.Optimizer):
        opt.build(variables) if hasattr(opt, "build") else opt._create_all_weights(variables)

    def step(factor: Any) -> None:
        if isinstance(opt, v1.train.Optimizer):
            opt.minimize(lambda: loss_of(kernel, bias, factor), var_list=variables)
            return
        grads = unscaled(opt, lambda: loss_of(*map(tf.convert_to_tensor, variables), factor), variables)
        opt.apply_gradients(zip(grads, variables, strict=True))

    wrapped = wrap(step)
    for each in FACTORS:
        wrapped(tf.constant(each))
    return [np.asarray(each) for each in variables]


CASES = [
    *((name, make, run) for name, make in V1.items() for run in (in_session, in_eager_mode, in_function)),
    *((name, make, run) for name, make in KERAS.items() for run in (in_eager_mode, in_function)),
]
# Its ops are made for graphs.
CASES = [case for case in CASES if case[0] != "mpls.contrib" or case[2] is in_session]


def checked(trace: Trace, weights: Weights) -> None:
    """Check a trace of all steps by what is known of them."""
    assert [step.step for step in trace.steps] == [1, 2, 3, 4, 5, 6]
    assert [step.applied for step in trace.steps] == [factor < 9 for factor in FACTORS]
    assert [step.scale for step in trace.steps] == [8, 8, 16, 8, 8, 16]
    assert [step.counter for step in trace.steps] == [0, 1, 0, 0, 1, 0]
    assert [(step.scale_after, step.counter_after) for step in trace.steps[:3]] == [(8, 1), (16, 0), (8, 0)]
    assert [bool(step.nonfinite) for step in trace.steps] == [factor > 9 for factor in FACTORS]
    assert [variable.shape for variable in trace.wrappers[0].variables] == [(8, 4), (4,)]
    last = trace.steps[-1]
    assert last.variable_norms == pytest.approx(
        [np.linalg.norm(each.astype(np.float64)) for each in weights], rel=1e-12
    )
    sums = [zlib.crc32(each.tobytes()) for each in weights]
    assert last.variables_digest == f"{zlib.crc32(np.array(sums, '<u4').tobytes()):08x}"
    # The first step's, computed in float64.
    with tf.GradientTape() as tape:
        kernel, bias = tf.constant(START), tf.constant(BIAS)
        tape.watch([kernel, bias])
        loss = loss_of(kernel, bias, FACTORS[0])
    norms = [float(np.linalg.norm(each.numpy())) for each in tape.gradient(loss, [kernel, bias])]
    assert trace.steps[0].gradient_norms == pytest.approx(norms, rel=1e-5)
    assert trace.steps[0].loss == pytest.approx(float(loss), rel=1e-6)


@pytest.mark.parametrize(("name", "make", "run"), CASES, ids=lambda each: getattr(each, "__name__", str(each)))
@pytest.mark.parametrize("options", [{"every": 1}, {}], ids=["every step", "as by default"])
@pytest.mark.default_run("each value")
def test_the_bits_are_the_same(
    tmp_path: pathlib.Path, name: str, make: Any, run: Callable[[Any], Weights], options: dict[str, Any]
) -> None:
    path = os.fspath(tmp_path / "trace.json")
    plain = run(make)
    with recorded(path, **options):
        found = run(make)
    for one, other in zip(plain, found, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(found[0], START)
    checked(read_trace(path), found)


def test_some_variables_are_measured(tmp_path: pathlib.Path) -> None:
    path = os.fspath(tmp_path / "trace.json")
    with recorded(path, pattern="b*"):
        in_function(V1["mpls.v1"])
    trace = read_trace(path)
    assert [variable.name for variable in trace.wrappers[0].variables] == ["bias"]
    assert all(len(step.gradient_norms) == len(step.variable_norms) == 1 for step in trace.steps)
    # Which steps overflow is told by all gradients.
    assert [step.applied for step in trace.steps] == [factor < 9 for factor in FACTORS]


@pytest.mark.parametrize("options", [{"every": 1}, {}], ids=str)
@pytest.mark.parametrize("name", V1)
@pytest.mark.default_run("each value")
def test_names_in_graphs_stay(tmp_path: pathlib.Path, name: str, options: dict[str, Any]) -> None:
    """A program fetches by names, and a Saver writes variables by theirs; TensorFlow makes some in a conditional."""

    def built() -> tuple[list[str], list[str], Any]:
        graph = tf.Graph()
        with graph.as_default():
            variable = v1.get_variable("kernel", initializer=START, use_resource=True)
            step = V1[name]().minimize(tf.reduce_sum(variable**2), v1.train.get_or_create_global_step(), name="train")
            after = tf.cast(variable, tf.float64)
            names = [each.name for each in v1.global_variables()]
            kept = v1.get_collection(v1.GraphKeys.TRAIN_OP)
            with v1.Session() as session:
                session.run(v1.global_variables_initializer())
                session.run("train")
        return names, [step.name, after.name, *(each.name for each in kept)], graph

    plain = built()
    path = os.fspath(tmp_path / "trace.json")
    with recorded(path, **options):
        found = built()
    assert found[:2] == plain[:2]
    ops = {each.name for each in plain[2].get_operations()}
    more = {each.name for each in found[2].get_operations()} - ops
    assert {each.partition("/")[0].rstrip("_123") for each in more} == {"mpls_trace"}
    # It was run by its name.
    assert len(read_trace(path).steps) == 1


def test_the_end_of_a_recording_leaves_nothing(tmp_path: pathlib.Path) -> None:
    classes = (mpls.v1.MixedPrecisionLossScaleOptimizer, tf_keras.mixed_precision.LossScaleOptimizer)
    bases = [base for each in classes for base in each.__mro__]
    before = [dict(vars(each)) for each in bases]
    with recorded(os.fspath(tmp_path / "trace.json")):
        assert [dict(vars(each)) for each in bases] != before
    assert [dict(vars(each)) for each in bases] == before
    content = json.loads((tmp_path / "trace.json").read_text())
    assert content["steps"] == []


@pytest.mark.parametrize("wrap", [lambda step: step, tf.function], ids=["eager mode", "function"])
def test_large_variables_are_measured_too(tmp_path: pathlib.Path, wrap: Callable[[Any], Any]) -> None:
    start = np.random.default_rng(3).normal(size=(LARGE + 5,)).astype(np.float32)
    variable, opt = tf.Variable(start, name="large"), V1["mpls.v1"]()

    def step() -> None:
        opt.minimize(lambda: tf.reduce_sum(variable**2) / 2, var_list=[variable])

    path = os.fspath(tmp_path / "trace.json")
    with recorded(path, every=2):
        wrapped = wrap(step)
        for _ in range(3):
            wrapped()
    trace = read_trace(path)
    assert [step.step for step in trace.steps] == [1, 3]
    # The gradient is the variable itself.
    for norm, values in (
        (trace.steps[0].gradient_norms[0], start),
        (trace.steps[-1].variable_norms[0], variable.numpy()),
    ):
        assert norm == pytest.approx(float(np.linalg.norm(values.astype(np.float64))), rel=1e-12)
    assert trace.steps[-1].variables_digest == digest_of([zlib.crc32(variable.numpy().tobytes())])
