"""After an error that an option would have cured, a line says which; after any other, none does."""

from __future__ import annotations

import json
import re
import unittest

import pytest

from .hint_cases import CASES, CASES_OF_COMPILE, CASES_OF_KERAS_2, Case
from .test_run import Programs

DRIVER = """
import importlib, json, sys
import pytest
import mpls.hints.causes
import mpls

now = mpls.installed()
settings = now.settings
results = {}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
        results[name] = None
    except Exception as error:
        results[name] = [f"{type(error).__name__}: {error}", mpls.hints.causes.hint_of(error, settings)]
print(json.dumps(results))
"""


def outcomes(cases: dict[str, Case], *options: str) -> dict[str, list[str] | None]:
    with Programs(driver=DRIVER, **{f"case_{name}": case.source for name, case in cases.items()}) as programs:
        process = programs.run("-m", "mpls", "run", *options, "driver.py", *(f"case_{name}" for name in cases))
    assert process.returncode == 0, process.stderr
    results = json.loads(process.stdout.splitlines()[-1])
    return {name: results[f"case_{name}"] for name in cases}


KERAS_2 = ["--keras", "2", "--legacy-optimizers"]


class HintsTest(unittest.TestCase):
    def assert_hints(self, cases: dict[str, Case], *options: str) -> None:
        for name, found in outcomes(cases, *options).items():
            with self.subTest(name):
                assert found is not None, "it did not fail"
                error, hint = found
                if cases[name].hint:
                    assert hint is not None, error
                    self.assertIn(cases[name].hint, hint)
                    self.assertTrue(hint.startswith("mpls run: "))
                else:
                    self.assertIsNone(hint, error)

    def assert_cured(self, cases: dict[str, Case], options: list[str], at_least: int) -> None:
        cured = {name: case for name, case in cases.items() if case.cure in options}
        self.assertGreaterEqual(len(cured), at_least)
        for name, found in outcomes(cured, *options).items():
            with self.subTest(name):
                self.assertIsNone(found)

    @pytest.mark.programs
    def test_each_cause_and_what_looks_alike(self) -> None:
        self.assert_hints(CASES)

    @pytest.mark.programs
    def test_options_cure_what_they_are_named_for(self) -> None:
        for options in (["--as-of", "2.3", "--contrib", "--replace-existing"], ["--v1"], KERAS_2):
            self.assert_cured(CASES, options, 7)
        # Without the optimizers of TF 2.10 too.
        self.assert_cured(CASES, ["--keras", "2"], 7)

    @pytest.mark.programs
    def test_wrappers_that_compile_has_made(self) -> None:
        self.assert_hints(CASES_OF_COMPILE)
        self.assert_cured(CASES_OF_COMPILE, ["--keras", "2"], 8)
        self.assert_cured(CASES_OF_COMPILE, KERAS_2, 11)

    @pytest.mark.programs
    def test_wrappers_of_keras_2(self) -> None:
        self.assert_hints(CASES_OF_KERAS_2, "--keras", "2")
        self.assert_cured(CASES_OF_KERAS_2, ["--keras", "2", "--replace-existing"], 6)
        self.assert_cured(CASES_OF_KERAS_2, KERAS_2, 2)

    @pytest.mark.programs
    def test_no_option_is_named_that_was_given(self) -> None:
        names = ["call_with_arguments", "typo", "estimator"]
        found = outcomes({name: CASES[name] for name in names}, "--v1")
        assert found["typo"] is not None
        assert found["estimator"] is not None
        self.assertIsNone(found["typo"][1])
        self.assertIn("removed in TF 2.16", found["estimator"][1])


ENDS = """
import sys
import tensorflow as tf
if sys.argv[1] == "wrapped by compile":
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.optimizer.get_scaled_loss(tf.constant(1.0))
else:
    tf.contrib.mixed_precision.LossScaleManager
"""


def said(stderr: str) -> list[str]:
    """Return the lines of Python; TensorFlow's libraries log among them when they please."""
    return [line for line in stderr.splitlines() if not re.match(r"WARNING: All log messages|[IWEF]\d{4} ", line)]


class ShownTest(unittest.TestCase):
    """At the end of whole programs."""

    @pytest.mark.programs
    def test_under_mpls_run(self) -> None:
        with Programs(program=ENDS) as programs:
            process = programs.run("-m", "mpls", "run", "--no-auto", "program.py", "x")
            wrapped = programs.run("-m", "mpls", "run", "program.py", "wrapped by compile")
            cured = programs.run("-m", "mpls", "run", "--keras", "2", "program.py", "wrapped by compile")
        *_, error, hint = said(process.stderr)
        self.assertEqual(error, "AttributeError: module 'tensorflow' has no attribute 'contrib'")
        self.assertIn("Run it with --contrib", hint)
        *_, error, hint = said(wrapped.stderr)
        self.assertEqual(error, "AttributeError: 'LossScaleOptimizer' object has no attribute 'get_scaled_loss'")
        self.assertIn("compile of Keras 3 has wrapped this optimizer", hint)
        self.assertEqual(cured.returncode, 0, cured.stderr)
