"""Changed files are read, or refused with an error of mpls: nothing is raised else, run, opened or written."""

from __future__ import annotations

import pytest

from tests.saved.fuzzing import Case, run
from tests.saved.mutations import ACTIONS, spread

SAMPLE, ALL = 100, 20_000
# A run of many reports no more.
SHOWN = 25


def check(cases: list[Case]) -> None:
    failures = [case for case in cases if case.outcome == "failed"]
    assert not failures, "\n\n".join([f"{len(failures)} failures, of which the first:", *map(str, failures[:SHOWN])])
    # Neither does everything pass, nor nothing.
    read = sum(case.outcome == "read" for case in cases) / len(cases)
    assert 0.04 < read < 0.9, f"{read:.0%} of the files were read"


def test_samples_are_read_or_refused() -> None:
    check(run(spread(SAMPLE, ["inspect"])))


@pytest.mark.programs
def test_samples_are_loaded_or_refused() -> None:
    check(run(spread(SAMPLE, ["load_model"])))


@pytest.mark.long
@pytest.mark.parametrize("action", ACTIONS)
def test_many(action: str) -> None:
    check(run(spread(ALL // len(ACTIONS), [action])))
