"""The modules of the optimizers that are wrapped, by family; how a step runs; and blocks under a policy."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf
import tf_keras

OPTIMIZERS: dict[str, Any] = {
    "legacy": tf_keras.optimizers.legacy,
    "new": tf_keras.optimizers,
    "keras3": keras.optimizers,
}
SGD: dict[str, Any] = {family: module.SGD for family, module in OPTIMIZERS.items()}
# The module of each framework, and the wrapper that it has itself.
FRAMEWORKS: dict[str, Any] = {"legacy": tf_keras, "new": tf_keras, "keras3": keras}
NATIVE: dict[str, Any] = {
    "legacy": tf_keras.mixed_precision.LossScaleOptimizer,
    "new": tf_keras.mixed_precision.LossScaleOptimizer,
    "keras3": keras.optimizers.LossScaleOptimizer,
}

# How a step runs: what makes it of a function.
RUNS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda step: step,
    "function": lambda step: tf.function(step),
    "compiled": lambda step: tf.function(step, jit_compile=True),
}


@contextlib.contextmanager
def global_policy(framework: Any, name: str) -> Iterator[None]:
    """Set the policy of tf_keras or Keras 3 in a block."""
    before = framework.mixed_precision.global_policy()
    framework.mixed_precision.set_global_policy(name)
    try:
        yield
    finally:
        framework.mixed_precision.set_global_policy(before)
