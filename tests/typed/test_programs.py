"""Programs of users, type-checked against the built wheel by mypy and pyright: right ones pass, wrong ones fail."""

from __future__ import annotations

import re
import shutil
import sys
import unittest

import pytest
from parameterized import parameterized

from . import consumer

pytestmark = pytest.mark.programs

RIGHT = sorted(path.stem for path in consumer.PROGRAMS.glob("right_*.py"))
WRONG = sorted(path.stem for path in consumer.PROGRAMS.glob("wrong_*.py"))
CHECKERS = ("mypy", "pyright")


def tearDownModule() -> None:
    if consumer.environment.cache_info().currsize:
        shutil.rmtree(consumer.environment())


def errors_in(errors: consumer.Errors, program: str) -> dict[int, set[str]]:
    return {line: codes for (file, line), codes in errors.items() if file == f"{program}.py"}


@unittest.skipIf(sys.version_info < (3, 11), "types are the same for every TensorFlow, and checked with newer ones")
class CheckerTest(unittest.TestCase):
    @parameterized.expand([(checker, program) for checker in CHECKERS for program in RIGHT])
    def test_right_program_passes(self, checker: str, program: str) -> None:
        self.assertEqual(errors_in(consumer.errors_of(checker), program), {})

    @parameterized.expand([(checker, program) for checker in CHECKERS for program in WRONG])
    def test_wrong_program_fails_where_it_says(self, checker: str, program: str) -> None:
        expected = errors_in(consumer.expected_errors(checker), program)
        self.assertTrue(expected)
        self.assertEqual(errors_in(consumer.errors_of(checker), program), expected)

    @parameterized.expand(CHECKERS)
    def test_nothing_else_is_said(self, checker: str) -> None:
        """Of settings, or of files that are no program."""
        files = {file.removesuffix(".py") for file, _ in consumer.errors_of(checker)}
        self.assertLessEqual(files, {*RIGHT, *WRONG})

    def test_all_types_are_known(self) -> None:
        """But those of classes inside, whose bases are classes of Keras: no Keras says its types."""
        of_keras = {name for name in consumer.unknown_types() if re.fullmatch(r"mpls\.keras\.(\w+\.)+\w+Adapter", name)}
        self.assertEqual(consumer.unknown_types() - of_keras, set())
        self.assertGreater(len(of_keras), 2)
