"""What files and paths say reaches the terminal escaped, and can be written in every encoding."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest
from typing import Any

import h5py
import pytest
from parameterized import parameterized

from mpls.errors import SavedStateError, printable
from mpls.saved.reading import read
from tests.commands import run_command
from tests.folders import InFolder
from tests.saved import rewriting
from tests.saved.artefacts import DATA

# A colour, the title of a window, a bell, a C1 control, directions of writing, a line that claims to be another one.
STEERING = "\x1b[31m\x1b]0;x\x07\x9b2J\u202e\u2066\u2069\u200f\r\nok"


class ShownTest(InFolder, unittest.TestCase):
    def _write(self, **settings: Any) -> pathlib.Path:
        config = rewriting.config("config_default.tf24.lso2")
        config["config"]["inner_optimizer"]["config"].update(settings)
        path = self.folder / "config.json"
        path.write_text(json.dumps(config))
        return path

    def _shown(self, *arguments: str) -> str:
        _, out, err = run_command("inspect", *arguments)
        return out + err

    def _assert_harmless(self, text: str) -> None:
        self.assertEqual([each for each in text if not (each.isprintable() or each == "\n")], [])
        self.assertNotIn("\nok", text)

    def test_printable(self) -> None:
        self.assertEqual(printable("Größe 1"), "Größe 1")
        self.assertEqual(printable("a\n\x1b\u202e\x85\ud800"), "a\\n\\x1b\\u202e\\x85\\ud800")

    def test_keys_and_values(self) -> None:
        path = self._write(**{STEERING: STEERING, "nested": {"class_name": STEERING}})
        for arguments in ((), ("--json",)):
            text = self._shown(str(path), *arguments)
            self._assert_harmless(text)
            self.assertIn("x1b" if not arguments else "u001b", text)

    def test_errors_about_keys_values_and_paths(self) -> None:
        config = rewriting.config("config_default.tf24.lso2")
        config["config"][STEERING] = 1
        path = self.folder / f"a{STEERING}.json"
        path.write_text(json.dumps(config))
        for place in (path, self.folder / STEERING):
            with self.assertRaises(SavedStateError) as caught:
                read(place)
            self._assert_harmless(str(caught.exception))
            self._assert_harmless(self._shown(str(place)))

    def test_names_in_h5_files(self) -> None:
        path = self.folder / "model.h5"
        shutil.copy(DATA / "artefacts" / "keras_h5.momentum" / "tf24.lso2" / "model.h5", path)
        with h5py.File(path, "r+") as file:
            file[STEERING] = h5py.SoftLink("/model_weights")
        self._assert_harmless(self._shown(str(path)))

    @parameterized.expand(
        [("key", '"\\ud800": 1'), ("value", '"x": "\\udfff"'), ("nested", '"x": [{"y": ["\\ud800"]}]')]
    )
    def test_half_characters(self, kind: str, part: str) -> None:
        path = self._write()
        text = path.read_text()
        path.write_text(text.replace('"learning_rate"', f'{part}, "learning_rate"', 1))
        self.assertNotEqual(path.read_text(), text)
        with self.assertRaisesRegex(SavedStateError, "the file must be JSON"):
            read(path)

    def test_whole_characters_and_what_only_looks_like_half_ones(self) -> None:
        path = self._write(note="\U0001f600", pattern="\\ud800")
        self.assertIn("\\ud83d", path.read_text())
        self.assertEqual(read(path).optimizers[0].hyperparameters["note"], "\U0001f600")

    @parameterized.expand([("ascii",), ("latin-1",), ("utf-8",)])
    @pytest.mark.default_run("one case")
    def test_encodings_of_the_terminal(self, encoding: str) -> None:
        path = self._write(note="Größe \U0001f600")
        for arguments in ((), ("--json",)):
            command = [sys.executable, "-m", "mpls", "inspect", str(path), *arguments]
            environment = {**os.environ, "PYTHONIOENCODING": f"{encoding}:strict"}
            result = subprocess.run(command, env=environment, capture_output=True, check=False)
            self.assertEqual((result.returncode, result.stderr), (0, b""))

    @unittest.skipUnless(sys.platform == "linux", "names that are not UTF-8 are those of Linux")
    def test_paths_that_are_not_utf8(self) -> None:
        place = os.fsencode(self.folder) + b"/\xff.json"
        shutil.copy(self._write(), place)
        for arguments in ([], [b"--json"]):
            command = [os.fsencode(sys.executable), b"-m", b"mpls", b"inspect", place, *arguments]
            result = subprocess.run(command, capture_output=True, check=False)
            self.assertEqual((result.returncode, result.stderr), (0, b""))
