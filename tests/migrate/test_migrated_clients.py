"""Programs in the style of real ones, migrated and run on the TensorFlow of today, beside what old releases printed."""

from __future__ import annotations

import pytest

from tests.clients.corpus import PROGRAMS

from .corpus_run import ROOT, SAME, outcome, recorded, table

RECORDED = recorded()


def test_the_comparison_has_the_table() -> None:
    assert table(RECORDED) in (ROOT / "docs" / "comparison.md").read_text()


@pytest.mark.parametrize("tool", ["mpls", "native"])
def test_the_rewriter_breaks_nothing(tool: str) -> None:
    before = {name for name, what in RECORDED["none"].items() if what == SAME}
    assert {name for name in before if RECORDED[tool][name] != SAME} == set()


@pytest.mark.parametrize("tool", ["mpls", "native"])
def test_what_does_not_run_is_reported(tool: str) -> None:
    assert set(RECORDED[tool].values()) <= {SAME, "reported"}


@pytest.mark.programs
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.default_run("each value", by=lambda name: (PROGRAMS[name].style, PROGRAMS[name].folder), rest="full")
def test_a_migrated_program_prints_what_it_printed(name: str) -> None:
    assert outcome(name, "mpls") == RECORDED["mpls"][name]
