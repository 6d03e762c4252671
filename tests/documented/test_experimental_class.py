"""The page of `tf.keras.mixed_precision.experimental.LossScaleOptimizer`, which TF 2.4 deprecated.

The class is "identical to the non-experimental" one but for its constructor: the tests of that page run with it too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from .families import (
    OPTIMIZERS,
    DynamicLossScale,
    Experimental,
    FixedLossScale,
    LossScaleOptimizer,
    experimental,
    minimize,
    over_families,
    over_wrappers,
    wrap,
)

# --- examples -------------------------------------------------------------------------------------

# The argument of the experimental class, and the arguments of the other that do the same.
EQUIVALENT: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "dynamic": (lambda: "dynamic", {}),
    "number": (lambda: 123, {"dynamic": False, "initial_scale": 123}),
    "dynamic_object": (
        lambda: DynamicLossScale(initial_loss_scale=2048, increment_period=500),
        {"initial_scale": 2048, "dynamic_growth_steps": 500},
    ),
    "default_object": (lambda: DynamicLossScale(), {}),
    "fixed_object": (lambda: FixedLossScale(123), {"dynamic": False, "initial_scale": 123}),
}


@pytest.mark.parametrize("case", EQUIVALENT)
@over_families
def test_the_examples_of_equal_configs_and_of_instances(family: str, case: str) -> None:
    make, arguments = EQUIVALENT[case]
    # Keras 3 names wrappers by counting them.
    names = {"name": "same"} if family == "keras3" else {}
    opt1 = experimental(OPTIMIZERS[family].SGD(name="SGD"), loss_scale=make())
    opt2 = LossScaleOptimizer(OPTIMIZERS[family].SGD(name="SGD"), **arguments, **names)
    assert opt1.get_config() | names == opt2.get_config()
    # The examples of instances.
    assert [isinstance(opt, Experimental) for opt in (opt1, opt2)] == [True, False]


# --- arguments of the wrapped optimizer -----------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "expected"),
    [("clipvalue", [-0.5, -0.5]), ("clipnorm", [-0.3, -0.4]), ("global_clipnorm", [-0.3, -0.4])],
)
@over_wrappers
def test_the_gradient_that_is_clipped_is_unscaled(family: str, cls: str, argument: str, expected: list[float]) -> None:
    optimizer, weight = wrap(cls, OPTIMIZERS[family].SGD(1.0, **{argument: 0.5})), tf.Variable([0.0, 0.0])
    minimize(optimizer, weight, lambda: tf.reduce_sum(weight * [3.0, 4.0]))
    assert weight.numpy().tolist() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("cls", ["LossScaleOptimizer", "experimental"])
def test_gradients_are_aggregated_and_then_transformed_unscaled(cls: str) -> None:
    """`gradient_aggregator` and `gradient_transformers`, which only legacy optimizers take."""
    calls: list[tuple[str, float]] = []

    def noting(name: str, factor: float) -> Any:
        def change(grads_and_vars: Any) -> Any:
            ((grad, variable),) = grads_and_vars
            calls.append((name, float(grad)))
            return [(grad * factor, variable)]

        return change

    inner = OPTIMIZERS["legacy"].SGD(
        0.25, gradient_aggregator=noting("aggregator", 3.0), gradient_transformers=[noting("transformer", 0.5)]
    )
    weight = tf.Variable(1.0)
    minimize(wrap(cls, inner), weight, lambda: weight * 2.0)
    assert calls == [("aggregator", 2.0), ("transformer", 6.0)]
    assert float(weight) == 0.25
