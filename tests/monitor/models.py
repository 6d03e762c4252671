"""Models of both Kerases with one weight, in whose training the test says which batches overflow."""

from __future__ import annotations

import contextlib
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf_keras

from tests.options.trainers import FAMILIES, over_keras

INITIAL, GROWTH_STEPS, BATCHES = 16.0, 3, 4

OURS = {family: make for family, make in FAMILIES.items() if family != "v1"}
NATIVE = {
    "native_legacy": over_keras(tf_keras.optimizers.legacy.SGD, tf_keras.mixed_precision.LossScaleOptimizer),
    "native_new": over_keras(tf_keras.optimizers.SGD, tf_keras.mixed_precision.LossScaleOptimizer),
    "native_keras3": over_keras(keras.optimizers.SGD, keras.optimizers.LossScaleOptimizer),
}
WAYS: dict[str, dict[str, Any]] = {
    "function": {},
    "xla": {"jit_compile": True},
    "eager": {"run_eagerly": True},
    "several_steps": {"steps_per_execution": 2},
    "replicas": {},
}
# tf_keras compiles nothing of its legacy optimizers by XLA.
CELLS = [
    (f"{family}_{way}", family, way)
    for family in (*OURS, *NATIVE)
    for way in WAYS
    if not (way == "xla" and family in ("legacy", "experimental", "native_legacy"))
]


def keras_of(family: str) -> Any:
    return keras if "keras3" in family else tf_keras


def output(_: Any, y: Any) -> Any:
    return y


def model_of(family: str, way: str = "function", **options: Any) -> Any:
    """Return a model of one weight, whose gradient is the mean of its input."""
    module = keras_of(family)
    make = {**OURS, **NATIVE}[family]
    is_split = way == "replicas"
    scope = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope() if is_split else contextlib.nullcontext()
    with scope:
        model = module.Sequential([module.layers.Input((1,)), module.layers.Dense(1, use_bias=False)])
        model.compile(make(INITIAL, GROWTH_STEPS, **options), loss=output, **WAYS[way])
    return model


def data(*overflowing: int) -> dict[str, Any]:
    """Return arguments of `fit`: four batches, of which some have infinite gradients."""
    x = np.ones([2 * BATCHES, 1], np.float32)
    for batch in overflowing:
        x[2 * batch] = np.inf
    return {"x": x, "y": np.zeros_like(x), "batch_size": 2, "shuffle": False, "verbose": 0}


def is_ours(family: str) -> bool:
    return family in OURS
