"""The native classes are bases for recognition: nothing that they define runs in ours."""

from __future__ import annotations

import types
import unittest
from typing import Any

import keras
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.keras
import mpls.v1
from mpls.upstream.keras_packages import native_tf_keras_wrapper

v1 = tf.compat.v1
NATIVE = v1.mixed_precision

# What is no behaviour: Python makes it for every class.
MADE_BY_PYTHON = {"__dict__", "__weakref__", "__module__", "__doc__", "__abstractmethods__", "__init_subclass__"}
METHODS = (types.FunctionType, staticmethod, classmethod, property)

PAIRS: dict[str, tuple[Any, Any]] = {
    "FixedLossScale": (mpls.v1.FixedLossScale, NATIVE.FixedLossScale),
    "DynamicLossScale": (mpls.v1.DynamicLossScale, NATIVE.DynamicLossScale),
    "LossScale": (mpls.v1.LossScale, NATIVE.LossScale),
    "v1 optimizer": (mpls.v1.MixedPrecisionLossScaleOptimizer, NATIVE.MixedPrecisionLossScaleOptimizer),
    "legacy optimizer": (
        type(mpls.keras.LossScaleOptimizer(tf_keras.optimizers.legacy.SGD())),
        native_tf_keras_wrapper(over_new=False),
    ),
    "new optimizer": (
        type(mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD())),
        native_tf_keras_wrapper(over_new=True),
    ),
    "Keras 3 optimizer": (
        type(mpls.keras.LossScaleOptimizer(keras.optimizers.SGD())),
        keras.optimizers.LossScaleOptimizer,
    ),
}


def natives_of(cls: type, top: type) -> list[type]:
    """Return the class and those of its bases that are loss-scaling code, down to the general optimizers."""
    modules = ("loss_scale", "loss_scale_optimizer")
    return [base for base in cls.__mro__ if base is top or base.__module__.rpartition(".")[2] in modules]


def defining_module(cls: type, name: str) -> str:
    """Return the module of the class that an attribute of a class comes from."""
    for base in cls.__mro__:
        if name in vars(base):
            value = vars(base)[name]
            fn = getattr(value, "fget", None) or getattr(value, "__func__", value)
            # A member that is taken over by assignment counts as what it is, not as where it stands.
            return getattr(fn, "__module__", None) or base.__module__
    raise AttributeError(name)


def inherited(ours: type, native: type) -> dict[str, str]:
    """Return what a native class defines and ours does not override, with the module that it comes from."""
    names = {
        name
        for base in natives_of(native, native)
        for name, value in vars(base).items()
        if isinstance(value, METHODS) and name not in MADE_BY_PYTHON
    }
    modules = {name: defining_module(ours, name) for name in sorted(names)}
    return {name: module for name, module in modules.items() if is_native(module)}


def is_native(module: str) -> bool:
    return module.rpartition(".")[2] in ("loss_scale", "loss_scale_optimizer") and not module.startswith("mpls")


class OverrideTest(unittest.TestCase):
    @parameterized.expand([(name, *pair) for name, pair in PAIRS.items()])
    def test_every_method_of_the_native_class_is_overridden(self, name: str, ours: type, native: type) -> None:
        self.assertTrue(issubclass(ours, native))
        # The base class of the LossScale classes is theirs by inheritance too.
        names = [base.__name__ for base in natives_of(native, native)]
        self.assertGreaterEqual(len(names), 1, names)
        self.assertEqual(inherited(ours, native), {})
