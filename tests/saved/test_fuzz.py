"""Mutated files are read, or refused with an error of mpls: nothing is raised else, run, opened or written."""

from __future__ import annotations

import random
import re
import unittest

import pytest
from parameterized import parameterized

from tests.saved.fuzz_cases import spread
from tests.saved.fuzz_changes import changed_bytes
from tests.saved.fuzz_driver import Results, run
from tests.saved.fuzz_worker import IS_WATCHED

SAMPLE_OF_INSPECTION, SAMPLE_OF_LOADING, ALL = 100, 30, 20_000
# A run of many reports no more.
SHOWN = 25


def check(results: Results, actions: tuple[str, ...]) -> None:
    shown = "\n\n".join(map(str, results.failures[:SHOWN]))
    assert not results.failures, f"{len(results.failures)} failures, of which the first:\n\n{shown}"
    # Neither does everything pass, nor nothing.
    outcomes = [outcome for kind, outcome in results.outcomes if kind.partition("/")[0] in actions]
    read = outcomes.count("read") / len(outcomes)
    assert 0.04 < read < 0.9, f"{read:.0%} of the files were read"


class FuzzTest(unittest.TestCase):
    @parameterized.expand([(SAMPLE_OF_INSPECTION, ("inspect",)), (SAMPLE_OF_LOADING, ("load_model", "convert_state"))])
    def test_sample(self, count: int, actions: tuple[str, ...]) -> None:
        check(run(spread(count, actions)), actions)

    @pytest.mark.long
    def test_many(self) -> None:
        results = run(spread(ALL), lanes=2)
        for action in ("inspect", "load_model", "convert_state"):
            check(results, (action,))


# What the worker does to be seen, and what the driver says of it.
HOLES = {
    "nothing": "^$",
    "raise": "^raised: KeyError: 'x'$",
    "open": "heard: open .*outside/secret.txt",
    "natively": "^outside the file: secret.h5$",
    "write": r"^changed files: .*working/left'\]$",
    "process": "^heard: os.system",
    "import": "imported spy_that_configs_name",
    "crash": "^crashed by SIGSEGV$",
    "hang": "^hung$",
}


def test_holes_that_are_planted_are_seen() -> None:
    # And none of it is held against the next one.
    cases = [case for hole in HOLES for case in ((f"hole/{hole}", 0), ("hole/nothing", 0))]
    results = run(cases, hangs=2)
    found = {failure.kind.partition("/")[2]: "\n".join(failure.causes) for failure in results.failures}
    assert len(results.outcomes) == len(cases)
    for hole, cause in HOLES.items():
        if hole != "natively" or IS_WATCHED:
            assert re.search(cause, found.get(hole, ""), re.MULTILINE), (hole, found)


def test_bytes_are_the_same_for_a_seed() -> None:
    content = bytes(range(256)) * 8
    one, two = (changed_bytes(random.Random("7"), content) for _ in range(2))
    assert content != one == two
