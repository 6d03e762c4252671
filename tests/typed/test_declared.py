"""What type checkers are told is what there is at run time: names, kinds, signatures, defaults."""

from __future__ import annotations

import inspect
import sys
import typing
import unittest
from collections.abc import Iterator
from typing import Any

import keras
import tf_keras
from parameterized import parameterized

import mpls.contrib
import mpls.keras
import mpls.v1

legacy = tf_keras.optimizers.legacy
INSTANCES: dict[str, Any] = {
    "legacy": mpls.keras.LossScaleOptimizer(legacy.SGD()),
    "new": mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD()),
    "keras3": mpls.keras.LossScaleOptimizer(keras.optimizers.SGD()),
}
V1: Any = mpls.v1.MixedPrecisionLossScaleOptimizer
CONTRIB: Any = mpls.contrib.LossScaleOptimizer

# Public by name, since a family is a module of its own, or for those who write optimizers; nothing that programs call.
INTERNAL = {
    "add_variable",
    "add_variable_from_reference",
    "add_weight",
    "deserialize_optimizer",
    "loss_scale_factor",
    "native_module",
    "serialized_name",
    "update_step",
    "works_with_parameter_servers",
}
# Open after the parameters that all families share.
OPEN = ("apply_gradients", "minimize")
FACTS = ("native_module", "serialized_name", "works_with_parameter_servers")
PUBLIC: Any = mpls.keras.LossScaleOptimizer
METHODS = sorted(name for name in dir(PUBLIC) if not name.startswith("_") and callable(getattr(PUBLIC, name)))
# For type checkers: attributes of instances.
ATTRIBUTES = sorted(
    name for cls in PUBLIC.__mro__ for name in vars(cls).get("__annotations__", {}) if not name.startswith("_")
)


def shape_of(function: Any) -> list[tuple[str, str, str]]:
    """Return the parameters of a function: names, kinds and defaults."""
    parameters = inspect.signature(function).parameters.values()
    return [(each.name, each.kind.name, repr(each.default)) for each in parameters]


def static(instance: Any, name: str) -> Any:
    return inspect.getattr_static(type(instance), name, None)


def of_families(names: Any) -> Iterator[tuple[str, str]]:
    for name in names:
        for family, instance in INSTANCES.items():
            if hasattr(instance, name):
                yield family, name


def hyperparameters() -> set[str]:
    """Return those of every legacy optimizer of tf_keras."""
    classes = [getattr(legacy, name) for name in dir(legacy) if name != "Optimizer"]
    return {name for cls in classes if inspect.isclass(cls) for name in cls()._hyper}


def own_names(instance: Any) -> set[str]:
    """Return the public names that mpls defines for the family of an instance."""
    owners = [cls for cls in type(instance).__mro__ if cls.__module__.startswith("mpls.")]
    return {name for cls in owners for name in vars(cls) if name in dir(instance) and not name.startswith("_")}


class KerasTest(unittest.TestCase):
    """The methods of the public class, and those of its families."""

    @parameterized.expand([pair for pair in of_families(METHODS) if pair[1] not in OPEN])
    def test_signature(self, family: str, name: str) -> None:
        own, declared = static(INSTANCES[family], name), inspect.getattr_static(PUBLIC, name)
        if not isinstance(own, classmethod):
            self.assertEqual(shape_of(own), shape_of(getattr(PUBLIC, name)))
        else:
            self.assertIs(own, declared)

    @parameterized.expand(of_families(OPEN))
    def test_open_signature(self, family: str, name: str) -> None:
        own, (*first, args, kwargs) = shape_of(static(INSTANCES[family], name)), shape_of(getattr(PUBLIC, name))
        self.assertEqual(own[: len(first)], first)
        self.assertEqual([args[1], kwargs[1]], ["VAR_POSITIONAL", "VAR_KEYWORD"])
        documented = inspect.getdoc(getattr(PUBLIC, name)) or ""
        for each, _, _ in own[len(first) :]:
            self.assertIn(each, documented)

    @unittest.skipIf(sys.version_info < (3, 11), "Python keeps no overloads")
    def test_overloads(self) -> None:
        overloads = [shape_of(each) for each in typing.get_overloads(PUBLIC.minimize)]
        found = [shape_of(static(instance, "minimize")) for instance in INSTANCES.values()]
        self.assertEqual([each for each in found if each not in overloads], [])
        self.assertEqual([each for each in overloads if each not in found], [])

    @parameterized.expand(ATTRIBUTES)
    def test_attribute(self, name: str) -> None:
        is_of_family = [
            inspect.isdatadescriptor(static(instance, name)) or name in vars(instance)
            for instance in INSTANCES.values()
        ]
        self.assertTrue(any(is_of_family) or name in {*hyperparameters(), *FACTS})

    def test_every_hyperparameter_is_declared(self) -> None:
        self.assertEqual(hyperparameters() - {*dir(PUBLIC), *ATTRIBUTES}, set())

    @parameterized.expand(INSTANCES)
    def test_nothing_of_a_family_is_left_out(self, family: str) -> None:
        names = own_names(INSTANCES[family])
        self.assertIn("apply_gradients", names)
        self.assertEqual(names - {*dir(PUBLIC), *ATTRIBUTES, *INTERNAL}, set())

    def test_state_of_keras_3_is_declared(self) -> None:
        made = set(vars(INSTANCES["keras3"])) - set(vars(keras.optimizers.SGD()))
        self.assertEqual({name for name in made if not name.startswith("_")} - set(ATTRIBUTES), set())


class TensorFlowTest(unittest.TestCase):
    """The bases that TensorFlow has no types for."""

    @parameterized.expand([("v1", V1), ("contrib", CONTRIB)])
    def test_nothing_public_is_left_out(self, label: str, cls: Any) -> None:
        own = {name for base in cls.__mro__ if base.__module__.startswith("mpls.") for name in vars(base)}
        public = {name for name in dir(cls) if not name.startswith("_")}
        self.assertIn("minimize", public)
        self.assertEqual(public - own, {"GATE_GRAPH", "GATE_NONE", "GATE_OP", "get_name"})
