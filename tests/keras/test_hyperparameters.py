"""Hyperparameters that are read and set on a wrapper are those of what it wraps; subclasses keep theirs."""

from __future__ import annotations

import inspect
import unittest
import warnings
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.experimental
import mpls.keras
from mpls.errors import MplsDeprecationWarning, MplsError

Ours = mpls.keras.LossScaleOptimizer
OPTIMIZERS: dict[str, Any] = {
    "legacy": tf_keras.optimizers.legacy,
    "new": tf_keras.optimizers,
    "keras3": keras.optimizers,
}
# What sets a number to another that is valid.
CHANGED: dict[str, Any] = {"exclude_layers": ["head"], "gradient_aggregator": sum, "gradient_transformers": [sum]}
NOT_SET = {"name", "loss_scale_factor", "learning_rate"}


class Plain(Ours):
    """Of a user, without anything of its own."""


def experimental(inner: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MplsDeprecationWarning)
        return mpls.experimental.LossScaleOptimizer(inner, "dynamic")


def classes(family: str) -> list[Any]:
    module = OPTIMIZERS[family]
    found = [getattr(module, name) for name in dir(module)]
    kept = [each for each in found if inspect.isclass(each) and issubclass(each, module.Optimizer)]
    others = (module.Optimizer, keras.optimizers.LossScaleOptimizer, getattr(keras.optimizers, "MultiOptimizer", None))
    return [each for each in kept if each not in others]


def settings_of(cls: Any, optimizer: Any) -> list[str]:
    """Return what a constructor takes and the optimizer has under that name, by another way than mpls finds it."""
    names = {*inspect.signature(cls).parameters, "clipnorm", "clipvalue", "global_clipnorm"} - NOT_SET
    return sorted(name for name in names if name in optimizer.get_config() and hasattr(optimizer, name))


def value_of(value: Any) -> Any:
    return float(value) if hasattr(value, "numpy") else value


def changed(name: str, value: Any) -> Any:
    if name in CHANGED:
        return CHANGED[name]
    if isinstance(value, bool):
        return not value
    return 0.375 if value is None or isinstance(value, float) else value + 1


class EveryNameTest(unittest.TestCase):
    @parameterized.expand([(f"{f}_{c.__name__}", f, c) for f in OPTIMIZERS for c in classes(f)])
    @pytest.mark.default_run("one case")
    def test_reaches_the_wrapped_optimizer(self, case: str, family: str, cls: Any) -> None:
        for wrap in (Ours, Plain, experimental):
            inner = cls()
            optimizer = wrap(inner)
            names = settings_of(cls, inner)
            self.assertGreater(len(names), 0)
            for name in names:
                with self.subTest(name=name):
                    before = value_of(getattr(inner, name))
                    self.assertEqual(value_of(getattr(optimizer, name)), before)
                    value = changed(name, before)
                    setattr(optimizer, name, value)
                    self.assertEqual(value_of(getattr(inner, name)), value)
                    self.assertEqual(value_of(getattr(optimizer, name)), value)
                    self.assertIsNot(vars(optimizer).get(name, inner), value)

    def test_a_factor_of_the_wrapped_one_is_refused(self) -> None:
        optimizer = Ours(keras.optimizers.SGD())
        optimizer.loss_scale_factor = None
        with self.assertRaisesRegex(ValueError, "dynamic=False, initial_scale=128") as caught:
            optimizer.loss_scale_factor = 128  # type: ignore[assignment]
        self.assertIsInstance(caught.exception, MplsError)
        self.assertIsNone(optimizer.inner_optimizer.loss_scale_factor)


def step(optimizer: Any, variable: Any) -> None:
    with tf.GradientTape() as tape:
        loss = optimizer.get_scaled_loss(tf.reduce_sum(variable * variable))
    grads = optimizer.get_unscaled_gradients(tape.gradient(loss, [variable]))
    optimizer.apply_gradients(zip(grads, [variable], strict=True))


SETTINGS = (
    ("momentum", 0.25, {"momentum": 0.5}),
    ("nesterov", True, {"momentum": 0.5}),
    ("lr", 0.25, {}),
    ("learning_rate", 0.25, {}),
    ("clipnorm", 0.25, {}),
    ("global_clipnorm", 0.25, {}),
    ("clipvalue", 0.25, {}),
    ("weight_decay", 0.25, {"weight_decay": 0.5}),
)


class TrainingTest(unittest.TestCase):
    """Beside the optimizer without loss scaling on which the same is set."""

    @parameterized.expand(
        [
            (f"{family}_{name}_{'built' if built else 'new'}", family, name, value, given, built)
            for family in OPTIMIZERS
            for name, value, given in SETTINGS
            for built in (False, True)
            if (family, name) != ("legacy", "weight_decay")
        ]
    )
    @pytest.mark.default_run("one case")
    def test_as_if_set_on_the_inner(
        self, case: str, family: str, name: str, value: Any, given: dict[str, Any], built: bool
    ) -> None:
        for is_function in (False, True):
            bare, inner = (OPTIMIZERS[family].SGD(0.5, **given) for _ in range(2))
            optimizer = Ours(inner)
            weights = [tf.Variable([1.0, 2.0]) for _ in range(2)]

            def bare_step(bare: Any = bare, weight: Any = weights[0]) -> None:
                bare.apply_gradients([(weight * 2.0, weight)])

            if built:
                bare_step()
                step(optimizer, weights[1])
            setattr(bare, "learning_rate" if name == "lr" else name, value)
            setattr(optimizer, name, value)
            train = tf.function(step) if is_function else step
            for _ in range(2):
                bare_step()
                train(optimizer, weights[1])
            np.testing.assert_array_equal(weights[0], weights[1])

    @parameterized.expand([("new", "new"), ("keras3", "keras3")])
    def test_a_traced_step_keeps_what_is_a_python_number(self, name: str, family: str) -> None:
        optimizer = Ours(OPTIMIZERS[family].SGD(0.5, momentum=0.5))
        variable = tf.Variable([1.0, 2.0])
        optimizer.build([variable])
        train = tf.function(lambda: step(optimizer, variable))
        train()
        optimizer.momentum = 0.0
        optimizer.learning_rate = 0.0
        before = variable.numpy()
        train()
        # The learning rate is a variable; the momentum is in the graph.
        self.assertFalse(np.array_equal(variable.numpy(), before))
        tf.function(lambda: step(optimizer, variable))()
        np.testing.assert_array_equal(optimizer.inner_optimizer.momentum, 0.0)

    @parameterized.expand([(f, f) for f in ("new", "keras3")])
    def test_averages_of_weights(self, name: str, family: str) -> None:
        bare, optimizer = OPTIMIZERS[family].SGD(0.5), Ours(OPTIMIZERS[family].SGD(0.5))
        weights = [tf.Variable([1.0, 2.0]) for _ in range(2)]
        for each, variable in zip((bare, optimizer), weights, strict=True):
            each.use_ema, each.ema_momentum, each.learning_rate = True, 0.5, 0.25
            for _ in range(2):
                step(optimizer, variable) if each is optimizer else each.apply_gradients([(variable * 2.0, variable)])
            before = variable.numpy()
            each.finalize_variable_values([variable])
            self.assertFalse(np.array_equal(variable.numpy(), before))
        np.testing.assert_array_equal(*weights)


class WithItsOwn(Ours):
    """Has attributes that the wrapped optimizer has too, made in every place where a class makes them."""

    nesterov = "of the class"

    def __init__(self, inner: Any, **kwargs: Any) -> None:
        self.my_thing = [1]
        self.epsilon = "before"
        super().__init__(inner, **kwargs)
        self.momentum = "after"
        self._set_up()

    def _set_up(self) -> None:
        self.weight_decay_of_mine = 3
        self.rho = "after, further down"

    @property
    def centered(self) -> str:
        return "a property"

    @property
    def failing(self) -> Any:
        return self.my_thing.no_such_thing  # type: ignore[attr-defined]


class SubclassTest(unittest.TestCase):
    @parameterized.expand([("new", "new"), ("keras3", "keras3")])
    def test_what_it_defines_is_its_own(self, name: str, family: str) -> None:
        inner = OPTIMIZERS[family].RMSprop(0.5, rho=0.5, momentum=0.25, epsilon=0.125)
        optimizer = WithItsOwn(inner, initial_scale=8)
        self.assertEqual((inner.rho, inner.momentum, inner.epsilon, inner.centered), (0.5, 0.25, 0.125, False))
        expected = ("of the class", [1], "before", "after", "after, further down", "a property", 3)
        names = ("nesterov", "my_thing", "epsilon", "momentum", "rho", "centered", "weight_decay_of_mine")
        self.assertEqual(tuple(getattr(optimizer, each) for each in names), expected)
        optimizer.momentum = optimizer.nesterov = "again"
        self.assertEqual((optimizer.momentum, optimizer.nesterov, inner.momentum), ("again", "again", 0.25))
        optimizer.new_thing = {"any": "value"}  # type: ignore[attr-defined]
        self.assertEqual(optimizer.new_thing, {"any": "value"})  # type: ignore[attr-defined]
        self.assertFalse(hasattr(inner, "new_thing"))
        optimizer.ema_momentum = 0.5
        self.assertEqual(inner.ema_momentum, 0.5)
        with self.assertRaisesRegex(AttributeError, "'list' object has no attribute 'no_such_thing'|no_such_thing"):
            _ = optimizer.failing

    def test_legacy_variables_go_on_as_with_the_original(self) -> None:
        inner = tf_keras.optimizers.legacy.RMSprop(0.5, rho=0.5, momentum=0.25, epsilon=0.125)

        class Setting(Ours):
            def __init__(self, inner: Any) -> None:
                super().__init__(inner)
                self.momentum = 0.75
                self.epsilon = 3

        optimizer = Setting(inner)
        self.assertEqual((float(inner.momentum), inner.epsilon), (0.75, 0.125))
        self.assertEqual((float(optimizer.momentum), optimizer.epsilon), (0.75, 3))

    @parameterized.expand(OPTIMIZERS)
    def test_settings_of_a_users_optimizer(self, family: str) -> None:
        class Warming(OPTIMIZERS[family].SGD):  # type: ignore[misc]
            def __init__(self, learning_rate: float = 0.5, warmup: int = 3, hidden: int = 1, **kwargs: Any) -> None:
                super().__init__(learning_rate, **kwargs)
                self.warmup = warmup
                self.something_else = hidden

        inner = Warming()
        optimizer = Ours(inner)
        optimizer.warmup, optimizer.something_else = 5, 6  # type: ignore[attr-defined]
        self.assertEqual((inner.warmup, inner.something_else), (5, 1))
        self.assertEqual(optimizer.warmup, 5)  # type: ignore[attr-defined]
        with self.assertRaisesRegex(AttributeError, "'hidden'"):
            _ = optimizer.hidden  # type: ignore[attr-defined]


if __name__ == "__main__":
    unittest.main()
