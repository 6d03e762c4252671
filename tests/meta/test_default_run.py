"""What the default run has: each pair of values of a cross product, and what finds each planted fault."""

from __future__ import annotations

import functools
import itertools
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
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


def test_of_size_none_only_what_is_given_is_chosen(covering: Any) -> None:
    assert covering(PRODUCT, 0, {PRODUCT[5]}) == {PRODUCT[5]}
    assert covering([("a", 1), ("b", 2)], 0, {("b", 2)}) == {("b", 2)}


def test_labels_make_no_pairs(covering: Any) -> None:
    labelled = [(f"case {index}", *case) for index, case in enumerate(PRODUCT)]
    assert {case[1:] for case in covering(labelled)} == covering(PRODUCT)


def test_a_table_without_a_repeated_value_is_whole(covering: Any) -> None:
    table = [("a", 1), ("b", 2), ("c", 3)]
    assert covering(table) == set(table)


def test_what_is_given_counts(covering: Any) -> None:
    given = {("a", 0, None), ("b", 1, "x")}
    chosen = covering(PRODUCT, 1, given)
    assert given <= chosen
    assert len(chosen) == 4


# What is collected here, in one process for each choice of tests.
SUITES = (
    "conformance/test_conformance.py",
    "conformance/test_options.py",
    "keras/test_fit.py",
    "options/test_several_losses.py",
)


@functools.cache
def _collected(*options: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options]
    command += [str(TESTS / suite) for suite in SUITES]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if "::" in line]
    assert found, done.stderr
    return found


def collected(suite: str, *options: str) -> set[str]:
    """Return the tests of a file that run with some options."""
    found = {line.partition("::")[2] for line in _collected(*options) if line.startswith(f"tests/{suite}::")}
    assert found
    return found


@pytest.mark.matrix
def test_the_default_run_has_what_finds_each_planted_fault() -> None:
    from .faults import FAULTS

    needed = {f"{case}::{test}" for fault in FAULTS for _, case, test in fault.tests}
    assert needed - collected("conformance/test_conformance.py") == set()


@pytest.mark.matrix
def test_the_default_run_has_a_test_that_finds_each_planted_fault_of_options() -> None:
    from .option_faults import OPTION_FAULTS, SUITE

    found = collected(f"conformance/{SUITE}.py")
    for fault in OPTION_FAULTS:
        assert {f"{case}::{test}" for _, case, test in fault.tests} & found, fault.name


@pytest.mark.matrix
def test_the_default_run_and_the_matrix_are_all() -> None:
    suite = "conformance/test_conformance.py"
    default, matrix = collected(suite), collected(suite, "-m", "matrix")
    assert default & matrix == set()
    assert default | matrix == collected(suite, "-m", "not long")
    assert len(default) < len(matrix) / 2


@pytest.mark.matrix
def test_of_tests_of_which_one_case_runs_another_one_for_each() -> None:
    tests = ("micro_batches", "two_losses_and_one_optimizer", "gradient_penalty")
    found = "\n".join(collected("options/test_several_losses.py"))
    numbers = [re.findall(rf"SeveralTest::test_{test}_(\d)_\w+", found) for test in tests]
    assert [len(each) for each in numbers] == [1, 1, 1]
    assert len({each for (each,) in numbers}) > 1


@pytest.mark.matrix
def test_of_each_test_the_default_run_has_a_case() -> None:
    suite = "keras/test_fit.py"
    default, matrix = collected(suite), collected(suite, "-m", "matrix")
    assert default & matrix == set()
    names = {each: re.sub(r"_(legacy|new)(_\w+)?$|_\d+_\w+$", "", each) for each in default | matrix}
    assert {names[each] for each in default} == set(names.values())
    of_each_family = [each.rpartition("_")[2] for each in default if "test_it_trains_as_with" in each]
    assert sorted(of_each_family) == ["keras3", "legacy", "new"]
