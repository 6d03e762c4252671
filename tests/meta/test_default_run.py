"""What the default run has: each value or pair of values of a cross product, and the matrix all others."""

from __future__ import annotations

import itertools
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
SUITE = TESTS / "keras" / "test_fit.py"
PRODUCT = list(itertools.product("abc", range(4), (None, "x")))


@pytest.fixture
def covering(pytestconfig: pytest.Config) -> Callable[..., set[tuple[Any, ...]]]:
    return pytestconfig.pluginmanager.get_plugin(str(TESTS / "conftest.py")).covering


def test_marks_are_below_what_makes_the_cases() -> None:
    """A mark above `parameterized.expand` marks nothing: the cases are made by then."""
    lost = re.compile(r"^ *@pytest\.mark\.[^\n]*\n *@parameterized\.expand", re.MULTILINE)
    assert lost.search("@pytest.mark.matrix\n@parameterized.expand([])\n")
    assert [path.name for path in TESTS.rglob("test_*.py") if lost.search(path.read_text(encoding="utf-8"))] == []


def combinations(cases: Any, size: int) -> set[Any]:
    return {each for case in cases for each in itertools.combinations(enumerate(case), size)}


@pytest.mark.parametrize("size", [1, 2, 3])
def test_all_values_meet_in_few_cases(covering: Any, size: int) -> None:
    chosen = covering(PRODUCT, size)
    assert chosen <= set(PRODUCT)
    assert combinations(chosen, size) == combinations(PRODUCT, size)
    assert len(chosen) <= {1: 4, 2: 13, 3: 24}[size]


def collected(*options: str) -> set[str]:
    """Return the tests of a file that run with some options."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options, str(SUITE)]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=False)
    found = {line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line}
    assert found, done.stderr
    return found


@pytest.mark.matrix
def test_of_each_test_the_default_run_has_a_case() -> None:
    default, matrix = collected(), collected("-m", "matrix")
    assert default & matrix == set()
    assert default | matrix == collected("-m", "not long")
    names = {each: re.sub(r"_(legacy|new)(_\w+)?$|_\d+_\w+$", "", each) for each in default | matrix}
    assert {names[each] for each in default} == set(names.values())
    of_each_family = [each.rpartition("_")[2] for each in default if "test_it_trains_as_with" in each]
    assert sorted(of_each_family) == ["keras3", "legacy", "new"]
