"""What marks say of the cases of a cross product."""

from __future__ import annotations

import pathlib
import re

TESTS = pathlib.Path(__file__).resolve().parents[1]


def test_marks_are_below_what_makes_the_cases() -> None:
    """A mark above `parameterized.expand` marks nothing: the cases are made by then."""
    lost = re.compile(r"^ *@pytest\.mark\.[^\n]*\n *@parameterized\.expand", re.MULTILINE)
    assert lost.search("@pytest.mark.matrix\n@parameterized.expand([])\n")
    assert [path.name for path in TESTS.rglob("test_*.py") if lost.search(path.read_text(encoding="utf-8"))] == []
