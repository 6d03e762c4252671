"""A function that takes steps is traced as often as with the optimizer alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import mpls.experimental
import mpls.keras
import mpls.v1
from mpls.errors import without_deprecations

COUNTED: dict[str, Any] = {"track_overflows": True, "max_consecutive_skips": 9}


def trained(wrap: Any, is_built_first: bool = True, is_compiled: bool | None = None) -> tuple[list[float], int]:
    """Return the weights after four steps of Nadam, which takes each trace for a step, and the number of traces."""
    weight, inner = tf.Variable([1.0, 2.0]), tf_keras.optimizers.Nadam(0.1)
    if is_built_first:
        inner.build([weight])
    opt, traces = wrap(inner), []
    inner.build([weight])

    @tf.function(jit_compile=is_compiled)
    def step() -> None:
        traces.append(1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weight**2)
            scaled_loss = loss if opt is inner else opt.get_scaled_loss(loss)
        grads = tape.gradient(scaled_loss, [weight])
        opt.apply_gradients(zip(grads if opt is inner else opt.get_unscaled_gradients(grads), [weight], strict=True))

    for _ in range(4):
        step()
    return weight.numpy().tolist(), len(traces)


@pytest.mark.parametrize("is_built_first", [True, False])
@pytest.mark.parametrize("options", [{}, {"enabled": False}, COUNTED], ids=["plain", "disabled", "counted"])
def test_a_step_over_a_built_optimizer_is_traced_once(options: dict[str, Any], is_built_first: bool) -> None:
    alone = trained(lambda inner: inner)
    assert alone[1] == 1
    assert trained(lambda inner: mpls.keras.LossScaleOptimizer(inner, **options), is_built_first) == alone


def test_so_is_one_of_the_experimental_wrapper_and_one_that_xla_compiles() -> None:
    def wrap(inner: Any) -> Any:
        with without_deprecations():
            return mpls.experimental.LossScaleOptimizer(inner, "dynamic")

    assert trained(wrap) == trained(lambda inner: inner)
    (alone, count), (weights, traces) = trained(lambda inner: inner, is_compiled=True), trained(wrap, is_compiled=True)
    assert traces == count == 1
    np.testing.assert_allclose(weights, alone, rtol=1e-6)


def test_a_loss_scale_that_a_function_uses_first() -> None:
    scale, traces = mpls.v1.DynamicLossScale(8.0, 1), []

    @tf.function
    def step() -> Any:
        traces.append(1)
        scale.update([tf.constant(1.0)])
        return scale()

    assert [float(step()), float(step())] == [16.0, 32.0]
    assert len(traces) == 1
