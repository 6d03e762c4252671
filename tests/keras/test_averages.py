"""Averages of weights (`use_ema`) when the first steps are skipped: they start from the weights, and not from 0."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import pytest
import tensorflow as tf
import tf_keras

import mpls.keras
from tests.keras.averages import COUNTS, FACTORS, MOMENTUM, RATE, expected

KITS = {"keras3": keras, "new": tf_keras}


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
