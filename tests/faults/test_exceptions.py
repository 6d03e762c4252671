"""What raises in a step leaves an optimizer that goes on as if the step had not been there, in each family."""

from __future__ import annotations

import unittest
from typing import Any

import keras
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.keras
import mpls.v1
from tests.options.trainers import unscaled, variable_of, watched

v1 = tf.compat.v1

SCALE = 8.0


class UsersError(Exception):
    """What a user's code raises."""


def _failing(base: type, method: str) -> Any:
    """Return a class of optimizers that raise instead of applying a gradient while its attribute says so."""

    def update(self: Any, *args: Any, **kwargs: Any) -> Any:
        if type(self).fails:
            raise UsersError
        return getattr(base, method)(self, *args, **kwargs)

    return type("Failing", (base,), {"fails": False, method: update})


INNER: dict[str, tuple[type, str]] = {
    "v1": (v1.train.MomentumOptimizer, "_resource_apply_dense"),
    "legacy": (tf_keras.optimizers.legacy.SGD, "_resource_apply_dense"),
    "new": (tf_keras.optimizers.SGD, "update_step"),
    "keras3": (keras.optimizers.SGD, "update_step"),
}


class ExceptionTest(unittest.TestCase):
    @parameterized.expand([(f"{family}_{mode}", family, mode) for family in INNER for mode in ("eager", "function")])
    @pytest.mark.default_run("each value")
    def test_out_of_the_inner_optimizer_and_the_loss(self, name: str, family: str, mode: str) -> None:
        base, method = INNER[family]
        failing = _failing(base, method)
        inner = failing(0.25, 0.5)
        if family == "v1":
            loss_scale = mpls.v1.DynamicLossScale(SCALE, 100)
            opt: Any = mpls.v1.MixedPrecisionLossScaleOptimizer(inner, loss_scale, count_steps=True)
        else:
            opt = mpls.keras.LossScaleOptimizer(inner, initial_scale=SCALE, count_steps=True)
        variable = variable_of(family, [1.0, 2.0])
        value = watched(variable)
        factor = tf.Variable(1.0)
        if family == "keras3":
            opt.build([variable])

        def loss(fails: bool) -> Any:
            if fails:
                raise UsersError
            return tf.reduce_sum(tf.convert_to_tensor(value) * factor)

        def step(fails: bool = False) -> None:
            if family == "v1":
                opt.minimize(lambda: loss(fails), var_list=[variable])
                return
            opt.apply_gradients([(unscaled(opt, lambda: loss(fails), [variable])[0], variable)])

        def take(fails: bool = False) -> None:
            # Where a first trace has made variables and raised, TensorFlow leaves a function that does nothing.
            (tf.function(step) if mode == "function" else step)(fails)

        def seen() -> tuple[Any, ...]:
            scale = opt._loss_scale() if family == "v1" else opt.loss_scale
            weights = tuple(float(each) for each in tf.convert_to_tensor(value))
            return float(scale), int(opt.applied_steps), int(opt.skipped_steps), weights

        for expected in ((SCALE, 1, 0, (0.75, 1.75)), (SCALE, 2, 0, (0.375, 1.375))):
            before = seen()
            failing.fails = True
            with self.assertRaises(UsersError):
                take()
            failing.fails = False
            with self.assertRaises(UsersError):
                take(fails=True)
            self.assertEqual(seen(), before)
            take()
            self.assertEqual(seen(), expected)
        factor.assign(float("nan"))
        take()
        self.assertEqual(seen(), (SCALE / 2, 2, 1, (0.375, 1.375)))
