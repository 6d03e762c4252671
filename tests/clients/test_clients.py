"""Programs as people wrote them, unmodified, by `mpls run`, beside what the releases of their time printed.

Each run is an interpreter of its own, without an option: what it does not choose by itself, `mpls run` names on
standard error, and with it the second try has to succeed. The counts are in docs/comparison.md. `-m long` runs the
scripts beside every release, with either generation of Keras.
"""

from __future__ import annotations

import collections
import json
import re
import subprocess
import unittest

import pytest
from parameterized import parameterized

from tests.golden.replay import named
from tests.processes import PACKAGE_ROOT, python_path, run_python

from .comparing import differences, differences_from_record
from .corpus import CANNOT, HINTED, PROGRAMS, UNTOLD
from .record import HERE, environment, path_of

FIRST = [name for name in PROGRAMS if name not in {*HINTED, *UNTOLD, *CANNOT}]
KERAS = {"keras 3": "0", "tf_keras": "1"}
# They need optimizers and files that Keras 3 does not have.
NOT_ON_KERAS_3 = ("compiled_graph_optimizer", "electra_checkpoint", "recommender_twice", "speech_synthesis")
ON_EITHER_KERAS = [
    (name, release, keras)
    for name, program in PROGRAMS.items()
    if program.folder == "scripts" and name not in CANNOT
    for release in program.releases
    for keras in KERAS
    if not (keras == "keras 3" and name in NOT_ON_KERAS_3)
]


def run(name: str, *options: str, **settings: str) -> subprocess.CompletedProcess[str]:
    words = " ".join(options).split()
    path = path_of(name)
    settings = {**environment(), "PYTHONPATH": python_path(PACKAGE_ROOT), **settings}
    return run_python("-m", "mpls", "run", *words, str(path), folder=path.parent, environment=settings)


def fails(name: str, done: subprocess.CompletedProcess[str]) -> bool:
    return bool(done.returncode or differences_from_record(name, done.stdout, PROGRAMS[name].releases[0]))


@pytest.mark.programs
class ClientsTest(unittest.TestCase):
    def succeeds(self, name: str, *options: str, release: str = "", **settings: str) -> None:
        done = run(name, *options, **settings)
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr[-4000:]}")
        found = differences_from_record(name, done.stdout, release or PROGRAMS[name].releases[0])
        self.assertFalse(found, "\n".join(["", *found, done.stderr[-1000:]]))

    @parameterized.expand(FIRST, name_func=named)
    @pytest.mark.default_run("each value", by=lambda name: (PROGRAMS[name].options, PROGRAMS[name].folder), rest="full")
    def test_the_first_try(self, name: str) -> None:
        self.succeeds(name)

    @parameterized.expand(HINTED, name_func=named)
    def test_the_hint_is_followed(self, name: str) -> None:
        first = run(name)
        self.assertTrue(fails(name, first), "it needs no hint any more")
        self.assertIn(HINTED[name], first.stderr)
        self.succeeds(name, HINTED[name])

    @parameterized.expand(UNTOLD, name_func=named)
    @pytest.mark.default_run("one case", rest="full")
    def test_what_nothing_tells(self, name: str) -> None:
        first = run(name)
        self.assertTrue(fails(name, first), "something tells it now")
        named = [option for option in PROGRAMS[name].options if option in first.stderr]
        self.assertNotEqual(named, list(PROGRAMS[name].options))
        self.succeeds(name, *PROGRAMS[name].options)

    @parameterized.expand(CANNOT, name_func=named)
    @pytest.mark.default_run("one case", rest="full")
    def test_what_cannot_run(self, name: str) -> None:
        done = run(name, *PROGRAMS[name].options)
        self.assertEqual(done.returncode, 1)
        self.assertIn(CANNOT[name], done.stderr)

    @parameterized.expand(ON_EITHER_KERAS, name_func=named)
    @pytest.mark.default_run("each value", by=lambda name, release, keras: (keras,), rest="long")
    def test_every_release_on_either_keras(self, name: str, release: str, keras: str) -> None:
        options = [option for option in PROGRAMS[name].options if option in ("--v1", "--contrib")]
        # It needs a name that Keras 3 has too, for another class.
        options += ["--replace-existing"] if (name, keras) == ("both_generations", "keras 3") else []
        self.succeeds(name, *options, "--as-of", release, release=release, TF_USE_LEGACY_KERAS=KERAS[keras])


class CountsTest(unittest.TestCase):
    def test_the_comparison_has_them(self) -> None:
        counts: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0, 0, 0])
        for name, program in PROGRAMS.items():
            outcome = 1 if name in FIRST else 2 if name in HINTED else 3
            for style in (program.style, "all"):
                counts[style][0] += 1
                counts[style][outcome] += 1
        text = (HERE.parents[1] / "docs" / "comparison.md").read_text()
        section = text.partition("\n| style |")[2].partition("\n\n")[0]
        rows = dict(re.findall(r"^\| ([^|]+) \| ([\d| ]+) \|$", section, re.MULTILINE))
        self.assertEqual({style: [int(cell) for cell in cells.split("|")] for style, cells in rows.items()}, counts)

    def test_every_program_is_recorded(self) -> None:
        for folder in ("programs", "scripts"):
            there = {path.stem for path in (HERE / folder).glob("*.py")}
            self.assertEqual({name for name, program in PROGRAMS.items() if program.folder == folder}, there)
        for name, program in PROGRAMS.items():
            data = json.loads((HERE / "data" / f"{name}.json").read_text())
            self.assertEqual(set(data), set(program.releases))
            self.assertTrue(all(len(lines) >= 2 for lines in data.values()), name)
        self.assertEqual({path.stem for path in (HERE / "data").glob("*.json")}, set(PROGRAMS))


class ComparingTest(unittest.TestCase):
    """The comparison can fail."""

    @parameterized.expand(
        [
            ("step 1 loss 0.5001 scale 16384", "step 1 loss 0.5002 scale 16384", True),
            ("step 1 loss 0.5001 scale 16384", "step 1 loss 0.5004 scale 16384", False),
            ("step 1 loss 0.5001 scale 16384", "step 1 loss 0.5001 scale 8192", False),
            ("step 1 loss nan", "step 1 loss nan", True),
            ("step 1 loss inf", "step 1 loss nan", False),
            ("w [0.30000001192092896]", "w [0.30000000000000004]", True),
            ("class LossScaleOptimizerV1", "class LossScaleOptimizerV3", False),
            ("loss 1.25e-05", "loss 1.26e-05", True),
            ("loss 1.25e-05", "loss 1.25e-04", False),
        ]
    )
    def test_of_words(self, one: str, other: str, is_same: bool) -> None:
        self.assertEqual(not differences([one], [other], 1e-5), is_same)
        self.assertEqual(differences([one], [one, one], 1e-5), ["1 lines for 2"])
