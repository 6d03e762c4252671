"""The classes that the pages document, and the optimizers that they wrap."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import tensorflow as tf

import mpls.experimental
import mpls.keras
import mpls.v1
from mpls.errors import without_deprecations
from tests.keras.families import OPTIMIZERS

INF = float("inf")
LossScaleOptimizer: Any = mpls.keras.LossScaleOptimizer
Experimental: Any = mpls.experimental.LossScaleOptimizer
LossScale: Any = mpls.v1.LossScale
FixedLossScale: Any = mpls.v1.FixedLossScale
DynamicLossScale: Any = mpls.v1.DynamicLossScale
GraphWrapper: Any = mpls.v1.MixedPrecisionLossScaleOptimizer
# The names that the pages have for them.
NAMES = {
    "tf.keras.mixed_precision.LossScaleOptimizer": LossScaleOptimizer,
    "tf.keras.mixed_precision.experimental.LossScaleOptimizer": Experimental,
    "tf.compat.v1.keras.mixed_precision.experimental.LossScaleOptimizer": Experimental,
    "tf.mixed_precision.experimental.LossScale": LossScale,
    "tf.compat.v1.mixed_precision.LossScale": LossScale,
    "tf.compat.v1.mixed_precision.experimental.DynamicLossScale": DynamicLossScale,
    "tf.compat.v1.mixed_precision.experimental.FixedLossScale": FixedLossScale,
    "tf.compat.v1.train.experimental.MixedPrecisionLossScaleOptimizer": GraphWrapper,
}
FAMILIES = tuple(OPTIMIZERS)
CLASSES = ("LossScaleOptimizer", "experimental")


def over_families(test: Any) -> Any:
    return pytest.mark.parametrize("family", FAMILIES)(test)


def over_wrappers(test: Any) -> Any:
    """Run a test with each family and both classes, which are identical but for their constructors."""
    cases = list(itertools.product(FAMILIES, CLASSES))
    return pytest.mark.default_run("each value")(pytest.mark.parametrize(("family", "cls"), cases)(test))


def experimental(inner: Any, loss_scale: Any = "dynamic") -> Any:
    with without_deprecations():
        return Experimental(inner, loss_scale)


def wrap(
    cls: str,
    inner: Any,
    dynamic: bool = True,
    initial_scale: float | None = None,
    dynamic_growth_steps: int | None = None,
) -> Any:
    """Wrap an optimizer in one of the two classes, with the same settings."""
    if cls == "LossScaleOptimizer":
        return LossScaleOptimizer(inner, dynamic, initial_scale, dynamic_growth_steps)
    if not dynamic:
        return experimental(inner, initial_scale)
    given = {"initial_loss_scale": initial_scale, "increment_period": dynamic_growth_steps}
    return experimental(inner, DynamicLossScale(**{name: value for name, value in given.items() if value is not None}))


def custom_step(optimizer: Any, variable: Any, loss_fn: Callable[[], Any]) -> None:
    """Make a step without `minimize`, as the pages show it."""
    with tf.GradientTape() as tape:
        loss = loss_fn()
        scaled_loss = optimizer.get_scaled_loss(loss)
    scaled_grad = tape.gradient(scaled_loss, variable)
    (grad,) = optimizer.get_unscaled_gradients([scaled_grad])
    optimizer.apply_gradients([(grad, variable)])


def minimize(optimizer: Any, variable: Any, loss_fn: Callable[[], Any]) -> None:
    optimizer.minimize(loss_fn, var_list=[variable])


STEPS: dict[str, Any] = {"minimize": minimize, "apply_gradients": custom_step}


def train(optimizer: Any, variable: Any, factors: Iterable[float], step: Any = minimize) -> None:
    """Make steps whose gradients are these factors."""
    for factor in factors:
        step(optimizer, variable, lambda factor=factor: variable * factor)


def passing(seen: list[float]) -> Any:
    """Return an op that changes nothing, and notes the intermediate gradient that comes back to it."""

    @tf.custom_gradient
    def same(value: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            seen.append(float(upstream))
            return upstream

        return tf.identity(value), gradient

    return same
