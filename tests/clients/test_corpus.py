"""Every client by `mpls run`, without an option, beside what its release printed.

What it does not choose by itself, `mpls run` names on standard error; with it, the second try has to succeed. The
counts are in docs/comparison.md.
"""

from __future__ import annotations

import collections
import json
import re
import subprocess
import sys
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from parameterized import parameterized

from tests.processes import PACKAGE_ROOT, python_path

from . import running
from .comparing import differences
from .corpus import CANNOT, HINTED, PROGRAMS, UNTOLD
from .record import HERE, environment, lines_of, path_of, releases_of

ROOT = HERE.parents[1]

FIRST = [name for name in PROGRAMS if name not in {*HINTED, *UNTOLD, *CANNOT}]


def _run(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    words = " ".join(options).split()
    command = [sys.executable, "-m", "mpls", "run", *words, str(path_of(name))]
    settings = {key: value for key, value in environment().items() if key != "PYTHONWARNINGS"}
    settings["PYTHONPATH"] = python_path(PACKAGE_ROOT)
    return subprocess.run(command, env=settings, capture_output=True, text=True, cwd=path_of(name).parent)


def _differences(name: str, stdout: str) -> list[str]:
    release = PROGRAMS[name].releases[0]
    recorded = json.loads((HERE / "data" / f"{name}.json").read_text())[release]
    if PROGRAMS[name].folder == "scripts":
        return running.differences(lines_of(stdout), running.today(recorded))
    return differences(stdout.splitlines(), recorded, PROGRAMS[name].tolerance)


def _name(function: Callable[..., None], number: str, case: Any) -> str:
    return f"{function.__name__}_{case.args[0]}"


class _Corpus(unittest.TestCase):
    def succeeds(self, name: str, *options: str) -> None:
        done = _run(name, *options)
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr[-4000:]}")
        found = _differences(name, done.stdout)
        self.assertFalse(found, "\n".join(["", *found, done.stderr[-1000:]]))


class FirstTryTest(_Corpus):
    @parameterized.expand(FIRST, name_func=_name)
    @pytest.mark.programs
    @pytest.mark.default_run("each value", by=lambda name: (PROGRAMS[name].options, PROGRAMS[name].folder), rest="full")
    def test_as_recorded(self, name: str) -> None:
        self.succeeds(name)


@pytest.mark.programs
class HintTest(_Corpus):
    @parameterized.expand(HINTED, name_func=_name)
    @pytest.mark.default_run("each value", by=lambda name: (PROGRAMS[name].style,), rest="full")
    def test_the_hint_is_followed(self, name: str) -> None:
        first = _run(name)
        self.assertTrue(first.returncode or _differences(name, first.stdout), "it needs no hint any more")
        self.assertIn(HINTED[name], first.stderr)
        self.succeeds(name, HINTED[name])

    @parameterized.expand(UNTOLD, name_func=_name)
    @pytest.mark.default_run("one case", rest="full")
    def test_what_nothing_tells(self, name: str) -> None:
        first = _run(name)
        self.assertTrue(first.returncode or _differences(name, first.stdout), "something tells it now")
        named = [option for option in PROGRAMS[name].options if option in first.stderr]
        self.assertNotEqual(named, list(PROGRAMS[name].options))
        self.succeeds(name, *PROGRAMS[name].options)

    @parameterized.expand(CANNOT, name_func=_name)
    @pytest.mark.default_run("one case", rest="full")
    def test_what_cannot_run(self, name: str) -> None:
        done = _run(name, *PROGRAMS[name].options)
        self.assertEqual(done.returncode, 1)
        self.assertIn(CANNOT[name], done.stderr)


class CountsTest(unittest.TestCase):
    """What docs/comparison.md says of the corpus is what the tests above hold."""

    def counts(self) -> dict[str, list[int]]:
        counts: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0, 0, 0])
        for name, program in PROGRAMS.items():
            outcome = 1 if name in FIRST else 2 if name in HINTED else 3
            for style in (program.style, "all"):
                counts[style][0] += 1
                counts[style][outcome] += 1
        return counts

    def test_the_comparison_has_them(self) -> None:
        section = (ROOT / "docs" / "comparison.md").read_text().partition("## Old programs\n")[2].partition("\n## ")[0]
        section = section.partition("\n| style |")[2].partition("\n\n")[0]
        rows = dict(re.findall(r"^\| ([^|]+) \| ([\d| ]+) \|$", section, re.MULTILINE))
        said = {style: [int(cell) for cell in cells.split("|")] for style, cells in rows.items()}
        self.assertEqual(said, dict(self.counts()))

    def test_four_in_five_need_no_second_try(self) -> None:
        programs, first, hinted, cannot = self.counts()["all"]
        self.assertGreaterEqual(programs, 60)
        self.assertEqual(programs, first + hinted + cannot)
        self.assertGreaterEqual(first / programs, 0.8)

    def test_every_program_is_recorded(self) -> None:
        for folder in ("programs", "scripts"):
            there = {path.stem for path in (HERE / folder).glob("*.py")}
            self.assertEqual({name for name, program in PROGRAMS.items() if program.folder == folder}, there)
        for name, program in PROGRAMS.items():
            data = json.loads((HERE / "data" / f"{name}.json").read_text())
            self.assertEqual(tuple(data), releases_of(name))
            self.assertIn(program.releases[0], data)
            self.assertTrue(all(len(lines) >= 2 for lines in data.values()), name)
        self.assertEqual({path.stem for path in (HERE / "data").glob("*.json")}, set(PROGRAMS))

    def test_programs_say_their_release(self) -> None:
        # In prose, which decides nothing.
        for name, program in PROGRAMS.items():
            head = Path(path_of(name)).read_text()[:600]
            if program.folder == "programs":
                self.assertTrue(any(release in head for release in program.releases), name)


class ComparingTest(unittest.TestCase):
    @parameterized.expand(
        [
            ("step 1 loss 0.5001 scale 16384", "step 1 loss 0.5002 scale 16384", True),
            ("step 1 loss 0.5001 scale 16384", "step 1 loss 0.5004 scale 16384", False),
            ("step 1 loss 0.5001 scale 16384", "step 1 loss 0.5001 scale 8192", False),
            ("step 1 loss 0.5001 scale 16384", "step 2 loss 0.5001 scale 16384", False),
            ("step 1 loss nan", "step 1 loss nan", True),
            ("step 1 loss 0.5", "step 1 loss nan", False),
            ("step 1 loss inf", "step 1 loss nan", False),
            ("w [0.30000001192092896]", "w [0.30000000000000004]", True),
            ("class SGD", "class Adam", False),
            ("class LossScaleOptimizerV1", "class LossScaleOptimizerV3", False),
            ("loss 1.25e-05", "loss 1.26e-05", True),
            ("loss 1.25e-05", "loss 1.25e-04", False),
        ]
    )
    def test_what_is_the_same(self, one: str, other: str, is_same: bool) -> None:
        self.assertEqual(not differences([one], [other], 1e-5), is_same)

    def test_lines_that_are_missing(self) -> None:
        self.assertEqual(differences(["a"], ["a", "b"], 1e-5), ["1 lines for 2"])

    def test_the_tolerance(self) -> None:
        self.assertEqual(differences(["loss 100.0000"], ["loss 100.0100"], 1e-3), [])
        self.assertTrue(differences(["loss 100.0000"], ["loss 100.0100"], 1e-5))
