"""After an error that options would have avoided, a line says which; after any other, none does."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import re
import sys
import unittest
from collections.abc import Iterator
from unittest import mock

import pytest
import tensorflow as tf
from parameterized import parameterized

import mpls
from tests.processes import load_file

from .hint_cases import CASES, CASES_OF_KERAS_2, Case
from .test_run import Programs

# Runs cases as modules, and shows each error as Python does at the end of a program.
DRIVER = """
import contextlib, importlib, io, json, sys

results = {}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
        results[name] = None
    except Exception as error:
        with contextlib.redirect_stderr(io.StringIO()) as shown:
            sys.excepthook(type(error), error, error.__traceback__)
        last = shown.getvalue().rstrip().rpartition("\\n")[2]
        results[name] = [f"{type(error).__name__}: {error}", last if last.startswith("mpls run: ") else ""]
print(json.dumps(results))
"""
OPTIONS = sorted({case.options for case in CASES.values() if case.is_cured} - {""})


def outcomes(cases: dict[str, Case], *options: str) -> dict[str, list[str] | None]:
    """Return the error of each case and the line after it, by `mpls run`; None for one that runs."""
    with Programs(driver=DRIVER, **{f"case_{name}": case.source for name, case in cases.items()}) as programs:
        process = programs.run("-m", "mpls", "run", *options, "driver.py", *(f"case_{name}" for name in cases))
    assert process.returncode == 0, process.stderr
    results = json.loads(process.stdout.splitlines()[-1])
    return {name: results[f"case_{name}"] for name in cases}


def arguments_of(options: str) -> str:
    """Return the arguments of `install` for options of `mpls run`."""
    given = dict(each.partition(" ")[::2] for each in options.removeprefix("--").split(" --"))
    values = {"": "True", "2": "2", "2.3": "'2.3'"}
    return ", ".join(f"{name.replace('-', '_')}={values[value]}" for name, value in given.items())


@pytest.fixture
def _installed() -> Iterator[None]:
    with mock.patch.object(sys, "excepthook"), mpls.install():
        yield
    tf.keras.mixed_precision.set_global_policy("float32")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.default_run(
    "each value", by=lambda name: (CASES[name].options, CASES[name].says, name.partition("_")[0]), rest="matrix"
)
def test_each_cause_and_what_looks_alike(name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By `mpls.install` in this process."""
    case, path = CASES[name], tmp_path / "case.py"
    path.write_text(case.source)
    monkeypatch.chdir(tmp_path)
    shown = io.StringIO()
    with pytest.raises(Exception) as caught:  # noqa: PT011
        load_file(path)
    with contextlib.redirect_stderr(shown):
        sys.excepthook(caught.type, caught.value, caught.tb)
    hint = shown.getvalue()
    assert bool(hint) is bool(case.options or case.says), hint
    assert case.says in hint
    if case.options:
        assert f"Call mpls.install({arguments_of(case.options)}). See mpls docs" in hint


@pytest.mark.programs
class RunTest(unittest.TestCase):
    """By `mpls run`."""

    def assert_hints(self, cases: dict[str, Case], *options: str) -> None:
        for name, found in outcomes(cases, *options).items():
            with self.subTest(name):
                assert found is not None, "it did not fail"
                error, hint = found
                self.assertEqual(bool(hint), bool(cases[name].options or cases[name].says), error)
                self.assertIn(cases[name].says, hint)
                if cases[name].options:
                    self.assertIn(f"Run it with {cases[name].options}. See mpls docs", hint)

    def assert_cured(self, cases: dict[str, Case], options: str) -> None:
        cured = {name: case for name, case in cases.items() if case.options == options and case.is_cured}
        self.assertTrue(cured)
        for name, found in outcomes(cured, *options.split()).items():
            with self.subTest(name):
                self.assertIsNone(found)

    def test_each_cause_and_what_looks_alike(self) -> None:
        self.assert_hints(CASES)

    @parameterized.expand([(options.replace("--", ""), options) for options in OPTIONS])
    @pytest.mark.default_run("one case", rest="full")
    def test_options_cure_what_they_are_named_for(self, name: str, options: str) -> None:
        self.assert_cured(CASES, options)

    def test_in_keras_2(self) -> None:
        self.assert_hints(CASES_OF_KERAS_2, "--keras", "2")
        for options in ("--keras 2 --replace-existing", "--keras 2 --legacy-optimizers"):
            self.assert_cured(CASES_OF_KERAS_2, options)

    @parameterized.expand(
        [
            ("--contrib", "placeholder", "--v1 --contrib"),
            ("--as-of 2.2", "scaled", "--keras 2 --as-of 2.2"),
            ("--v1", "contrib", "--v1 --contrib"),
            ("--replace-existing", "decayed", "--keras 2 --legacy-optimizers --replace-existing"),
        ]
    )
    @pytest.mark.default_run("one case", rest="full")
    def test_options_that_are_on_are_named_too(self, on: str, name: str, options: str) -> None:
        """So the line is the whole command, also where `mpls run` has chosen some of them."""
        self.assert_hints({name: CASES[name]._replace(options=options, says="")}, *on.split())

    @parameterized.expand(
        [
            ("--v1", ["call_with_arguments", "typo", "estimator"]),
            ("--as-of 2.2", ["other_key_of_config"]),
            ("--keras 2 --legacy-optimizers", ["typo_of_optimizer", "of_no_wrapper"]),
        ]
    )
    @pytest.mark.default_run("one case", rest="full")
    def test_no_option_is_named_that_was_given(self, on: str, names: list[str]) -> None:
        self.assert_hints({name: CASES[name] for name in names}, *on.split())


SCALES = """
import tensorflow as tf
opt = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1))
opt.weights
"""
INSTALLS = "import mpls\nmpls.install()\n"


def said(stderr: str) -> list[str]:
    """Return the lines of Python; TensorFlow's libraries log among them when they please."""
    return [line for line in stderr.splitlines() if not re.match(r"WARNING: All log messages|[IWEF]\d{4} ", line)]


@pytest.mark.programs
class WaysTest(unittest.TestCase):
    """At the end of whole programs, however they are started."""

    @parameterized.expand(
        [
            ("script", True, ["program.py"]),
            ("module", True, ["-m", "program"]),
            ("code", True, ["-c", SCALES]),
            ("imported", True, ["imports.py"]),
            ("installs", False, ["installs.py"]),
            ("code_that_installs", False, ["-c", INSTALLS + SCALES]),
        ]
    )
    @pytest.mark.default_run("each value", by=lambda name, is_run, command: (is_run,), rest="full")
    def test_with_the_source(self, name: str, is_run: bool, command: list[str]) -> None:
        """Which of two sets of options it is, the source decides."""
        run = ("-m", "mpls", "run", "--no-auto") if is_run else ()
        with Programs(program=SCALES, installs=INSTALLS + SCALES, imports="import program") as programs:
            *_, error, hint = said(programs.run(*run, *command).stderr)
        self.assertEqual(error, "AttributeError: 'LossScaleOptimizer' object has no attribute 'weights'")
        self.assertIn("--keras 2 --replace-existing" if is_run else "(keras=2, replace_existing=True)", hint)
