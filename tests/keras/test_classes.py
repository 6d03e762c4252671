"""The public classes are ordinary ones; instances are of concrete subclasses, one for each class and family."""

from __future__ import annotations

import gc
import itertools
import unittest
import warnings
import weakref
from typing import Any

import keras
import pytest
import tensorflow as tf
from parameterized import parameterized

import mpls.experimental
import mpls.keras
from tests.keras.families import NATIVE, OPTIMIZERS
from tests.processes import run_python

ORDERS = [("_".join(order), order) for order in itertools.permutations(OPTIMIZERS)]


class Mixin:
    """Has a part in what the wrapper does."""

    def get_unscaled_gradients(self, grads: Any) -> Any:
        self.seen = [*getattr(self, "seen", []), "mixin"]
        return super().get_unscaled_gradients(grads)  # type: ignore[misc]

    def added(self) -> str:
        return "mixin"


def _plain(base: Any) -> Any:
    class Sub(base):  # type: ignore[misc]
        pass

    return Sub


def _with_super_of_class(base: Any) -> Any:
    class Sub(base):  # type: ignore[misc]
        def get_unscaled_gradients(self, grads: Any) -> Any:
            self.seen = [*getattr(self, "seen", []), "sub"]
            return super(self.__class__, self).get_unscaled_gradients(grads)

        def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
            return super(self.__class__, self).apply_gradients(*args, **kwargs)

        def get_config(self) -> Any:
            return super(self.__class__, self).get_config()

    return Sub


def _mixed_in_before(base: Any) -> Any:
    return type("Sub", (Mixin, base), {})


def _mixed_in_after(base: Any) -> Any:
    return type("Sub", (_plain(base), Mixin), {})


def _by_library(base: Any) -> Any:
    # As Horovod does it, of the class of an instance.
    instance, members = made(_plain(base), "legacy"), vars(_with_super_of_class(base))
    members = {name: each for name, each in members.items() if name not in ("__dict__", "__weakref__")}
    return type(instance.__class__.__name__, (instance.__class__,), members)


HOW = [_plain, _with_super_of_class, _mixed_in_before, _mixed_in_after, _by_library]
PUBLIC = {"new": mpls.keras.LossScaleOptimizer, "experimental": mpls.experimental.LossScaleOptimizer}


def made(cls: Any, family: str) -> Any:
    args = ("dynamic",) if issubclass(cls, mpls.experimental.LossScaleOptimizer) else ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cls(OPTIMIZERS[family].SGD(0.5), *args)


class ClassTest(unittest.TestCase):
    def check(self, optimizer: Any, cls: Any, family: str) -> None:
        self.assertIsInstance(optimizer, cls)
        self.assertTrue(issubclass(type(optimizer), optimizer.__class__))
        shown = type(optimizer).__name__ if cls in PUBLIC.values() else cls.__qualname__
        self.assertEqual(type(optimizer).__qualname__, shown)
        self.assertEqual(repr(optimizer), f"<{cls.__module__}.{shown} object at {id(optimizer):#x}>")
        self.assertEqual(type(optimizer).__doc__, cls.__doc__)
        self.assertEqual([name for name, each in OPTIMIZERS.items() if isinstance(optimizer, each.Optimizer)], [family])
        self.assertIsInstance(optimizer, NATIVE[family])
        self.assertTrue({"apply_gradients", "get_scaled_loss", "inner_optimizer"} <= set(dir(optimizer)))
        variable = tf.Variable(1.0) if family != "keras3" else keras.Variable(1.0)
        optimizer.get_scaled_loss(tf.constant(1.0))
        optimizer.apply_gradients([(optimizer.get_unscaled_gradients([tf.constant(2.0**15)])[0], variable)])
        self.assertEqual(float(variable), 0.5)

    @parameterized.expand(
        [
            (f"{n}_{how.__name__}_{o}", base, how, order)
            for n, base in PUBLIC.items()
            for how in HOW
            for o, order in ORDERS
        ]
    )
    @pytest.mark.default_run("each value", by=lambda name, base, how, order: (base, how, order))
    def test_of_users_classes(self, name: str, base: Any, how: Any, order: Any) -> None:
        cls = how(base)
        for number, family in enumerate((*order, *order)):
            with self.subTest(family, number=number):
                optimizer = made(cls, family)
                self.check(optimizer, cls, family)
                self.check(made(base, family), base, family)
                self.assertIs(optimizer.__class__, cls)
                self.assertIs(type(optimizer), type(made(cls, family)))
                for other in (made(base, family), NATIVE[family](OPTIMIZERS[family].SGD())):
                    self.assertNotIsInstance(other, cls)
                self.assertEqual(type(optimizer).__name__, cls.__name__)
                self.assertEqual(type(optimizer).__module__, cls.__module__)
                if "super" in how.__name__:
                    self.assertIn("sub", optimizer.seen)
                # What comes after the wrapper's class is asked for what that lacks only.
                self.assertEqual(hasattr(optimizer, "seen") and "mixin" in optimizer.seen, how is _mixed_in_before)
                if how is _mixed_in_after:
                    self.assertEqual(optimizer.added(), "mixin")

    @parameterized.expand([(f"{n}_{family}", base, family) for n, base in PUBLIC.items() for family in OPTIMIZERS])
    def test_a_class_of_an_instance_of_mpls_keeps_its_family(self, name: str, base: Any, family: str) -> None:
        below = _with_super_of_class(made(base, family).__class__)
        self.check(made(below, family), below, family)
        other = next(each for each in OPTIMIZERS if each != family)
        with self.assertRaisesRegex(TypeError, f"be of the family '{family}'.*Derive the class from mpls.keras"):
            made(below, other)

    @parameterized.expand([(f"{n}_{how.__name__}", base, how) for n, base in PUBLIC.items() for how in HOW])
    @pytest.mark.default_run("each value", by=lambda name, *values: values)
    def test_a_class_is_freed_with_its_concrete_classes(self, name: str, base: Any, how: Any) -> None:
        def used() -> list[Any]:
            cls = how(base)
            optimizers = {family: made(cls, family) for family in OPTIMIZERS}
            for family, optimizer in optimizers.items():
                self.check(optimizer, cls, family)
            return [weakref.ref(each) for each in (cls, *optimizers.values(), *map(type, optimizers.values()))]

        references = used()
        gc.collect()
        self.assertEqual([each() for each in references], [None] * 7)

    @parameterized.expand([(f"{n}_{family}", base, family) for n, base in PUBLIC.items() for family in OPTIMIZERS])
    def test_methods_can_be_called_on_the_class(self, name: str, base: Any, family: str) -> None:
        """As constructors of Python 2's style call those of a base class."""

        class Sub(base):  # type: ignore[misc]
            def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
                return base.apply_gradients(self, *args, **kwargs)

            def get_weights(self) -> Any:
                return ["mine", *base.get_weights(self)]

        self.check(optimizer := made(Sub, family), Sub, family)
        self.assertEqual(
            (optimizer.get_weights()[0], len(optimizer.get_weights())), ("mine", 1 + len(optimizer.weights))
        )
        absent = "get_slot_names" if family != "legacy" else "check_finite"
        with self.assertRaisesRegex(AttributeError, f"has no attribute '{absent}'"):
            getattr(base, absent)(optimizer)


PROGRAM = """
import inspect, pydoc, sys, warnings
import mpls.experimental, mpls.keras
warnings.simplefilter("ignore")
classes = mpls.keras.LossScaleOptimizer, mpls.experimental.LossScaleOptimizer

def seen(cls):
    text = pydoc.plain(pydoc.render_doc(cls))
    for name in {names}:
        assert f" {{name}}(" in text or f" {{name}}\\n" in text, name
        assert inspect.getdoc(getattr(cls, name)), name
    return sorted({{*dir(cls)}} - {{"_concrete_classes"}}), list(map(str, cls.__mro__)), str(inspect.signature(cls))

first = list(map(seen, classes))
import keras, tf_keras
optimizers = {{"legacy": tf_keras.optimizers.legacy, "new": tf_keras.optimizers, "keras3": keras.optimizers}}
for family in sys.argv[1:]:
    mpls.keras.LossScaleOptimizer(optimizers[family].SGD(0.5))
    mpls.experimental.LossScaleOptimizer(optimizers[family].SGD(0.5), "dynamic")
assert list(map(seen, classes)) == first
"""
# What a user can call or read, in one family at least.
METHODS = (
    *("minimize", "apply_gradients", "get_scaled_loss", "get_unscaled_gradients", "scale_loss", "apply", "build"),
    *("set_scale", "configure", "state_dict", "load_state_dict", "get_config", "from_config", "overflow_report"),
    *("check_skips", "get_weights", "set_weights", "compute_gradients", "get_slot", "add_slot", "aggregate_gradients"),
)
PROPERTIES = ("loss_scale", "dynamic", "learning_rate", "inner_optimizer", "iterations", "variables", "applied_steps")


@pytest.mark.programs
class PublicClassTest(unittest.TestCase):
    """What a process sees of the classes before it wraps anything, and after."""

    @parameterized.expand(ORDERS)
    @pytest.mark.default_run("one case", rest="full")
    def test_the_same_class_before_and_after(self, name: str, order: Any) -> None:
        program = PROGRAM.format(names=(*METHODS, *PROPERTIES))
        done = run_python("-c", program, *order)
        self.assertEqual(done.returncode, 0, done.stderr)
