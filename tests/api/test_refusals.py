"""A call that is refused leaves everything as it was."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.errors
import mpls.experimental
import mpls.keras
import mpls.v1

NAN = float("nan")
FACTORIES: dict[str, Callable[[], Any]] = {
    "new": lambda: tf_keras.optimizers.SGD(0.5, momentum=0.9),
    "legacy": lambda: tf_keras.optimizers.legacy.SGD(0.5, momentum=0.9),
    "v1": lambda: tf.compat.v1.train.MomentumOptimizer(0.5, 0.9),
}

BAD_SETTINGS: dict[str, dict[str, Any]] = {
    "dynamic_is_no_bool": {"dynamic": "dynamic"},
    "fixed_without_scale": {"dynamic": False},
    "fixed_with_growth_steps": {"dynamic": False, "initial_scale": 4.0, "dynamic_growth_steps": 5},
    "scale_is_nan": {"initial_scale": NAN},
    "scale_is_zero": {"dynamic": False, "initial_scale": 0},
    "scale_is_no_number": {"initial_scale": "foo"},
    "growth_steps_are_no_number": {"dynamic_growth_steps": "foo"},
    "unknown_argument": {"loss_scale": 4.0},
}
BAD_SCALES: dict[str, Any] = {
    "none": None,
    "text": "foo",
    "list": [4.0],
    "nan": NAN,
    "negative": -1,
    "class": mpls.v1.DynamicLossScale,
}


def snapshot(optimizer: Any) -> dict[str, str]:
    """What an optimizer holds, as text."""
    return {name: repr(value) for name, value in vars(optimizer).items()}


def combinations(*tables: Any) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = [()]
    for table in tables:
        rows = [(*row, item) for row in rows for item in table]
    return [("_".join(row), *row) for row in rows]


class ConstructorTest(unittest.TestCase):
    """The optimizer that was to be wrapped has not changed, and can be wrapped."""

    @parameterized.expand(combinations(["new", "legacy"], BAD_SETTINGS))
    def test_keras(self, label: str, family: str, settings: str) -> None:
        inner = FACTORIES[family]()
        before = snapshot(inner)
        with self.assertRaises((TypeError, ValueError)):
            mpls.keras.LossScaleOptimizer(inner, **BAD_SETTINGS[settings])
        self.assertEqual(snapshot(inner), before)
        self.assertIs(mpls.keras.LossScaleOptimizer(inner).inner_optimizer, inner)

    @parameterized.expand(combinations(BAD_SCALES))
    def test_v1(self, label: str, scale: str) -> None:
        inner = FACTORIES["v1"]()
        before = snapshot(inner)
        with self.assertRaises((TypeError, ValueError)):
            mpls.v1.MixedPrecisionLossScaleOptimizer(inner, BAD_SCALES[scale])
        self.assertEqual(snapshot(inner), before)

    @parameterized.expand(combinations(["new", "legacy", "v1"], BAD_SCALES))
    def test_graph_rewrite(self, label: str, family: str, scale: str) -> None:
        inner = FACTORIES[family]()
        before = snapshot(inner), tf.config.optimizer.get_experimental_options()
        with self.assertRaises((TypeError, ValueError)):
            mpls.v1.enable_mixed_precision_graph_rewrite(inner, BAD_SCALES[scale])
        self.assertEqual((snapshot(inner), tf.config.optimizer.get_experimental_options()), before)
        self.assertFalse(tf.__internal__.train.is_mixed_precision_graph_rewrite_enabled())
