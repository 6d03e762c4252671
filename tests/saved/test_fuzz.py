"""Mutated files are read, or refused with an error of mpls: nothing is raised else, run, opened or written."""

from __future__ import annotations

import json
import pathlib
import shutil
import tempfile
import unittest
from collections.abc import Sequence
from typing import Any

import pytest
from parameterized import parameterized

from tests.saved import watching
from tests.saved.artefacts import DATA
from tests.saved.fuzz_driver import Lane, Results, prepare, run
from tests.saved.fuzz_process import FRAMEWORKS, Limits
from tests.saved.mutations import archives, cases
from tests.saved.mutations.canary import SPY
from tests.saved.mutations.payloads import Payloads
from tests.saved.mutations.sources import Sources, sources
from tests.saved.mutations.values import Mutator

# Of files that inspection reads, which costs little, and of those that are loaded.
SAMPLE_OF_INSPECTION, SAMPLE_OF_LOADING = 264, 36
INSPECTION, LOADING = cases.ACTIONS[:1], cases.ACTIONS[1:]
ALL = 20_000
ENOUGH = 100
# A run of many reports no more.
SHOWN = 25

needs_watch = unittest.skipUnless(watching.IS_SUPPORTED, watching.WHY_NOT)


def check(results: Results, count: int, actions: Sequence[str]) -> None:
    failures = results.failures
    shown = "\n\n".join(map(str, failures[:SHOWN]))
    assert not failures, f"{len(failures)} of {count} cases, of which {min(len(failures), SHOWN)} follow:\n\n{shown}"
    # Neither does everything pass, nor nothing. Of few cases, those of all actions count: chance decides of one.
    for group in [actions] if count < ENOUGH else [(action,) for action in actions]:
        share = results.share(*group)
        assert 0.04 < share < 0.9, f"{' and '.join(group)} read {share:.0%} of the files"


class SampleTest(unittest.TestCase):
    """Few of all kinds, in processes that the tests share."""

    lane: Lane

    @classmethod
    def setUpClass(cls) -> None:
        base = pathlib.Path(tempfile.mkdtemp()).resolve()
        cls.addClassCleanup(shutil.rmtree, base)
        cls.lane = Lane(base / "lane", Sources([]), few=True)
        cls.addClassCleanup(cls.lane.close)
        cls.lane.use(prepare(base, few=True, builder=cls.lane.process(FRAMEWORKS)))

    def _check(self, chosen: list[tuple[str, int]], actions: Sequence[str]) -> None:
        self.lane.results = Results()
        for kind, seed in chosen:
            self.lane.run(kind, seed)
        check(self.lane.results, len(chosen), actions)

    # In parts, as the first waits for the processes to start.
    @parameterized.expand([(0,), (1,), (2,)])
    def test_inspection(self, part: int) -> None:
        self._check(cases.spread(SAMPLE_OF_INSPECTION, INSPECTION)[part::3], INSPECTION)

    def test_loading(self) -> None:
        self._check(cases.spread(SAMPLE_OF_LOADING, LOADING), LOADING)


class FuzzTest(unittest.TestCase):
    @pytest.mark.long
    def test_many(self) -> None:
        chosen = cases.spread(ALL)
        check(run(chosen, few=False), len(chosen), cases.ACTIONS)


class HarnessTest(unittest.TestCase):
    """Holes that are planted are seen."""

    lane: Lane

    @classmethod
    def setUpClass(cls) -> None:
        base = pathlib.Path(tempfile.mkdtemp()).resolve()
        cls.addClassCleanup(shutil.rmtree, base)
        limits = {"hole": Limits(seconds=0.5, memory=300 << 20), "sleep": Limits(watchdog=2)}
        cls.lane = Lane(base, Sources([]), few=True, limits=limits)
        cls.addClassCleanup(cls.lane.close)

    def setUp(self) -> None:
        self.lane.results.failures.clear()

    def _causes(self) -> str:
        (failure,) = self.lane.results.failures
        return "\n".join(failure.causes)

    def test_nothing(self) -> None:
        self.lane.request("hole", "nothing")
        self.assertEqual(self.lane.results.failures, [])

    @parameterized.expand(
        [
            ("spin", "0.8", "too slow: 0.[6-9] s, and read"),
            ("memory", str(400 << 20), "too much memory: 4.. MB, and read"),
            ("memory", str(2 << 30), "too much memory: more than .* killed"),
            ("crash", "", "crashed by SIGSEGV"),
            ("raise", "x", "raised: KeyError: 'x'"),
            ("import", SPY, f"heard: import of '{SPY}'"),
            ("leave", ".", "changed files: .*left"),
        ]
    )
    def test_what_should_not_happen(self, kind: str, argument: str, cause: str) -> None:
        if kind in ("spin", "memory") and not watching.IS_SUPPORTED:
            self.skipTest("only Linux tells what another process takes")
        self.lane.request("hole", kind, argument)
        self.assertRegex(self._causes(), cause)
        # And none of it is held against the next one.
        self.lane.results.failures.clear()
        self.test_nothing()

    def test_what_hangs_is_killed(self) -> None:
        self.lane.request("sleep", "")
        self.assertIn("too slow: killed after 2 s", self._causes())

    def test_what_is_outside_is_opened(self) -> None:
        secret = self.lane.canary.secret(".txt")
        self.lane.request("hole", "open", secret)
        self.assertIn(f"heard: open {secret}", self._causes())
        if watching.IS_SUPPORTED:
            self.assertIn("outside/secret.txt read", self._causes())

    def test_a_command_is_run(self) -> None:
        self.lane.request("hole", "command", f"touch {self.lane.canary.touched}")
        self.assertIn("outside the file: ", self._causes())
        self.assertIn("heard: os.system", self._causes())
        self.assertFalse(self.lane.canary.touched.exists())

    @pytest.mark.matrix
    def test_code_of_a_file_is_run(self) -> None:
        folder = self.lane.base / "case"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        path = folder / "model.keras"
        shutil.copy(DATA / "artefacts" / "keras_v3.momentum" / "tf215.lso2" / "model.keras", path)
        members = archives.members_of(path)
        config = json.loads(members["config.json"])
        payloads = Payloads(Mutator(0).random, self.lane.canary)
        layer: dict[str, Any] = {
            "class_name": "Lambda",
            "module": "keras.layers",
            "registered_name": None,
            "name": "spy",
        }
        layer["config"] = payloads.lambda_settings([payloads.bytecode(), None, None], "lambda")
        layer["inbound_nodes"] = [["_CONSTANT_VALUE", -1, "x", {}]]
        config["config"]["layers"].append(layer)
        archives.write(path, {**members, "config.json": json.dumps(config).encode()})
        self.lane.request("load_model", str(path))
        self.assertEqual(self.lane.results.failures, [])
        self.lane.request("unsafe", str(path))
        for cause in ("outside the file: ", "heard: marshal.loads", "heard: os.system"):
            self.assertIn(cause, self._causes())

    @needs_watch
    @pytest.mark.matrix
    def test_native_code_opens_what_is_outside(self) -> None:
        self.lane.request("natively", self.lane.canary.secret(".bin"))
        self.assertRegex(self._causes(), "outside the file: .*outside/secret.bin read")
        self.assertNotIn("heard", self._causes())

    def test_cases_are_the_same_for_a_seed(self) -> None:
        recorded = sources(None)
        for kind, seed in cases.spread(60):
            made = []
            for name in ("one", "two"):
                folder = self.lane.base / name
                folder.mkdir()
                case = cases.make(kind, seed, folder, self.lane.canary, recorded)
                made.append((case.what, [path.name for path in sorted(folder.rglob("*"))]))
                shutil.rmtree(folder)
            self.assertEqual(*made)
