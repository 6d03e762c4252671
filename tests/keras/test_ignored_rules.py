"""Update rules of TF 2.10 and earlier on bases that never call them: one warning for each class."""

from __future__ import annotations

import unittest
from typing import Any

import keras
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.keras
from mpls.errors import MplsWarning

OTHERS: dict[str, Any] = {"new": tf_keras.optimizers, "keras3": keras.optimizers}
NAMES = ("_resource_apply_dense", "_resource_apply_sparse", "_apply_dense", "_apply_sparse")


def rule(self: Any, grad: Any, var: Any, *args: Any, **kwargs: Any) -> Any:
    """Move by a hundred, so that it shows whether it is called."""
    return var.assign_sub(tf.ones_like(grad) * 100.0)


def made(base: Any, *names: str) -> Any:
    return type("Sign", (base,), {"__module__": __name__, **dict.fromkeys(names, rule)})


class IgnoredRulesTest(unittest.TestCase):
    @parameterized.expand(
        [(f"{f}_{b}{n}", f, b, n) for f in OTHERS for b in ("SGD", "Adam", "Optimizer") for n in NAMES]
    )
    @pytest.mark.default_run("one case")
    def test_one_warning_for_each_class(self, case: str, family: str, base: str, name: str) -> None:
        cls = made(getattr(OTHERS[family], base), name)
        pattern = rf"Sign.{name} is never called.*Derive the class from tf_keras.optimizers.legacy.{base}, or run"
        with self.assertWarnsRegex(MplsWarning, pattern) as caught:
            mpls.keras.LossScaleOptimizer(_new(cls, base))
        self.assertEqual(caught.filename, __file__)
        mpls.keras.LossScaleOptimizer(_new(cls, base))
        with self.assertWarns(MplsWarning):
            mpls.keras.LossScaleOptimizer(_new(made(cls), base))

    @parameterized.expand(OTHERS)
    def test_no_warning_for_others(self, family: str) -> None:
        module = OTHERS[family]
        classes = [
            module.SGD,
            module.Adam,
            made(module.SGD),
            made(module.SGD, NAMES[0], "update_step"),
            made(made(module.SGD, "update_step"), NAMES[0]),
            made(tf_keras.optimizers.legacy.SGD, NAMES[0]),
        ]
        for cls in classes:
            mpls.keras.LossScaleOptimizer(cls())


def _new(cls: Any, base: str) -> Any:
    if base != "Optimizer":
        return cls()
    return cls(learning_rate=0.5) if issubclass(cls, keras.Optimizer) else cls("sign")
