"""`uninstall` takes away what is mpls', and leaves what others have done since."""

from __future__ import annotations

import builtins
import gc
import importlib
import os
import sys
import unittest
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

import keras
import tensorflow as tf
from parameterized import parameterized

import mpls
import mpls.keras
from mpls.importing.namespaces import hosts
from mpls.names import module_of, namespaces
from mpls.upstream.modules import KERAS_VARIABLE as VARIABLE


def every_namespace() -> list[str]:
    """Return the names by which programs import what is gone."""
    paths = sorted(path for path, rows in namespaces().items() if any(row.last is not None for row in rows))
    return [module_of(path) for path in paths]


def state() -> dict[str, Any]:
    """Return all that an installation could change."""
    loaded = {name: module for name, module in sys.modules.items() if isinstance(module, ModuleType)}
    return {
        "modules": {name: id(module) for name, module in loaded.items()},
        "finders": list(sys.meta_path),
        "attributes": {
            name: {key: id(value) for key, value in vars(loaded[name]).items()} for name in loaded if name in hosts()
        },
        "classes": {name: id(type(loaded[name])) for name in loaded if name in hosts()},
        "imports": [id(builtins.__import__), id(importlib.import_module), os.environ.get(VARIABLE)],
        "listed": {name: dir(loaded[name]) for name in loaded if name in hosts()},
        "public": {name: list(getattr(loaded[name], "__all__", ())) for name in loaded if name in hosts()},
    }


class TheirFinder(MetaPathFinder):
    """Asks all others, as mpls' own does."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        finders = [each for each in sys.meta_path if each is not self and hasattr(each, "find_spec")]
        specs = (finder.find_spec(fullname, path, target) for finder in finders)
        return next((spec for spec in specs if spec is not None), None)


class OthersModulesTest(unittest.TestCase):
    @parameterized.expand([("before", True), ("after", False)])
    def test_another_finder_that_asks_all_others(self, name: str, is_before: bool) -> None:
        theirs = TheirFinder()
        self.addCleanup(lambda: sys.meta_path.remove(theirs))
        if is_before:
            sys.meta_path.insert(0, theirs)
        mpls.install()
        if not is_before:
            sys.meta_path.insert(0, theirs)
        self.assertTrue(importlib.import_module("tensorflow.mixed_precision.experimental").DynamicLossScale)
        mpls.uninstall()
        self.assertIn(theirs, sys.meta_path)
        with self.assertRaises(ModuleNotFoundError):
            importlib.import_module("tensorflow.mixed_precision.experimental")


class ManyTimesTest(unittest.TestCase):
    def cycle(self) -> None:
        mpls.install("2.2", replace_existing=True)
        tf.keras.mixed_precision.experimental.LossScaleOptimizer  # noqa: B018
        with mpls.install(contrib=True):
            for module in every_namespace():
                importlib.import_module(module)
            with mpls.install("2.3"):
                importlib.import_module("tensorflow.mixed_precision.experimental")
        mpls.install()
        mpls.uninstall()

    def test_nothing_stacks_or_leaks(self) -> None:
        for _ in range(3):
            self.cycle()
        before, alive = state(), self.alive()
        for _ in range(10):
            self.cycle()
        self.assertEqual(state(), before)
        self.assertEqual(self.alive(), alive)

    def alive(self) -> int:
        gc.collect()
        return sum(type(each).__module__.partition(".")[0] == "mpls" for each in gc.get_objects())


class RewriteTest(unittest.TestCase):
    def test_what_the_program_has_set_by_other_means_stays(self) -> None:
        before = tf.config.optimizer.get_experimental_options().get("auto_mixed_precision")
        self.addCleanup(tf.config.optimizer.set_experimental_options, {"auto_mixed_precision": before})
        mpls.install()
        tf.config.optimizer.set_experimental_options({"auto_mixed_precision": True})
        mpls.uninstall()
        self.assertTrue(tf.config.optimizer.get_experimental_options()["auto_mixed_precision"])


class WhatAProgramHasDoneTest(unittest.TestCase):
    def test_it_stays(self) -> None:
        self.addCleanup(mpls.keras.set_global_policy, None)
        mpls.install()
        experimental = tf.keras.mixed_precision.experimental
        experimental.set_policy("mixed_float16")
        policy = experimental.global_policy()
        inner = tf.keras.optimizers.SGD()
        wrapper = mpls.keras.LossScaleOptimizer(inner)
        mpls.uninstall()
        self.assertIs(tf.keras.mixed_precision.global_policy(), policy)
        self.assertIs(wrapper.inner_optimizer, inner)
        del wrapper
        with self.assertRaisesRegex(ValueError, "be wrapped by one LossScaleOptimizer only"):
            mpls.keras.LossScaleOptimizer(inner)
        # Keras 3 writes the policy as its own, whether names are back or not.
        layer = keras.layers.Dense(1, dtype=mpls.keras.Policy("mixed_float16"))
        self.assertEqual(layer.get_config()["dtype"]["class_name"], "DTypePolicy")
