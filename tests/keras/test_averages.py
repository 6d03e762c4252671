"""Averages of weights (`use_ema`) when the first steps are skipped: they start from the weights, and not from 0."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import mpls.keras
from tests.processes import process_environment

INF = float("inf")
RATE, MOMENTUM = 0.5, 0.75
KITS = {"keras3": keras, "new": tf_keras}
COUNTS = (None, False, True)
FACTORS = {
    "the first": (INF, 1.0, 2.0),
    "several": (INF, INF, 1.0, INF, 2.0, 0.5),
    "later ones": (1.0, INF, 2.0),
    "all": (INF, INF),
}


def expected(family: str, counts: bool | None, factors: Sequence[float]) -> tuple[float, float]:
    """Return a weight that began as 1, and its average, after steps with these gradients."""
    weight = average = 1.0
    is_counted = family == "new" if counts is None else counts
    iterations = 0
    for factor in factors:
        if factor == INF:
            iterations += is_counted
            continue
        weight -= RATE * factor
        # Keras 3 takes the average from the first step that it knows of, tf_keras from the weight before it.
        momentum = 0.0 if family == "keras3" and iterations == 0 else MOMENTUM
        average = momentum * average + (1 - momentum) * weight
        iterations += 1
    return weight, average


def optimizer_of(family: str, counts: bool | None, **settings: Any) -> Any:
    inner = KITS[family].optimizers.SGD(RATE, use_ema=True, ema_momentum=MOMENTUM)
    return mpls.keras.LossScaleOptimizer(inner, initial_scale=8, skip_counts_step=counts, **settings)


def trained(
    family: str, counts: bool | None, factors: Sequence[float], run: Callable[[Any], Any], **settings: Any
) -> tuple[float, float]:
    """Return the weight after these steps, and what it is after the end of training."""
    opt = optimizer_of(family, counts, **settings)
    variable: Any = keras.Variable(1.0) if family == "keras3" else tf.Variable(1.0)
    opt.build([variable])

    def step(factor: Any) -> None:
        with tf.GradientTape() as tape:
            loss = opt.get_scaled_loss(variable * factor)
        grads = opt.get_unscaled_gradients(tape.gradient(loss, [variable]))
        opt.apply_gradients(zip(grads, [variable], strict=True))

    step = run(step)
    for factor in factors:
        step(tf.constant(factor))
    weight = float(variable)
    opt.finalize_variable_values([variable])
    return weight, float(variable)


WAYS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda step: step,
    "function": lambda step: tf.function(step),
    "compiled": lambda step: tf.function(step, jit_compile=True),
}


@pytest.mark.parametrize(("family", "counts", "which", "way"), itertools.product(KITS, COUNTS, FACTORS, WAYS))
@pytest.mark.default_run("each value")
def test_steps(family: str, counts: bool | None, which: str, way: str) -> None:
    found = trained(family, counts, FACTORS[which], WAYS[way])
    assert found == pytest.approx(expected(family, counts, FACTORS[which]))


@pytest.mark.parametrize("family", KITS)
def test_a_fixed_scale_that_skips(family: str) -> None:
    settings = {"dynamic": False, "skip_nonfinite": True}
    found = trained(family, True, FACTORS["several"], WAYS["function"], **settings)
    assert found == pytest.approx(expected(family, True, FACTORS["several"]))


@pytest.mark.parametrize(("family", "counts"), itertools.product(KITS, COUNTS))
@pytest.mark.default_run("each value")
def test_on_replicas(family: str, counts: bool | None) -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        opt = optimizer_of(family, counts)
        variable: Any = keras.Variable(1.0) if family == "keras3" else tf.Variable(1.0)
        opt.build([variable])

    def step(factor: Any) -> None:
        # The overflow is on the second replica alone.
        is_second = tf.distribute.get_replica_context().replica_id_in_sync_group == 1
        own = tf.where(is_second, factor, 0.0)
        with tf.GradientTape() as tape:
            loss = opt.get_scaled_loss(variable * own)
        grads = opt.get_unscaled_gradients(tape.gradient(loss, [variable]))
        opt.apply_gradients(zip(grads, [variable], strict=True))

    run = tf.function(lambda factor: strategy.run(step, (factor,)))
    for factor in FACTORS["several"]:
        run(tf.constant(factor))
    with strategy.scope():
        weight = variable.numpy()
        opt.finalize_variable_values([variable])
    assert (weight, variable.numpy()) == pytest.approx(expected(family, counts, FACTORS["several"]))


@pytest.mark.parametrize(("family", "counts", "compiled"), itertools.product(KITS, COUNTS, (False, True)))
@pytest.mark.default_run("each value")
def test_fit(family: str, counts: bool | None, compiled: bool) -> None:
    kit = KITS[family]
    model = kit.Sequential(
        [kit.layers.Input((1,)), kit.layers.Dense(1, use_bias=False, kernel_initializer="ones", dtype="float32")]
    )
    model.compile(optimizer_of(family, counts), loss=lambda _, y: y, jit_compile=compiled)
    batches = np.array(FACTORS["several"], np.float32).reshape(-1, 1)
    model.fit(batches, np.zeros_like(batches), batch_size=1, shuffle=False, verbose=0)
    (weight,) = model.get_weights()
    assert weight.item() == pytest.approx(expected(family, counts, FACTORS["several"])[1])


ON_JAX = """
import json
import keras, numpy as np
import mpls.keras

assert keras.backend.backend() == "jax"
weights = []
for counts in (None, False, True):
    for factors in {factors!r}:
        for settings in ({{}}, {{"dynamic": False, "skip_nonfinite": True}}):
            inner = keras.optimizers.SGD({rate}, use_ema=True, ema_momentum={momentum})
            opt = mpls.keras.LossScaleOptimizer(inner, initial_scale=8, skip_counts_step=counts, **settings)
            model = keras.Sequential(
                [keras.layers.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")]
            )
            model.compile(opt, loss=lambda _, y: y)
            batches = np.array([float(each) for each in factors], np.float32).reshape(-1, 1)
            model.fit(batches, np.zeros_like(batches), batch_size=1, shuffle=False, verbose=0)
            weights.append(model.get_weights()[0].item())
print(json.dumps(weights))
"""


@pytest.mark.programs
def test_on_jax() -> None:
    pytest.importorskip("jax", reason="needs jax, which the extra `test` installs")
    program = ON_JAX.format(
        factors=[[str(each) for each in factors] for factors in FACTORS.values()], rate=RATE, momentum=MOMENTUM
    )
    environment = process_environment(needs=["jax"], KERAS_BACKEND="jax")
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    wanted = [
        expected("keras3", counts, factors)[1] for counts in COUNTS for factors in FACTORS.values() for _ in range(2)
    ]
    assert [*map(float, done.stdout.splitlines()[-1].strip("[]").split(","))] == pytest.approx(wanted)
