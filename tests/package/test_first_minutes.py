"""A new user's first minutes: mpls is built, installed and used, with an empty home and without a compiler."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest
import venv
from typing import ClassVar

import pytest
from parameterized import parameterized

from tests.processes import ROOT, build, share_packages

pytestmark = pytest.mark.programs


def built(source: pathlib.Path, target: pathlib.Path, kind: str) -> pathlib.Path:
    build(source, target, kind)
    (path,) = target.iterdir()
    return path


class FirstMinutesTest(unittest.TestCase):
    folder: ClassVar[pathlib.Path]

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="mpls-first-minutes-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        with tarfile.open(built(ROOT, cls.folder / "sdist", "sdist")) as source:
            source.extractall(cls.folder / "source", filter="data")
        (cls.source,) = (cls.folder / "source").iterdir()
        cls.wheel = built(cls.source, cls.folder / "wheel", "wheel")
        cls.home = cls.folder / "home"
        cls.home.mkdir()
        venv.create(cls.folder / "venv", with_pip=True)
        cls.commands = cls.folder / "venv" / "bin"
        cls.run_command("pip", "install", "--quiet", "--no-index", "--no-deps", str(cls.wheel))
        # What mpls needs is not downloaded again.
        share_packages(cls.folder / "venv")

    @classmethod
    def run_command(cls, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the new environment, which finds no other."""
        variables = {"HOME": str(cls.home), "PATH": str(cls.commands), "TF_CPP_MIN_LOG_LEVEL": "3"}
        command = [str(cls.commands / name), *arguments]
        done = subprocess.run(command, cwd=cls.home, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done

    def test_the_wheel_of_the_sdist_is_that_of_the_checkout(self) -> None:
        again = built(ROOT, self.folder / "again", "wheel")
        self.assertEqual(again.name, self.wheel.name)
        self.assertEqual(again.read_bytes(), self.wheel.read_bytes())

    def test_the_readme_runs_with_warnings_as_errors_and_leaves_nothing(self) -> None:
        blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
        self.assertGreater(len(blocks), 2)
        program = self.folder / "readme.py"
        program.write_text("\n".join(blocks))
        done = self.run_command("python", "-W", "error", str(program))
        self.assertNotIn("Warning", done.stderr)
        self.assertEqual([path for path in self.home.rglob("*") if "mpls" in path.name], [])

    @parameterized.expand(
        [
            ("help", ["--help"], "migrate"),
            ("docs", ["docs", "nan"], "NaN"),
            ("doctor", ["doctor", "legacy_digits.py"], "--v1 --contrib"),
            ("migrate", ["migrate", "legacy_digits.py"], "import mpls"),
        ]
    )
    def test_commands(self, name: str, arguments: list[str], printed: str) -> None:
        shutil.copy(ROOT / "examples" / "legacy_digits.py", self.home)
        done = self.run_command("mpls", *arguments)
        self.assertIn(printed, done.stdout)
        self.assertNotIn("Warning", done.stderr)
