"""Modules list the names that are back, as they did: `dir`, `import *`, `inspect`."""

from __future__ import annotations

import importlib
import inspect
import unittest
from typing import Any

import tensorflow as tf
from parameterized import parameterized

import mpls

POLICIES = ("LossScaleOptimizer", "Policy", "get_layer_policy", "global_policy", "set_policy")
SCALES = ("DynamicLossScale", "FixedLossScale", "LossScale")
MANAGERS = ("ExponentialUpdateLossScaleManager", "FixedLossScaleManager", "LossScaleManager", "LossScaleOptimizer")
# What there was, as `import *` of the last release that had it binds it.
NAMESPACES = [
    ("tensorflow.keras.mixed_precision.experimental", POLICIES),
    ("tensorflow.compat.v2.keras.mixed_precision.experimental", POLICIES),
    ("tf_keras.mixed_precision.experimental", POLICIES),
    ("tensorflow.mixed_precision", ("experimental",)),
    ("tensorflow.mixed_precision.experimental", SCALES),
    ("tensorflow.contrib.mixed_precision", MANAGERS),
    ("tensorflow.contrib.mixed_precision.python.loss_scale_manager", MANAGERS[:3]),
    ("tensorflow.python.keras.mixed_precision.experimental.loss_scale", ("deserialize", "get", "serialize")),
]
# Modules that are still there, and what they have gained.
GAINED = [
    ("tensorflow.keras.mixed_precision", ("experimental",)),
    ("tensorflow.train.experimental", (*SCALES, "enable_mixed_precision_graph_rewrite")),
    ("tensorflow.python.training.experimental.loss_scale", ("get_loss_scale_weights",)),
    ("tensorflow", ("mixed_precision",)),
]


def bound_by(statement: str) -> dict[str, Any]:
    """Return what an import statement of a program binds."""
    bound: dict[str, Any] = {"__name__": "__main__"}
    exec(statement, bound)
    return {name: value for name, value in bound.items() if not name.startswith("__")}


class NamespacesTest(unittest.TestCase):
    @parameterized.expand(NAMESPACES)
    def test_a_restored_one_lists_what_it_had(self, name: str, members: tuple[str, ...]) -> None:
        mpls.install(contrib=True)
        module = importlib.import_module(name)
        self.assertEqual([each for each in dir(module) if not each.startswith("_")], sorted(members))
        self.assertEqual(module.__all__, sorted(members))
        found = bound_by(f"from {name} import *")
        self.assertEqual(found, {each: getattr(module, each) for each in members})
        self.assertEqual({each: value for each, value in inspect.getmembers(module) if each in members}, found)


class ExistingModulesTest(unittest.TestCase):
    @parameterized.expand(GAINED)
    def test_what_they_gain_is_listed(self, name: str, gained: tuple[str, ...]) -> None:
        module = importlib.import_module(name)
        before = dir(module)
        mpls.install()
        self.assertLessEqual(set(gained), set(dir(module)) - set(before))
        self.assertLessEqual(set(before), set(dir(module)))
        members = dict(inspect.getmembers(module))
        self.assertEqual({each: members[each] for each in gained}, {each: getattr(module, each) for each in gained})
        mpls.uninstall()
        self.assertEqual(dir(module), before)

    def test_import_star_binds_what_it_did_and_what_is_back(self) -> None:
        statement = "from tensorflow.keras.mixed_precision import *"
        before = bound_by(statement)
        mpls.install()
        after = bound_by(statement)
        self.assertEqual(after.pop("experimental"), tf.keras.mixed_precision.experimental)
        self.assertEqual(after, before)
        mpls.uninstall()
        self.assertEqual(bound_by(statement), before)

    def test_replaced_names_are_what_import_star_binds(self) -> None:
        statement = "from tensorflow.compat.v1.mixed_precision import *"
        before = bound_by(statement)
        mpls.install(replace_existing=True)
        after = bound_by(statement)
        self.assertEqual(set(after), set(before))
        self.assertIs(after["DynamicLossScale"], mpls.v1.DynamicLossScale)
