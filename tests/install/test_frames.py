"""Errors about what is missing are those of Python, frame by frame, whether names are back or not."""

from __future__ import annotations

import io
import os
import sys
import threading
import traceback
import unittest
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any
from unittest import mock

import tensorflow as tf
from parameterized import parameterized

import mpls
from mpls.importing.module_getattr import server
from mpls.importing.overlays import Overlay
from mpls.patches import ABSENT, Layer

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "contrib": {"contrib": True},
    "replacing": {"contrib": True, "replace_existing": True},
    "reported": {"_on_touch": lambda row, where: None},
    "both": {"replace_existing": True, "_on_touch": lambda row, where: None},
}
# Modules of Python, of Keras, lazily loaded ones, and those that TensorFlow wraps.
HOLDERS: dict[str, Callable[[], Any]] = {
    "root": lambda: tf,
    "plain": lambda: tf.train.experimental,
    "lazy": lambda: tf.keras,
    "keras": lambda: tf.keras.mixed_precision,
    "v1": lambda: tf.compat.v1,
    "wrapped": lambda: tf.compat.v1.mixed_precision,
}
# With what they have, and mpls answers for if it is asked to.
TAKEN = [("keras", "LossScaleOptimizer"), ("wrapped", "DynamicLossScale")]


def shown(call: Callable[[], Any]) -> tuple[str, Any, Any]:
    """Return the traceback of the error that a call ends in, and what it says about the attribute."""
    try:
        call()
    except AttributeError as error:
        return "".join(traceback.format_exception(error)), error.name, error.obj
    raise AssertionError("no error")


def fake(**attributes: Any) -> ModuleType:
    module = ModuleType("fake")
    vars(module).update(attributes)
    return module


def theirs(name: str) -> str:
    if name == "theirs":
        return name
    raise AttributeError(f"not theirs: {name}")


class ServerTest(unittest.TestCase):
    """On a module of Python, without TensorFlow."""

    def compared(self, attribute: str, **attributes: Any) -> None:
        modules = [fake(present=1, **attributes), fake(present=1, **attributes)]
        served = {"there": lambda: 5, "declined": lambda: ABSENT, "gone": lambda: ABSENT}
        Layer(modules[1], "__getattr__", server(modules[1], served))
        Overlay(modules[1], {"present": lambda value: -value, "gone": lambda value: value})
        self.assertEqual((modules[1].there, modules[1].present), (5, -1))
        found = []
        for module in modules:
            text, name, holder = shown(lambda module=module: getattr(module, attribute))
            self.assertIs(holder, module)
            found.append((text, name))
        self.assertEqual(*found)

    @parameterized.expand(["missing", "presend", "declined", "gone", "__wrapped__", "__path__", "__all__"])
    def test_what_is_missing_is_missed_by_python(self, attribute: str) -> None:
        self.compared(attribute)

    @parameterized.expand(["missing", "declined", "gone"])
    def test_a_getattr_that_was_there_before_is_asked(self, attribute: str) -> None:
        self.compared(attribute, __getattr__=theirs)

    def test_what_it_finds_is_found(self) -> None:
        module = fake(__getattr__=theirs)
        layer = Layer(module, "__getattr__", server(module, {"there": lambda: 5}))
        self.assertEqual((module.there, module.theirs), (5, "theirs"))
        layer.take_away()
        self.assertEqual((hasattr(module, "there"), module.theirs), (False, "theirs"))

    def test_its_own_parts_are_no_answers(self) -> None:
        module = fake()
        Layer(module, "__getattr__", server(module, {}))
        for name in ("__name__", "__spec__"):
            delattr(module, name)
            self.assertFalse(hasattr(module, name), name)

    def test_errors_of_other_kinds_are_not_taken_for_a_missing_name(self) -> None:
        module = fake()
        Layer(module, "__getattr__", server(module, {"broken": lambda: 1 // 0}))
        with self.assertRaises(ZeroDivisionError):
            module.broken  # noqa: B018


class InstallTestCase(unittest.TestCase):
    def setUp(self) -> None:
        self.addCleanup(mpls.uninstall)


class TracebackTest(InstallTestCase):
    @parameterized.expand([(settings, holder) for settings in SETTINGS for holder in HOLDERS])
    def test_missing_attributes(self, settings: str, holder: str) -> None:
        module = HOLDERS[holder]()

        def read() -> None:
            module.nope  # noqa: B018

        before = shown(read)
        mpls.install(**SETTINGS[settings])
        self.assertEqual(shown(read), before)

    @parameterized.expand(SETTINGS.items())
    def test_in_functions_and_threads(self, name: str, settings: dict[str, Any]) -> None:
        @tf.function
        def function() -> Any:
            return tf.nope

        def in_thread() -> None:
            tf.compat.v1.mixed_precision.nope  # noqa: B018

        before = [self.message(function), self.printed_by(in_thread)]
        mpls.install(**settings)
        self.assertEqual([self.message(function), self.printed_by(in_thread)], before)

    def message(self, call: Callable[[], Any]) -> str:
        with self.assertRaises(AttributeError) as caught:
            call()
        return str(caught.exception)

    def printed_by(self, call: Callable[[], Any]) -> str:
        thread = threading.Thread(target=call, name="a thread")
        plain = mock.patch.object(threading, "excepthook", threading.__excepthook__)
        with plain, mock.patch.object(sys, "stderr", io.StringIO()) as stderr:
            thread.start()
            thread.join()
        self.assertIn("has no attribute 'nope'", stderr.getvalue())
        return stderr.getvalue()

    def test_an_mpls_that_cannot_be_loaded_is_no_missing_name(self) -> None:
        mpls.install()
        with (
            mock.patch("mpls.importing.hooks.getattr", side_effect=AttributeError("inside"), create=True),
            self.assertRaisesRegex(ImportError, r"tf\.train\.experimental\.\w+: mpls\.\w+ cannot be loaded: inside"),
        ):
            tf.train.experimental.DynamicLossScale  # noqa: B018


class MonkeypatchingTest(InstallTestCase):
    """Modules whose names are replaced take what others set and delete as plain ones do."""

    @parameterized.expand([(*taken, is_read) for taken in TAKEN for is_read in (True, False)])
    def test_set_and_put_back(self, holder: str, name: str, is_read: bool) -> None:
        module = HOLDERS[holder]()
        native = getattr(module, name)
        mpls.install(replace_existing=True)
        if is_read:
            self.assertIn("mpls", getattr(module, name).__module__)
        with mock.patch.object(module, name, "theirs"):
            self.assertEqual((getattr(module, name), vars(module)[name]), ("theirs", "theirs"))
        self.assertIn("mpls", getattr(module, name).__module__)
        mpls.uninstall()
        self.assertIs(getattr(module, name), native)

    @parameterized.expand([(*taken, is_read) for taken in TAKEN for is_read in (True, False)])
    def test_delete_and_put_back(self, holder: str, name: str, is_read: bool) -> None:
        module = HOLDERS[holder]()
        native = getattr(module, name)
        self.addCleanup(setattr, module, name, native)
        for settings in ({"replace_existing": True}, {"_on_touch": lambda row, where: None}):
            mpls.install(**settings)
            if is_read:
                getattr(module, name)
            delattr(module, name)
            self.assertNotIn(os.path.join("mpls", "importing"), shown(lambda: getattr(module, name))[0])
            self.assertFalse(hasattr(module, name))
            self.assertRaises(AttributeError, delattr, module, name)
            setattr(module, name, native)
            self.assertTrue(hasattr(module, name))
            mpls.uninstall()
            self.assertIs(getattr(module, name), native)

    def test_frameworks_read_their_own_whoever_has_read_before(self) -> None:
        module = tf.compat.v1.mixed_precision
        native = module.DynamicLossScale
        mpls.install(replace_existing=True)
        framework: dict[str, Any] = {"__name__": "tensorflow.python.of_a_test", "module": module}
        for _ in range(2):
            self.assertIs(module.DynamicLossScale, mpls.v1.DynamicLossScale)
            exec("found = module.DynamicLossScale", framework)
            self.assertIs(framework["found"], native)

    def test_reads_of_other_names_run_no_code_of_mpls(self) -> None:
        mpls.install(replace_existing=True, contrib=True)
        entered: list[str] = []

        def note(frame: FrameType, event: str, _: Any) -> None:
            if event == "call":
                entered.append(str(frame.f_globals.get("__name__")))

        modules = (tf, tf.train.experimental, tf.compat.v1.mixed_precision, tf.keras.mixed_precision)
        # TensorFlow keeps what is read of modules that it wraps.
        self.assertTrue(all(module.__name__ for module in modules))
        sys.setprofile(note)
        try:
            for module in modules:
                module.__name__, getattr(module, "nope", None), hasattr(module, "neither")
        finally:
            sys.setprofile(None)
        self.assertNotEqual(entered, [])
        self.assertEqual([each for each in entered if each.startswith("mpls")], [])


if __name__ == "__main__":
    unittest.main()
