"""Changed files are read, or refused with an error of mpls: nothing is raised else, run, opened or written."""

from __future__ import annotations

import re

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
    check(run(spread(SAMPLE, ["load_model", "convert_state"])))


@pytest.mark.long
@pytest.mark.parametrize("action", ACTIONS)
def test_many(action: str) -> None:
    check(run(spread(ALL // len(ACTIONS), [action])))


# What is done to be seen, and what is said of it.
HOLES = {
    "raise": "KeyError: 'x'",
    "open": "heard: open .*outside/secret.txt",
    "write": r"changed files: .*working/left'",
    "process": "heard: os.system",
    "import": "imported spy_that_configs_name",
    "crash": "ended by -11",
    "hang": "ended by -27",
}


@pytest.mark.programs
def test_holes_that_are_planted_are_seen() -> None:
    # And none of it is held against the next one.
    cases = run([case for hole in HOLES for case in ((f"hole/{hole}", 0), ("hole/nothing", 0))], hangs=2)
    assert [case.outcome for case in cases] == ["failed", "read"] * len(HOLES)
    for case, cause in zip(cases[::2], HOLES.values(), strict=True):
        assert re.search(cause, case.causes), case
