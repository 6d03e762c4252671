"""Of which class an instance is: the one that was called, whatever optimizer it wraps."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import unittest
import warnings
from typing import Any
from unittest import mock

import keras
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.experimental
import mpls.keras
from mpls.keras.classes import is_twin
from mpls.keras.legacy import LegacyAdapter

OPTIMIZERS: dict[str, Any] = {
    "legacy": tf_keras.optimizers.legacy,
    "new": tf_keras.optimizers,
    "keras3": keras.optimizers,
}
BASES = {
    "legacy": tf_keras.optimizers.legacy.Optimizer,
    "new": tf_keras.optimizers.Optimizer,
    "keras3": keras.optimizers.Optimizer,
}
NATIVES = {
    "legacy": tf_keras.mixed_precision.LossScaleOptimizer,
    "new": tf_keras.mixed_precision.LossScaleOptimizer,
    "keras3": keras.optimizers.LossScaleOptimizer,
}
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


def _with_both_supers(base: Any) -> Any:
    class Sub(_plain(base)):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.mine = 1

        def get_unscaled_gradients(self, grads: Any) -> Any:
            self.seen = [*getattr(self, "seen", []), "sub"]
            return super().get_unscaled_gradients(grads)

        def get_scaled_loss(self, loss: Any) -> Any:
            return super(self.__class__, self).get_scaled_loss(loss)

    return Sub


def _mixed_in_before(base: Any) -> Any:
    return type("Sub", (Mixin, base), {})


def _mixed_in_after(base: Any) -> Any:
    return type("Sub", (_plain(base), Mixin), {})


def _tracking(base: Any) -> Any:
    return type("Sub", (base, tf.__internal__.tracking.AutoTrackable), {})


def _by_library(base: Any) -> Any:
    # As Horovod does it, of the class of an instance.
    instance, members = made(_plain(base), "legacy"), vars(_with_super_of_class(base))
    members = {name: each for name, each in members.items() if name not in ("__dict__", "__weakref__")}
    return type(instance.__class__.__name__, (instance.__class__,), members)


HOW = [_plain, _with_super_of_class, _with_both_supers, _mixed_in_before, _mixed_in_after, _tracking, _by_library]
PUBLIC = {"new": mpls.keras.LossScaleOptimizer, "experimental": mpls.experimental.LossScaleOptimizer}


def made(cls: Any, family: str) -> Any:
    args = ("dynamic",) if issubclass(cls, mpls.experimental.LossScaleOptimizer) else ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cls(OPTIMIZERS[family].SGD(0.5), *args)


class ClassTest(unittest.TestCase):
    def check(self, optimizer: Any, cls: Any, family: str) -> None:
        self.assertIsInstance(optimizer, cls)
        self.assertIs(optimizer.__class__, type(optimizer))
        self.assertEqual([name for name, base in BASES.items() if isinstance(optimizer, base)], [family])
        self.assertIsInstance(optimizer, NATIVES[family])
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
                if family == order[0]:
                    self.assertIs(type(optimizer), cls)
                self.assertEqual(type(optimizer).__name__, cls.__name__)
                self.assertEqual(type(optimizer).__module__, cls.__module__)
                if "super" in how.__name__:
                    self.assertIn("sub", optimizer.seen)
                # What comes after the wrapper's class is asked for what that lacks only.
                self.assertEqual(hasattr(optimizer, "seen") and "mixin" in optimizer.seen, how is _mixed_in_before)
                if how is _mixed_in_after:
                    self.assertEqual(optimizer.added(), "mixin")

    @parameterized.expand(ORDERS)
    @pytest.mark.default_run("one case")
    def test_classes_of_instances_can_be_called(self, name: str, order: Any) -> None:
        cls = _with_super_of_class(mpls.keras.LossScaleOptimizer)
        classes = [type(made(cls, family)) for family in order]
        for of_instance, family in itertools.product(classes, order):
            optimizer = made(of_instance, family)
            self.check(optimizer, cls, family)
            self.assertIs(type(optimizer), classes[order.index(family)])
            self.check(type(optimizer).from_config(optimizer.get_config()), cls, family)

    @parameterized.expand(ORDERS)
    @pytest.mark.default_run("one case")
    def test_subclasses_of_classes_of_instances(self, name: str, order: Any) -> None:
        cls = _plain(mpls.keras.LossScaleOptimizer)
        for family in order:
            below = _with_super_of_class(type(made(cls, family)))
            for other in order:
                self.check(made(below, other), below, other)
            self.assertIs(type(made(below, order[0])), below)

    @parameterized.expand(ORDERS)
    def test_base_classes_that_are_called_later(self, name: str, order: Any) -> None:
        """A class keeps its family, whatever those above it get."""
        above = _plain(mpls.keras.LossScaleOptimizer)
        below = _plain(above)
        instances = [(below, order[0], made(below, order[0])), (above, order[1], made(above, order[1]))]
        instances.append((below, order[2], made(below, order[2])))
        for cls, family, optimizer in instances:
            self.check(optimizer, cls, family)

    @parameterized.expand(ORDERS)
    def test_patches_of_the_frameworks_are_seen(self, name: str, order: Any) -> None:
        """Python keeps what it has found for classes by their bases."""
        cls = _plain(mpls.keras.LossScaleOptimizer)
        optimizers = {family: made(cls, family) for family in order}
        for family, base in BASES.items():
            for number in range(2):
                with mock.patch.object(base, "patched", number, create=True):
                    for other, optimizer in optimizers.items():
                        self.assertEqual(getattr(optimizer, "patched", None), number if other == family else None)
                        self.assertEqual("patched" in dir(optimizer), other == family)

    def test_no_order_of_bases(self) -> None:
        """Bases of the native wrapper, in another order than its own."""
        made(mpls.keras.LossScaleOptimizer, "legacy")
        mixin = next(base for base in LegacyAdapter.__mro__ if base.__name__ == "DelegatingTrackableMixin")
        sub: Any = type("Sub", (mpls.keras.LossScaleOptimizer, BASES["legacy"], mixin), {})
        before = sub.__mro__
        with self.assertRaisesRegex(TypeError, "no order of bases"):
            made(sub, "legacy")
        self.assertEqual(sub.__mro__, before)

    @parameterized.expand([(each,) for each in range(4)])
    def test_threads(self, seed: int) -> None:
        cls = _with_super_of_class(mpls.keras.LossScaleOptimizer)
        start, found = threading.Barrier(6), []

        def make(family: str) -> None:
            start.wait()
            optimizer = made(cls, family)
            found.append((family, optimizer))

        threads = [threading.Thread(target=make, args=(family,)) for family in [*OPTIMIZERS] * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(found), 6)
        for family, optimizer in found:
            self.check(optimizer, cls, family)
        self.assertEqual(len({type(optimizer) for _, optimizer in found if not is_twin(type(optimizer))}), 1)


PROGRAM = """
import sys, warnings
import keras, tensorflow as tf, tf_keras
import mpls
mpls.install()
import mpls.experimental, mpls.keras
warnings.simplefilter("ignore")
{names}
optimizers = {{"legacy": tf_keras.optimizers.legacy, "new": tf_keras.optimizers, "keras3": keras.optimizers}}
first, second = (optimizers[name].SGD(0.5) for name in sys.argv[1:])
opt = cls(first, *args)
assert type(opt) is cls and type(opt) == cls and opt.__class__ is cls, type(opt).__mro__
assert type(opt).__name__ == cls.__name__
other = cls(second, *args)
assert isinstance(other, cls) and type(opt) is cls
assert type(other).__bases__[0] is cls
"""
NAMES = {
    "keras": "cls, args = mpls.keras.LossScaleOptimizer, ()",
    "experimental": "cls, args = tf.keras.mixed_precision.experimental.LossScaleOptimizer, ('dynamic',)",
}


@pytest.mark.programs
class PublicClassTest(unittest.TestCase):
    """The first optimizer that a process wraps decides, and each process has one."""

    @parameterized.expand(
        [
            (f"{n}_{a}_{b}", n, a, b)
            for n in NAMES
            for a, b in (("legacy", "keras3"), ("new", "legacy"), ("keras3", "new"))
        ]
    )
    @pytest.mark.default_run("each value", by=lambda case, *values: values, rest="full")
    def test_type(self, case: str, names: str, first: str, second: str) -> None:
        program = PROGRAM.format(names=NAMES[names])
        done = subprocess.run(
            [sys.executable, "-c", program, first, second], capture_output=True, text=True, timeout=300
        )
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
