"""What the default run has: each value or pair of values of a cross product, and the matrix all others."""

from __future__ import annotations

import itertools
import pathlib
import re
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
