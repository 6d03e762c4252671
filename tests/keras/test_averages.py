"""Averages of weights (`use_ema`) when the first steps are skipped: they start from the weights, and not from 0."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import pytest
import tensorflow as tf

import mpls.keras
from tests.documented.families import custom_step
from tests.keras.averages import COUNTS, FACTORS, MOMENTUM, RATE, expected
from tests.keras.families import OPTIMIZERS, RUNS

FAMILIES = ("keras3", "new")


def trained(
    family: str, counts: bool | None, factors: Sequence[float], run: Callable[[Any], Any]
) -> tuple[float, float]:
    """Return the weight after these steps, and what it is after the end of training."""
    inner = OPTIMIZERS[family].SGD(RATE, use_ema=True, ema_momentum=MOMENTUM)
    opt = mpls.keras.LossScaleOptimizer(inner, initial_scale=8, skip_counts_step=counts)
    variable: Any = keras.Variable(1.0) if family == "keras3" else tf.Variable(1.0)
    opt.build([variable])

    def step(factor: Any) -> None:
        custom_step(opt, variable, lambda: variable * factor)

    step = run(step)
    for factor in factors:
        step(tf.constant(factor))
    weight = float(variable)
    opt.finalize_variable_values([variable])
    return weight, float(variable)


@pytest.mark.parametrize(("family", "counts", "which", "way"), itertools.product(FAMILIES, COUNTS, FACTORS, RUNS))
@pytest.mark.default_run("each value")
def test_steps(family: str, counts: bool | None, which: str, way: str) -> None:
    found = trained(family, counts, FACTORS[which], RUNS[way])
    assert found == pytest.approx(expected(family, counts, FACTORS[which]))
