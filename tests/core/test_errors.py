"""Exceptions and warnings: the built-ins that they also are, inside `tf.function` too, and whose line is named."""

from __future__ import annotations

import inspect
import pickle
import unittest
import warnings
from typing import Any

import tensorflow as tf
from parameterized import parameterized

from mpls import errors

EXCEPTIONS = {
    "ArgumentKeyError": (KeyError,),
    "ArgumentOverflowError": (OverflowError,),
    "ArgumentTypeError": (TypeError,),
    "ArgumentValueError": (ValueError,),
    "MplsError": (Exception,),
    "CallOrderError": (RuntimeError,),
    "ExistingFileError": (FileExistsError,),
    "GraphStateError": (NotImplementedError,),
    "MissingAttributeError": (AttributeError,),
    "MissingFileError": (FileNotFoundError,),
    "MissingPackageError": (ImportError,),
    "NameTakenError": (RuntimeError,),
    "NotPicklableError": (pickle.PicklingError,),
    "ReplicaContextError": (ValueError,),
    "SavedStateError": (ValueError,),
    "TensorArgumentError": (TypeError, ValueError),
    "TrainingStuckError": (RuntimeError,),
    "UndefinedMethodError": (NotImplementedError,),
    "UnsupportedBackendError": (NotImplementedError, ValueError),
    "UnsupportedGraphError": (RuntimeError,),
    "UnsupportedReleaseError": (RuntimeError,),
    "UnsupportedStrategyError": (ValueError,),
}


class ExceptionTest(unittest.TestCase):
    def test_the_table_is_complete(self) -> None:
        defined = {
            name
            for name, value in vars(errors).items()
            if inspect.isclass(value) and issubclass(value, Exception) and not issubclass(value, Warning)
        }
        self.assertEqual(defined, set(EXCEPTIONS))

    @parameterized.expand(EXCEPTIONS.items())
    def test_it_is_a_builtin_and_an_error_of_mpls(self, name: str, builtins: tuple[type, ...]) -> None:
        error = getattr(errors, name)
        for builtin in (*builtins, errors.MplsError):
            self.assertTrue(issubclass(error, builtin))
        self.assertEqual(str(error("the text")), "the text")
        self.assertEqual(str(pickle.loads(pickle.dumps(error("the text")))), "the text")

    @parameterized.expand(EXCEPTIONS.items())
    def test_it_stays_what_it_is_inside_a_function(self, name: str, builtins: tuple[type, ...]) -> None:
        """AutoGraph raises exceptions anew, and only of classes whose constructor it knows as themselves."""
        error = getattr(errors, name)

        @tf.function
        def step() -> None:
            raise error("the text")

        with self.assertRaises(builtins) as caught:
            step()
        self.assertIsInstance(caught.exception, errors.MplsError)
        self.assertIn("the text", str(caught.exception))


class TextTest(unittest.TestCase):
    def test_form(self) -> None:
        self.assertEqual(
            errors.error_text("Thing: arg", "be a number", "foo", "Pass 1", "numbers"),
            "Thing: arg must be a number; got 'foo' (str). Pass 1. See mpls docs numbers",
        )

    def test_long_values_are_cut(self) -> None:
        text = errors.error_text("it", "be short", "x" * 10_000, "Cut it", "a")
        self.assertLess(len(text), 400)
        self.assertIn("x...", text)

    def test_values_that_are_nested_too_deeply(self) -> None:
        value: list[Any] = []
        # Python 3.13 shows 10,000 levels.
        for _ in range(100_000):
            value = [value]
        text = errors.error_text("it", "be flat", value, "Flatten it", "a")
        self.assertEqual(
            text,
            "it must be flat; got a value that is nested too deeply to be shown (list). Flatten it. See mpls docs a",
        )


class WarningTest(unittest.TestCase):
    def caught(self, call: Any) -> warnings.WarningMessage:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        # TensorFlow's dependencies warn while it traces a function.
        (warning,) = (each for each in caught if issubclass(each.category, errors.MplsWarning))
        return warning

    def test_the_line_is_the_users(self) -> None:
        def user() -> None:
            errors.warn_user("text", errors.MplsWarning)

        warning = self.caught(user)
        self.assertEqual(warning.filename, __file__)
        self.assertEqual(warning.lineno, inspect.getsourcelines(user)[1] + 1)
        self.assertIs(warning.category, errors.MplsWarning)

    @parameterized.expand(
        [
            *((name, __file__) for name in ("mpls.keras.optimizer", "tensorflow.python.eager.x")),
            *((name, __file__) for name in ("tf_keras.src.engine", "keras.src")),
            *((name, "module.py") for name in ("mplsx.module", "kerastuner.x", "tensorflow_addons.y")),
        ]
    )
    def test_only_frames_of_frameworks_are_passed_over(self, module: str, told: str) -> None:
        namespace: dict[str, Any] = {"__name__": module, "warn": errors.warn_user, "Category": errors.MplsWarning}
        exec(compile("def call():\n    warn('text', Category)\n", "module.py", "exec"), namespace)
        self.assertEqual(self.caught(namespace["call"]).filename, told)

    @parameterized.expand([(each.__name__, each) for each in (errors.warn_user, errors.advise_user)])
    def test_inside_a_function_the_line_is_still_the_users(self, name: str, warn: Any) -> None:
        @tf.function
        def step() -> None:
            warn("text", errors.MplsWarning)

        def user() -> None:
            step()

        warning = self.caught(user)
        self.assertEqual(warning.filename, __file__)
        self.assertEqual(warning.lineno, inspect.getsourcelines(user)[1] + 1)

    def test_deprecations_are_shown_by_default(self) -> None:
        self.assertTrue(issubclass(errors.MplsDeprecationWarning, FutureWarning))
        self.assertTrue(issubclass(errors.MplsWarning, UserWarning))
