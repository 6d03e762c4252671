"""Calls of the Keras wrapper that no record has: bare variables, an optimizer that is wrapped already."""

from __future__ import annotations

import contextlib
import unittest
import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.keras
from tests.documented.families import custom_step
from tests.keras.families import RUNS

LEGACY: Any = tf_keras.optimizers.legacy
NEW: Any = tf_keras.optimizers
FAMILIES = [("legacy", LEGACY), ("new", NEW)]
Ours: Any = mpls.keras.LossScaleOptimizer
Native: Any = tf_keras.mixed_precision.LossScaleOptimizer


class ReturnedTest(unittest.TestCase):
    @parameterized.expand(
        [
            (f"{name}_{compiled}_{'_'.join(options)}", optimizers, compiled, options)
            for name, optimizers in (("new", NEW), ("keras3", keras.optimizers))
            for compiled in (False, True)
            for options in ({}, {"dynamic": False, "initial_scale": 8.0}, {"enabled": False}, {"count_steps": True})
        ]
    )
    def test_a_function_may_return_what_apply_gradients_returns(
        self, name: str, optimizers: Any, compiled: bool, options: dict[str, Any]
    ) -> None:
        optimizer, variable = Ours(optimizers.SGD(0.5), **options), tf.Variable(1.0)

        @tf.function(jit_compile=compiled)
        def step() -> Any:
            with tf.GradientTape() as tape:
                scaled_loss = optimizer.get_scaled_loss(variable * 1.0)
            grads = optimizer.get_unscaled_gradients(tape.gradient(scaled_loss, [variable]))
            return optimizer.apply_gradients([(grads[0], variable)])

        optimizer.build([variable])
        step()
        step()
        self.assertEqual(float(variable), 0.0)


def squares(variable: Any) -> Callable[[], Any]:
    """Return the loss."""
    return lambda: tf.reduce_sum(tf.convert_to_tensor(variable) ** 2)


BARE: dict[str, Callable[[Any, Any], Any]] = {
    "one": lambda optimizer, variable: optimizer.minimize(squares(variable), var_list=variable),
    "callable": lambda optimizer, variable: optimizer.minimize(squares(variable), lambda: variable),
    "nest": lambda optimizer, variable: optimizer.minimize(squares(variable), {"all": [(variable,)]}),
    "by_hand": lambda optimizer, variable: custom_step(optimizer, variable, squares(variable)),
}


class BareVariableTest(unittest.TestCase):
    """The first examples of the documentation: a variable stands where a list may, and its gradient is no list."""

    @parameterized.expand(
        [
            (f"{f}_{m}_{how}_{len(shape)}", o, m, how, shape)
            for f, o in [*FAMILIES, ("keras3", keras.optimizers)]
            for m in BARE
            for how in RUNS
            for shape in ((), (3,))
        ]
    )
    @pytest.mark.default_run("each value")
    def test_minimize(self, name: str, optimizers: Any, method: str, how: str, shape: tuple[int, ...]) -> None:
        kinds = (tf.Variable, keras.Variable) if optimizers is keras.optimizers else (tf.Variable,)
        for kind in kinds:
            self.check(Ours(optimizers.SGD(0.25)), kind(tf.ones(shape)), BARE[method], RUNS[how])

    def check(self, optimizer: Any, variable: Any, train: Callable[[Any, Any], Any], how: Callable[[Any], Any]) -> None:
        optimizer._create_all_weights([variable])
        _ = optimizer.iterations

        def step() -> None:
            train(optimizer, variable)

        step = how(step)
        for expected in (0.5, 0.25):
            step()
            np.testing.assert_array_equal(tf.convert_to_tensor(variable), np.full(variable.shape, expected))
        self.assertEqual(int(optimizer.iterations), 2)


class CallsTest(unittest.TestCase):
    @parameterized.expand(FAMILIES)
    def test_what_has_been_called_is_told_as_by_the_original(self, name: str, optimizers: Any) -> None:
        for cls in (Ours, tf_keras.mixed_precision.LossScaleOptimizer):
            opt = cls(optimizers.SGD())
            seen = [(opt._loss_has_been_scaled, opt._gradients_have_been_unscaled)]
            opt.get_scaled_loss(tf.ones([]))
            seen.append((opt._loss_has_been_scaled, opt._gradients_have_been_unscaled))
            opt.get_unscaled_gradients([tf.ones([])])
            seen.append((opt._loss_has_been_scaled, opt._gradients_have_been_unscaled))
            self.assertEqual(seen, [(False, False), (True, False), (True, True)])


class NamesTest(unittest.TestCase):
    def test_a_skipped_first_step_names_slots_as_the_bare_optimizer_does(self) -> None:
        def slots_after(optimizer: Any, gradients: list[Any]) -> list[str]:
            optimizer.apply_gradients(zip(gradients, [tf.Variable(1.0, name="v")], strict=True))
            return [each.name for each in optimizer.weights[1:]]

        bare, ours = LEGACY.SGD(0.5, momentum=0.9), Ours(LEGACY.SGD(0.5, momentum=0.9))
        bad = ours.get_unscaled_gradients([ours.get_scaled_loss(tf.constant(float("inf")))])
        self.assertEqual(slots_after(ours, bad), slots_after(bare, [tf.constant(1.0)]))


class RefusalTest(unittest.TestCase):
    """A refused call leaves the inner optimizer as it was."""

    @parameterized.expand(FAMILIES)
    def test_wrapping_twice(self, name: str, optimizers: Any) -> None:
        inner = optimizers.SGD()
        optimizer = Ours(inner, initial_scale=8)
        with self.assertRaisesRegex(TypeError, "not scale the loss itself"):
            Ours(optimizer)
        with self.assertRaisesRegex(ValueError, "wrapped by one LossScaleOptimizer only"):
            Ours(inner)
        with self.assertRaises(ValueError):
            Native(inner)
        native_inner = optimizers.SGD()
        native = Native(native_inner)
        with self.assertRaises(ValueError):
            Ours(native_inner)
        with self.assertRaisesRegex(TypeError, "not scale the loss itself"):
            Ours(native)
        self.assertEqual(float(optimizer.loss_scale), 8.0)

    @parameterized.expand([*FAMILIES, ("keras3", keras.optimizers)])
    def test_gradients_that_are_missing(self, name: str, optimizers: Any) -> None:
        optimizer, variables = Ours(optimizers.SGD(0.5)), [tf.Variable(1.0, name=each) for each in ("has", "lacks")]
        if name != "legacy":
            optimizer.build(variables)
        optimizer.get_scaled_loss(tf.constant(1.0))
        grads = [*optimizer.get_unscaled_gradients([tf.constant(float(optimizer.loss_scale))]), None]
        # Keras 3 tells of them itself.
        logs = self.assertLogs("tensorflow", "WARNING") if name != "keras3" else contextlib.nullcontext()
        with logs as told, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            optimizer.apply_gradients(zip(grads, variables, strict=True))
        if told is not None:
            message = "LossScaleOptimizer: there are no gradients for the variables ['lacks:0']."
            self.assertEqual([each.getMessage() for each in told.records], [message])
            with self.assertNoLogs("tensorflow", "WARNING"):
                optimizer.minimize(lambda: variables[0] * 1.0, variables[:1])
        self.assertEqual(float(variables[1]), 1.0)
        with self.assertRaisesRegex(ValueError, "^LossScaleOptimizer: .* at least one gradient that is not None"):
            optimizer.apply_gradients([(None, each) for each in variables])
