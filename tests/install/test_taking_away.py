"""`uninstall` takes away what is mpls', and leaves what others have done since."""

from __future__ import annotations

import builtins
import gc
import importlib
import os
import sys
import unittest
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

import keras
import tensorflow as tf
from parameterized import parameterized

import mpls
import mpls.keras
from mpls.importing.hooks import Hooks, Namespace, Overlay
from mpls.importing.namespaces import hosts
from mpls.importing.post_import import Finder
from mpls.install import Installation
from mpls.names import NAMES, module_of, namespaces
from mpls.patches import ABSENT, Layer
from mpls.upstream.modules import KERAS_VARIABLE as VARIABLE

IMPORTED = ("mpls.contrib", "mpls.experimental.loss_scales", "mpls.keras", "mpls.v1", "tf_keras", "keras")
# Modules of Python, of Keras, and one that TensorFlow wraps, with a name that still works, and with one that does not.
TAKEN = [
    ("wrapped", lambda: tf.compat.v1.mixed_precision, "DynamicLossScale"),
    ("keras", lambda: tf.keras.mixed_precision, "LossScaleOptimizer"),
]
SERVED = [
    ("plain", lambda: tf.train.experimental, "DynamicLossScale"),
    ("keras", lambda: tf.keras.mixed_precision, "experimental"),
    ("root", lambda: tf, "mixed_precision"),
    ("v1", lambda: tf.compat.v1, "contrib"),
]


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


class TakingAwayTestCase(unittest.TestCase):
    def setUp(self) -> None:
        self.addCleanup(mpls.uninstall)
        for module in IMPORTED:
            importlib.import_module(module)
        # What TensorFlow loads and remembers when it is first asked, under names of its own too.
        for module in every_namespace():
            parts = module.split(".")
            for count in range(1, len(parts) + 1):
                try:
                    importlib.import_module(".".join(parts[:count]))
                except ImportError:
                    break
        for name in NAMES:
            if not name.is_private and name.path.startswith("tf."):
                try:
                    eval(name.path, {"tf": tf})
                except AttributeError:
                    continue

    def changed(self, module: Any, attribute: str, value: Any) -> None:
        """Set an attribute as another library would, until the test ends."""
        inner = vars(module).get("_tfmw_wrapped_module", module)
        before = vars(inner).get(attribute, ABSENT)
        # Not what is mpls' there now.
        before = getattr(getattr(before, "_mpls_layer", None), "original", before)
        vars(inner)[attribute] = value

        def restore() -> None:
            if before is ABSENT or isinstance(before, Namespace):
                vars(inner).pop(attribute, None)
            else:
                vars(inner)[attribute] = before

        self.addCleanup(restore)

    def assert_gone(self) -> None:
        for _, module, attribute in SERVED:
            self.assertFalse(hasattr(module(), attribute), attribute)


def replacing(_: Any) -> Callable[[str], Any]:
    def their_getattr(name: str) -> Any:
        if name == "theirs":
            return "theirs"
        raise AttributeError(name)

    return their_getattr


def wrapping(ours: Any) -> Callable[[str], Any]:
    def their_getattr(name: str) -> Any:
        if name == "theirs" or ours is None:
            return replacing(ours)(name)
        return ours(name)

    return their_getattr


class OthersGetattrTest(TakingAwayTestCase):
    @parameterized.expand(
        [
            (f"{place}_{deed.__name__}", module, attribute, deed)
            for place, module, attribute in SERVED
            for deed in (replacing, wrapping)
        ]
    )
    def test_theirs_stays_and_our_names_go(
        self, name: str, module: Any, attribute: str, deed: Callable[[Any], Any]
    ) -> None:
        holder = module()
        inner = vars(holder).get("_tfmw_wrapped_module", holder)
        settings = {"contrib": True}
        mpls.install(**settings)
        theirs = deed(vars(inner)["__getattr__"])
        self.changed(holder, "__getattr__", theirs)
        is_served = deed is wrapping and attribute != "contrib"
        self.assertEqual(hasattr(holder, attribute), is_served)
        mpls.uninstall()
        self.assertIs(vars(inner)["__getattr__"], theirs)
        self.assertEqual(holder.theirs, "theirs")
        self.assert_gone()
        # And once more, over theirs.
        for _ in range(3):
            with mpls.install(**settings):
                self.assertEqual(hasattr(holder, attribute), attribute != "contrib")
                self.assertEqual(holder.theirs, "theirs")
                with mpls.install("2.2"):
                    self.assertEqual(holder.theirs, "theirs")
            self.assertIs(vars(inner)["__getattr__"], theirs)
            self.assert_gone()

    def test_ours_that_somebody_puts_back_too_late(self) -> None:
        """As `mock.patch` does, begun while names were back and ended after."""
        module = tf.train.experimental
        before = vars(module).get("__getattr__")
        mpls.install()
        ours = vars(module)["__getattr__"]
        vars(module)["__getattr__"] = wrapping(ours)
        mpls.uninstall()
        vars(module)["__getattr__"] = ours
        self.assertFalse(hasattr(module, "DynamicLossScale"))
        with mpls.install():
            self.assertTrue(hasattr(module, "DynamicLossScale"))
        self.assertIs(vars(module).get("__getattr__"), before)


class OthersAttributesTest(TakingAwayTestCase):
    @parameterized.expand(TAKEN)
    def test_what_somebody_has_set_in_place_of_a_name_stays(self, name: str, module: Any, attribute: str) -> None:
        holder = module()
        native = getattr(holder, attribute)
        self.addCleanup(lambda: setattr(holder, attribute, native))
        theirs = type("Theirs", (), {})
        mpls.install(replace_existing=True)
        self.assertIsNot(getattr(holder, attribute), native)
        setattr(holder, attribute, theirs)
        with mpls.install("2.2", replace_existing=True):
            pass
        mpls.uninstall()
        self.assertIs(getattr(holder, attribute), theirs)

    @parameterized.expand(SERVED[:3])
    def test_what_somebody_has_set_under_a_removed_name_stays(self, name: str, module: Any, attribute: str) -> None:
        holder = module()
        mpls.install()
        getattr(holder, attribute)
        self.changed(holder, attribute, "theirs")
        mpls.uninstall()
        self.assertEqual(getattr(holder, attribute), "theirs")


class TheirFinder(MetaPathFinder):
    """Asks all others, as mpls' own does."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        finders = [each for each in sys.meta_path if each is not self and hasattr(each, "find_spec")]
        specs = (finder.find_spec(fullname, path, target) for finder in finders)
        return next((spec for spec in specs if spec is not None), None)


class OthersModulesTest(TakingAwayTestCase):
    def put(self, finder: Any) -> None:
        sys.meta_path.insert(0, finder)
        self.addCleanup(lambda: sys.meta_path.remove(finder))

    @parameterized.expand([("before", True), ("after", False)])
    def test_another_finder_that_asks_all_others(self, name: str, is_before: bool) -> None:
        theirs = TheirFinder()
        if is_before:
            self.put(theirs)
        mpls.install()
        if not is_before:
            self.put(theirs)
        self.assertTrue(importlib.import_module("tensorflow.mixed_precision.experimental").DynamicLossScale)
        mpls.uninstall()
        self.assertIn(theirs, sys.meta_path)
        with self.assertRaises(ModuleNotFoundError):
            importlib.import_module("tensorflow.mixed_precision.experimental")

    def test_another_module_at_a_place_of_ours(self) -> None:
        theirs, name = ModuleType("tensorflow.mixed_precision"), "tensorflow.mixed_precision"
        mpls.install()
        ours = importlib.import_module(name)
        self.addCleanup(lambda: sys.modules.pop(name, None))
        self.addCleanup(lambda: vars(tf).pop("mixed_precision", None))
        sys.modules[name] = theirs
        mpls.uninstall()
        self.assertIs(sys.modules[name], theirs)
        self.assertFalse(hasattr(tf, "mixed_precision"))
        self.assertFalse(hasattr(ours, "experimental"))

    def test_ours_under_a_name_of_theirs(self) -> None:
        mpls.install()
        sys.modules["an_alias"] = importlib.import_module("tensorflow.mixed_precision.experimental")
        self.addCleanup(lambda: sys.modules.pop("an_alias", None))
        mpls.uninstall()
        self.assertIn("an_alias", sys.modules)
        self.assertFalse(hasattr(sys.modules["an_alias"], "DynamicLossScale"))

    def test_a_module_that_is_found_before_and_loaded_after(self) -> None:
        name = "keras.mixed_precision" if "keras.mixed_precision" in sys.modules else "tf_keras.mixed_precision"
        native = sys.modules[name]
        mpls.install()
        spec = sys.meta_path[0].find_spec(name, sys.modules[name.partition(".")[0]].__path__)
        module = importlib.util.module_from_spec(spec)
        mpls.uninstall()
        spec.loader.exec_module(module)
        self.addCleanup(lambda: sys.modules.__setitem__(name, native))
        self.assertNotIn("__getattr__", vars(module))


class ManyTimesTest(TakingAwayTestCase):
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
        theirs = wrapping(None)
        self.changed(tf.train.experimental, "__getattr__", theirs)
        for _ in range(3):
            self.cycle()
        before, alive = state(), self.alive()
        for _ in range(10):
            self.cycle()
        self.assertEqual(state(), before)
        self.assertEqual(self.alive(), alive)

    def alive(self) -> list[int]:
        gc.collect()
        kinds = [type(each) for each in gc.get_objects()]
        return [kinds.count(kind) for kind in (Hooks, Finder, Layer, Overlay, Namespace, Installation)]

    def test_settings_that_change_again_and_again_leave_no_chain(self) -> None:
        for number in range(50):
            mpls.install(f"2.{number % 3}")
        installation: Any = mpls.installed()
        length = 0
        while installation is not None:
            installation, length = installation._state_before.replaced, length + 1
        self.assertLessEqual(length, 2)


class RewriteTest(TakingAwayTestCase):
    def test_what_the_program_has_set_by_other_means_stays(self) -> None:
        before = tf.config.optimizer.get_experimental_options().get("auto_mixed_precision")
        self.addCleanup(tf.config.optimizer.set_experimental_options, {"auto_mixed_precision": before})
        mpls.install()
        tf.config.optimizer.set_experimental_options({"auto_mixed_precision": True})
        mpls.uninstall()
        self.assertTrue(tf.config.optimizer.get_experimental_options()["auto_mixed_precision"])


class WhatAProgramHasDoneTest(TakingAwayTestCase):
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
