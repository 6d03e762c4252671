"""Small trainings of every family, with the same gradients in all."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import mpls
import mpls.keras
from tests.keras.families import FRAMEWORKS, OPTIMIZERS

PAIRS = list(itertools.product(OPTIMIZERS, OPTIMIZERS))
NAMES = ("dense/kernel", "dense/bias")
VALUES = (np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]]), np.array([1.0, -2.0, 0.5]))
# Settings with which all families compute the same.
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {}),
    "momentum": ("SGD", {"momentum": 0.9}),
    "nesterov": ("SGD", {"momentum": 0.9, "nesterov": True}),
    "adam": ("Adam", {}),
    "amsgrad": ("Adam", {"amsgrad": True, "beta_2": 0.6}),
    "rmsprop_momentum": ("RMSprop", {"momentum": 0.5}),
    "rmsprop_centered": ("RMSprop", {"momentum": 0.5, "centered": True}),
    "adagrad": ("Adagrad", {"epsilon": 1e-10}),
    "adadelta": ("Adadelta", {"epsilon": 1e-3}),
    "adamax": ("Adamax", {}),
    "nadam": ("Nadam", {}),
    "ftrl": ("Ftrl", {"l1_regularization_strength": 0.01, "l2_regularization_strength": 0.1, "beta": 0.2}),
}


def optimizer(family: str, algorithm: str, rate: Any = 0.05, **settings: Any) -> Any:
    if (family, algorithm) == ("legacy", "Nadam"):
        settings = {"schedule_decay": 1.0, **settings}
    return getattr(OPTIMIZERS[family], algorithm)(rate, **settings)


def variables(
    family: str, values: Sequence[Any] = VALUES, names: Sequence[str] = NAMES, dtype: str = "float32"
) -> list[Any]:
    if family == "keras3":
        made = []
        for value, name in zip(values, names, strict=True):
            *scopes, last = name.split("/")
            with contextlib.ExitStack() as stack:
                for scope in scopes:
                    stack.enter_context(keras.name_scope(scope))
                made.append(keras.Variable(np.asarray(value), dtype=dtype, name=last))
        return made
    return [tf.Variable(value, dtype=dtype, name=name) for value, name in zip(values, names, strict=True)]


def like(family: str, source: Sequence[Any], names: Sequence[str] = NAMES, dtype: str = "float32") -> list[Any]:
    """Return variables of a family with the values of others."""
    return variables(family, [each.numpy() for each in source], names, dtype)


def gradients(step: int, shapes: Sequence[Any]) -> list[Any]:
    """Return the gradients of a step, none of them near zero."""
    generator = np.random.default_rng(step)
    return [generator.uniform(0.5, 1.5, shape) * generator.choice([-1, 1], shape) for shape in shapes]


def take_step(optimizer: Any, trained: Sequence[Any], step: int, factor: float = 1.0) -> None:
    """Apply the gradients of a step; over a wrapper as a custom loop does."""
    grads = [
        tf.cast(tf.constant(grad * factor, tf.float32), each.dtype)
        for grad, each in zip(gradients(step, [each.shape for each in trained]), trained, strict=True)
    ]
    if isinstance(optimizer, mpls.keras.LossScaleOptimizer):
        # As the tape would give them of a scaled loss.
        if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
            grads = [grad * tf.cast(scale_of(optimizer), grad.dtype) for grad in grads]
            optimizer.scale_loss(tf.constant(1.0))
        else:
            grads = [optimizer.get_scaled_loss(grad) for grad in grads]
            grads = optimizer.get_unscaled_gradients(grads)
    elif isinstance(optimizer, tf.compat.v1.train.Optimizer):
        optimizer.compute_gradients(lambda: tf.reduce_sum(trained[0]), [trained[0]])
    optimizer.apply_gradients(zip(grads, trained, strict=True))


def scale_of(optimizer: Any) -> Any:
    if hasattr(optimizer, "loss_scale"):
        return optimizer.loss_scale
    return tf.constant(optimizer.dynamic_scale.numpy() if optimizer.built else optimizer.initial_scale)


def train(optimizer: Any, trained: Sequence[Any], start: int, end: int) -> None:
    for step in range(start, end):
        take_step(optimizer, trained, step)


def trained_for(steps: int, optimizer: Any, family: str, **settings: Any) -> tuple[Any, list[Any]]:
    """Return an optimizer after its first steps, and the variables that it has trained."""
    trained = variables(family, **settings)
    train(optimizer, trained, 0, steps)
    return optimizer, trained


def schedule(family: str) -> Any:
    """Return a learning rate that halves every two steps."""
    return FRAMEWORKS[family].optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)


def steps_of(optimizer: Any) -> int:
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return int(inner._iterations.numpy())


def state_of(optimizer: Any, trained: Sequence[Any]) -> list[Any]:
    """Return all that must not change in an error: the variables and the state of a target, and its settings."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    # A legacy optimizer makes its counter when it is asked for it.
    weights = inner._weights if hasattr(inner, "_weights") else inner.variables
    state = [each.numpy() for each in (*weights, *trained)]
    if inner is not optimizer and hasattr(optimizer, "loss_scale"):
        state += [float(optimizer.loss_scale), int(optimizer.dynamic_counter or 0)]
    return [*state, len(weights), str(inner.get_config())]


def assert_close(actual: Sequence[Any], expected: Sequence[Any], rtol: float = 2e-6) -> None:
    """Compare variables, relative to the largest element of each."""
    for one, other in zip(actual, expected, strict=True):
        arrays = [each.numpy() if hasattr(each, "numpy") else each for each in (one, other)]
        value, wanted = (np.asarray(each, np.float64) for each in arrays)
        bound = rtol * max(1e-30, float(np.max(np.abs(wanted))))
        np.testing.assert_allclose(value, wanted, rtol=0, atol=bound)


def assert_go_on(
    source: Any, trained: Sequence[Any], target: Any, others: Sequence[Any], start: int, end: int, rtol: float = 2e-6
) -> None:
    """Take the same steps with a source and its target, and compare their variables."""
    train(source, trained, start, end)
    train(target, others, start, end)
    assert_close(others, trained, rtol)
