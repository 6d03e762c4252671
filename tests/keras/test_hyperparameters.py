"""Hyperparameters that are read and set on a wrapper are those of what it wraps; other attributes are the wrapper's."""

from __future__ import annotations

import functools
import inspect
import unittest
import warnings
from typing import Any

import keras
import pytest
from parameterized import parameterized

import mpls
import mpls.keras
from mpls.errors import MplsError, MplsWarning
from tests.documented.families import experimental
from tests.keras.families import OPTIMIZERS

Ours = mpls.keras.LossScaleOptimizer
# The classes of Keras' wrappers have these, as properties or from their base, so that frameworks read them there.
OF_ALL_WRAPPERS = {"clipnorm", "clipvalue", "global_clipnorm", "learning_rate"}
OF_WRAPPERS = {
    "legacy": OF_ALL_WRAPPERS,
    "new": {*OF_ALL_WRAPPERS, "use_ema", "ema_momentum"},
    "keras3": {
        *OF_ALL_WRAPPERS,
        *("use_ema", "ema_momentum", "ema_overwrite_frequency", "weight_decay", "gradient_accumulation_steps"),
    },
}


class Plain(Ours):
    """Of a user, without anything of its own."""


def classes(family: str) -> list[Any]:
    module = OPTIMIZERS[family]
    found = [getattr(module, name) for name in dir(module)]
    kept = [each for each in found if inspect.isclass(each) and issubclass(each, module.Optimizer)]
    others = (module.Optimizer, keras.optimizers.LossScaleOptimizer, getattr(keras.optimizers, "MultiOptimizer", None))
    return [each for each in kept if each not in others]


@functools.cache
def kept_by_set_hyper() -> set[str]:
    """Return the hyperparameters of all legacy optimizers."""
    return {name for cls in classes("legacy") for name in cls()._hyper}


def handed_on(family: str, optimizer: Any) -> set[str]:
    """Return what is read and set through the wrapper, by another way than mpls finds it."""
    named = kept_by_set_hyper() if family != "legacy" else {*optimizer._hyper}
    return {name for name in {*named, *OF_WRAPPERS[family]} if hasattr(optimizer, name)}


def public_attributes(optimizer: Any) -> set[str]:
    names = {*vars(optimizer), *getattr(optimizer, "_hyper", ()), *optimizer.get_config()}
    return {name for name in names if not name.startswith("_") and hasattr(optimizer, name)}


def value_of(value: Any) -> Any:
    return float(value) if hasattr(value, "numpy") else value


def changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return 0.375 if value is None or isinstance(value, float) else value + 1


def warnings_of_setting(instance: Any, name: str, value: Any) -> list[str]:
    """Return the messages of the warnings of mpls."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        setattr(instance, name, value)
    return [str(each.message) for each in caught if issubclass(each.category, MplsWarning)]


class EveryNameTest(unittest.TestCase):
    @parameterized.expand([(f"{f}_{c.__name__}", f, c) for f in OPTIMIZERS for c in classes(f)])
    @pytest.mark.default_run("each value", by=lambda case, family, cls: (family,))
    def test_hyperparameters_are_those_of_the_wrapped_optimizer(self, case: str, family: str, cls: Any) -> None:
        for wrap in (Ours, Plain, experimental):
            inner = cls()
            optimizer = wrap(inner)
            for name in handed_on(family, inner):
                with self.subTest(name=name):
                    before = value_of(getattr(inner, name))
                    self.assertEqual(value_of(getattr(optimizer, name)), before)
                    value = changed(before)
                    self.assertEqual(warnings_of_setting(optimizer, name, value), [])
                    self.assertEqual(value_of(getattr(inner, name)), value)
                    self.assertEqual(value_of(getattr(optimizer, name)), value)
                    self.assertIn(name, dir(optimizer))
                    self.assertIsNot(vars(optimizer).get(name, inner), value)

    @parameterized.expand([(f"{f}_{c.__name__}", f, c) for f in OPTIMIZERS for c in classes(f)])
    @pytest.mark.default_run("one case")
    def test_other_attributes_are_not(self, case: str, family: str, cls: Any) -> None:
        for wrap in (Ours, Plain, experimental):
            inner = cls()
            optimizer = wrap(inner)
            # These are of the class of Keras' wrapper, with meanings of their own.
            others = public_attributes(inner) - handed_on(family, inner) - {"name", "loss_scale_factor", "built"}
            for name in others - {"iterations", "is_legacy_optimizer"}:
                with self.subTest(name=name):
                    before = getattr(inner, name)
                    self.assertNotIn(name, dir(optimizer))
                    words = f"'{type(optimizer).__name__}' object has no attribute '{name}'"
                    with self.assertRaises(AttributeError) as caught:
                        getattr(optimizer, name)
                    self.assertEqual(str(caught.exception), words)
                    messages = warnings_of_setting(optimizer, name, 0.375)
                    self.assertEqual(len(messages), 1, messages)
                    self.assertIn(f"opt.inner_optimizer.{name} = value", messages[0])
                    self.assertIn(f"{cls.__name__}, which it wraps", messages[0])
                    self.assertEqual((getattr(optimizer, name), vars(optimizer)[name]), (0.375, 0.375))
                    self.assertEqual(warnings_of_setting(optimizer, name, 0.5), [])
                    self.assertIs(getattr(inner, name), before)

    def test_a_factor_of_the_wrapped_one_is_refused(self) -> None:
        optimizer = Ours(keras.optimizers.SGD())
        optimizer.loss_scale_factor = None
        with self.assertRaisesRegex(ValueError, "dynamic=False, initial_scale=128") as caught:
            optimizer.loss_scale_factor = 128  # type: ignore[assignment]
        self.assertIsInstance(caught.exception, MplsError)
        self.assertIsNone(optimizer.inner_optimizer.loss_scale_factor)


class WithItsOwn(Ours):
    """Has attributes that the wrapped optimizer has too, made before and after the constructor of its base."""

    nesterov = "of the class"

    def __init__(self, inner: Any, **kwargs: Any) -> None:
        self.epsilon = "before"
        super().__init__(inner, **kwargs)
        self.momentum = "after"

    @property
    def centered(self) -> str:
        return "a property"


class SubclassTest(unittest.TestCase):
    @parameterized.expand([("new",), ("keras3",)])
    def test_what_it_defines_is_its_own(self, family: str) -> None:
        inner = OPTIMIZERS[family].RMSprop(0.5, momentum=0.25, epsilon=0.125)
        optimizer: Any = WithItsOwn(inner, initial_scale=8)
        self.assertEqual((inner.momentum, inner.epsilon, inner.centered), (0.25, 0.125, False))
        found = optimizer.nesterov, optimizer.epsilon, optimizer.momentum, optimizer.centered
        self.assertEqual(found, ("of the class", "before", "after", "a property"))
        optimizer.momentum = optimizer.nesterov = "again"
        self.assertEqual((optimizer.momentum, optimizer.nesterov, inner.momentum), ("again", "again", 0.25))
        optimizer.new_thing = "any value"
        self.assertEqual((optimizer.new_thing, hasattr(inner, "new_thing")), ("any value", False))
        optimizer.ema_momentum = 0.5
        self.assertEqual(inner.ema_momentum, 0.5)

    @parameterized.expand([(f"{f}_{r}", f, r) for f in OPTIMIZERS for r in ("1.15", "2.3", "2.4", None)])
    def test_the_experimental_class_as_of_a_release(self, name: str, family: str, release: str | None) -> None:
        """Up to TF 2.3, it had the learning rate alone."""
        with mpls.install(as_of=release):
            optimizer = experimental(OPTIMIZERS[family].Adam(0.5, beta_1=0.75))
        inner = optimizer.inner_optimizer
        has = release in ("2.4", None)
        self.assertEqual((hasattr(optimizer, "beta_1"), "beta_1" in dir(optimizer)), (has, has))
        messages = warnings_of_setting(optimizer, "beta_1", 0.25)
        self.assertEqual((len(messages), float(inner.beta_1)), (0, 0.25) if has else (1, 0.75))
        optimizer.lr = 0.25
        self.assertEqual((float(inner.learning_rate), float(optimizer.learning_rate)), (0.25, 0.25))
