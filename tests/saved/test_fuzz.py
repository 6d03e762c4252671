"""Mutated files are read, or refused with an error of mpls: nothing is raised else, run, opened or written."""

from __future__ import annotations

import random
import unittest
from typing import ClassVar

import pytest
from parameterized import parameterized

from tests.saved.fuzz_cases import spread
from tests.saved.fuzz_changes import changed_bytes
from tests.saved.fuzz_driver import Lane, Results, run
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
    """The sample has one process."""

    lane: ClassVar[Lane]

    @classmethod
    def setUpClass(cls) -> None:
        cls.lane = Lane().__enter__()
        cls.addClassCleanup(cls.lane.__exit__)

    @parameterized.expand([(SAMPLE_OF_INSPECTION, ("inspect",)), (SAMPLE_OF_LOADING, ("load_model", "convert_state"))])
    def test_sample(self, count: int, actions: tuple[str, ...]) -> None:
        self.lane.results = Results()
        for kind, seed in spread(count, actions):
            self.lane.run(kind, seed)
        check(self.lane.results, actions)

    @pytest.mark.long
    def test_many(self) -> None:
        results = run(spread(ALL))
        for action in ("inspect", "load_model", "convert_state"):
            check(results, (action,))


class HarnessTest(unittest.TestCase):
    """Holes that are planted are seen."""

    lane: ClassVar[Lane]

    @classmethod
    def setUpClass(cls) -> None:
        cls.lane = Lane(hangs=2).__enter__()
        cls.addClassCleanup(cls.lane.__exit__)

    @parameterized.expand(
        [
            ("nothing", ""),
            ("raise", "^raised: KeyError: 'x'$"),
            ("open", "heard: open .*outside/secret.txt"),
            ("natively", "^outside the file: secret.h5 opened"),
            ("write", "^changed files: .*working/left'\\]$"),
            ("process", "^heard: os.system"),
            ("import", "imported spy_that_configs_name"),
            ("crash", "^crashed by SIGSEGV$"),
            ("hang", "^hung for 2 s$"),
        ]
    )
    def test_what_is_seen(self, hole: str, cause: str) -> None:
        if hole == "natively" and not IS_WATCHED:
            self.skipTest("only Linux's inotify tells who opens a file")
        for each in (hole, "nothing"):
            self.lane.results = Results()
            self.lane.run(f"hole/{each}", 0)
            causes = "\n".join("\n".join(failure.causes) for failure in self.lane.results.failures)
            # And none of it is held against the next one.
            self.assertRegex(causes, cause if each == hole and cause else "^$")

    def test_bytes_are_the_same_for_a_seed(self) -> None:
        content = bytes(range(256)) * 8
        one, two = (changed_bytes(random.Random("7"), content) for _ in range(2))
        self.assertTrue(content != one == two)
