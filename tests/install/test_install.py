"""`install` puts names back, changes nothing else, and is undone completely."""

from __future__ import annotations

import asyncio
import importlib
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import tensorflow as tf
from parameterized import parameterized

import mpls
from mpls.core import releases
from mpls.names import NAMES, Name, module_of


def resolve(path: str) -> Any:
    """Return what a path means in a program."""
    return eval(path, {"tf": tf})


def target_of(name: Name) -> Any:
    """Return what mpls has for a name."""
    home, _, attribute = name.target.partition(":")
    return getattr(importlib.import_module(home), attribute)


class PutBackTest(unittest.TestCase):
    def test_removed_attributes_are_back(self) -> None:
        """Those that programs spell as attributes."""
        installation = mpls.install(contrib=True)
        names = [name for name in NAMES if name.path in installation.names and not name.is_private]
        names = [name for name in names if name.path.startswith("tf.")]
        self.assertGreater(len(names), 30)
        for name in names:
            found = resolve(name.path)
            self.assertIs(found, target_of(name) if name.replacement else found)

    @parameterized.expand(sorted({name.parent for name in NAMES if name.last is not None and name.replacement}))
    def test_removed_modules_can_be_imported(self, path: str) -> None:
        mpls.install(contrib=True)
        module = importlib.import_module(module_of(path))
        self.assertIsInstance(module, ModuleType)
        for name in NAMES:
            if name.parent == path and name.last is not None and name.replacement:
                self.assertIs(getattr(module, name.attribute), target_of(name))
                self.assertIn(name.attribute, dir(module))

    def test_names_that_work_are_left_alone(self) -> None:
        before = tf.compat.v1.mixed_precision.DynamicLossScale, tf.keras.mixed_precision.LossScaleOptimizer
        mpls.install()
        after = tf.compat.v1.mixed_precision.DynamicLossScale, tf.keras.mixed_precision.LossScaleOptimizer
        self.assertEqual(before, after)

    def test_names_that_work_are_replaced_if_asked(self) -> None:
        mpls.install(replace_existing=True)
        self.assertIs(tf.compat.v1.mixed_precision.DynamicLossScale, mpls.v1.DynamicLossScale)
        self.assertIs(tf.keras.mixed_precision.LossScaleOptimizer, mpls.keras.LossScaleOptimizer)
        # Keras 3's own name for its own class is no historical one.
        self.assertIsNot(tf.keras.optimizers.LossScaleOptimizer, mpls.keras.LossScaleOptimizer)

    def test_modules_that_never_were_stay_absent(self) -> None:
        mpls.install()
        with self.assertRaises(ModuleNotFoundError):
            importlib.import_module("tensorflow.keras.mixed_precision.experimental.policy")


class ContribTest(unittest.TestCase):
    def test_contrib_is_off_by_default(self) -> None:
        mpls.install()
        with self.assertRaises(ModuleNotFoundError):
            importlib.import_module("tensorflow.contrib.mixed_precision")
        with self.assertRaises(AttributeError):
            tf.contrib.mixed_precision.LossScaleOptimizer  # noqa: B018

    def test_loss_scaling_is_back(self) -> None:
        mpls.install(contrib=True)
        import tensorflow.contrib.mixed_precision as imported
        from tensorflow.contrib import mixed_precision

        self.assertIs(imported, mixed_precision)
        for module in (tf, tf.compat.v1):
            self.assertIs(module.contrib.mixed_precision.LossScaleOptimizer, mpls.contrib.LossScaleOptimizer)

    def test_the_rest_looks_gone(self) -> None:
        mpls.install(contrib=True)
        importlib.import_module("tensorflow.contrib.mixed_precision")
        with self.assertRaises(ImportError):
            from tensorflow.contrib import slim  # noqa: F401
        with self.assertRaises(AttributeError):
            tf.contrib.slim  # noqa: B018
        for module in (tf, tf.compat.v1):
            self.assertFalse(hasattr(module, "contrib"))
            self.assertIsNone(getattr(module, "contrib", None))
            self.assertNotIn("contrib", dir(module))


class UndoTest(unittest.TestCase):
    def test_uninstall_without_an_installation_does_nothing(self) -> None:
        mpls.uninstall()
        self.assertIsNone(mpls.installed())

    def test_a_block_puts_the_settings_before_it_back(self) -> None:
        outer = mpls.install("2.3")
        with mpls.install("2.1", contrib=True) as inner:
            self.assertEqual((inner.as_of, mpls.installed(), releases.current().release), ("2.1", inner, "2.1"))
        self.assertEqual(mpls.installed(), outer)
        self.assertEqual(releases.current().release, "2.3")
        with self.assertRaises(ModuleNotFoundError):
            importlib.import_module("tensorflow.contrib.mixed_precision")

    def test_a_release_that_is_set_in_blocks_is_for_the_innermost(self) -> None:
        with mpls.install("2.1"), mpls.install("2.3"):
            with mpls.install("2.2"):
                mpls.install("2.5")
                self.assertEqual(releases.current().release, "2.5")
            self.assertEqual(releases.current().release, "2.3")

    def test_the_graph_rewrite_is_as_it_was(self) -> None:
        # Absent, unless a test before this one has left it there.
        before = tf.config.optimizer.get_experimental_options().get("auto_mixed_precision")
        mpls.install()
        opt = tf.compat.v1.train.GradientDescentOptimizer(0.1)
        tf.train.experimental.enable_mixed_precision_graph_rewrite(opt)
        self.assertTrue(tf.config.optimizer.get_experimental_options()["auto_mixed_precision"])
        mpls.uninstall()
        self.assertEqual(tf.config.optimizer.get_experimental_options().get("auto_mixed_precision"), before)
        self.assertFalse(tf.__internal__.train.is_mixed_precision_graph_rewrite_enabled())

    def test_compile_is_as_it_was(self) -> None:
        compile_before = tf.keras.Model.compile
        mpls.install()
        policy = tf.keras.mixed_precision.experimental.Policy("mixed_float16", loss_scale=8)
        self.assertIsNot(tf.keras.Model.compile, compile_before, policy)
        mpls.uninstall()
        self.assertIs(tf.keras.Model.compile, compile_before)


class SettingsTest(unittest.TestCase):
    def test_it_is_idempotent(self) -> None:
        first = mpls.install("2.2")
        finders = list(sys.meta_path)
        experimental = tf.keras.mixed_precision.experimental
        self.assertEqual(mpls.install("2.2"), first)
        self.assertEqual(sys.meta_path, finders)
        self.assertIs(tf.keras.mixed_precision.experimental, experimental)

    def test_a_release_holds_in_all_threads_and_in_a_block_in_its_own(self) -> None:
        def asked_elsewhere() -> str | None:
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(releases.current).result().release

        async def in_block(entered: asyncio.Event) -> str | None:
            with mpls.install("2.3"):
                entered.set()
                await asyncio.sleep(0)
                return await asyncio.create_task(asked())

        async def asked() -> str | None:
            return releases.current().release

        async def beside_block() -> tuple[str | None, str | None]:
            entered = asyncio.Event()
            task = asyncio.create_task(in_block(entered))
            await entered.wait()
            return await asked(), await task

        mpls.install("2.2")
        self.assertEqual(asked_elsewhere(), "2.2")
        with mpls.install("2.3"):
            self.assertEqual((releases.current().release, asked_elsewhere()), ("2.3", "2.2"))
        self.assertEqual(asyncio.run(beside_block()), ("2.2", "2.3"))
        with ThreadPoolExecutor(1) as pool:
            pool.submit(mpls.install, "2.1").result()
        self.assertEqual(releases.current().release, "2.1")

    def test_patch_numbers_are_ignored(self) -> None:
        self.assertEqual(mpls.install("2.2.3").as_of, "2.2")

    @parameterized.expand(["3.0", "2.99", "two", "", "1.4"])
    def test_unknown_releases_are_refused_and_nothing_is_installed(self, release: str) -> None:
        with self.assertRaisesRegex(TypeError, r"as_of must be a string; got 2.1 \(float\). Write it in quotes"):
            mpls.install(as_of=2.10)  # type: ignore[arg-type]
        with self.assertRaisesRegex(ValueError, "as_of must be a TensorFlow release from 1.13 to 2.21"):
            mpls.install(release)
        self.assertIsNone(mpls.installed())

    def test_it_says_what_it_did(self) -> None:
        installation = mpls.install(contrib=True)
        self.assertIs(mpls.installed(), installation)
        self.assertIn("tf.keras.mixed_precision.experimental.LossScaleOptimizer", installation.names)
        self.assertIn("tf.contrib.mixed_precision.LossScaleManager", installation.names)
        self.assertNotIn("tf.compat.v1.mixed_precision.LossScale", installation.names)
