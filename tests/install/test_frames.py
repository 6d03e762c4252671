"""Errors about what is missing are those of Python, frame by frame, whether names are back or not."""

from __future__ import annotations

import re
import traceback
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

import tensorflow as tf
from parameterized import parameterized

import mpls

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
    """Return the traceback of the error that a call ends in, and what it says about the attribute.

    Some Pythons also suggest a name that the object has: one that is put back, for example.
    """
    try:
        call()
    except AttributeError as error:
        text = "".join(traceback.format_exception(error))
        return re.sub(r"\. Did you mean: '\w+'\?", "", text), error.name, error.obj
    raise AssertionError("no error")


class TracebackTest(unittest.TestCase):
    @parameterized.expand([(settings, holder) for settings in SETTINGS for holder in HOLDERS])
    def test_missing_attributes(self, settings: str, holder: str) -> None:
        module = HOLDERS[holder]()
        # One is nearly a name that is there, or put back.
        reads = [lambda name=name: getattr(module, name) for name in ("nope", "experimentel")]
        before = [shown(read) for read in reads]
        mpls.install(**SETTINGS[settings])
        self.assertEqual([shown(read) for read in reads], before)

    def test_a_getattr_of_others_is_asked(self) -> None:
        module = tf.train.experimental

        def theirs(name: str) -> int:
            if name == "theirs":
                return 5
            raise AttributeError(f"not theirs: {name}", name=name, obj=module)

        with mock.patch.object(module, "__getattr__", theirs, create=True):
            before = shown(lambda: module.nope)
            mpls.install()
            self.assertEqual((module.theirs, module.DynamicLossScale), (5, mpls.experimental.DynamicLossScale))
            self.assertEqual(shown(lambda: module.nope)[1:], before[1:])
            mpls.uninstall()
            self.assertEqual((module.theirs, hasattr(module, "DynamicLossScale")), (5, False))

    def test_an_mpls_that_cannot_be_loaded_is_no_missing_name(self) -> None:
        mpls.install()
        with (
            mock.patch("mpls.importing.hooks.getattr", side_effect=AttributeError("inside"), create=True),
            self.assertRaisesRegex(ImportError, r"tf\.train\.experimental\.\w+: mpls\.\w+ cannot be loaded: inside"),
        ):
            tf.train.experimental.DynamicLossScale  # noqa: B018


class MonkeypatchingTest(unittest.TestCase):
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

    @parameterized.expand(TAKEN)
    def test_what_somebody_has_set_in_place_of_a_name_stays(self, holder: str, name: str) -> None:
        module = HOLDERS[holder]()
        native = getattr(module, name)
        self.addCleanup(setattr, module, name, native)
        mpls.install(replace_existing=True)
        self.assertIsNot(getattr(module, name), native)
        setattr(module, name, "theirs")
        with mpls.install("2.2", replace_existing=True):
            pass
        mpls.uninstall()
        self.assertEqual(getattr(module, name), "theirs")

    def test_frameworks_read_their_own_whoever_has_read_before(self) -> None:
        module = tf.compat.v1.mixed_precision
        native = module.DynamicLossScale
        mpls.install(replace_existing=True)
        framework: dict[str, Any] = {"__name__": "tensorflow.python.of_a_test", "module": module}
        for _ in range(2):
            self.assertIs(module.DynamicLossScale, mpls.v1.DynamicLossScale)
            exec("found = module.DynamicLossScale", framework)
            self.assertIs(framework["found"], native)
