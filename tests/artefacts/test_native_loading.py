"""Files and configs of the native wrappers load natively as if mpls were not there, and those of mpls as its own."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import warnings
from typing import Any

import pytest
from parameterized import parameterized

import mpls.keras
from mpls.errors import MplsWarning
from tests.artefacts.test_writing import SCALES, trained_model
from tests.keras.families import FRAMEWORKS, NATIVE
from tests.processes import ROOT, process_environment

HERE = pathlib.Path(__file__).parent


def write_models(folder: pathlib.Path) -> None:
    """Write a model for each family, format, wrapper and kind of scale that there is."""
    for family, framework in FRAMEWORKS.items():
        for who, wrapper in (("native", NATIVE[family]), ("ours", mpls.keras.LossScaleOptimizer)):
            for kind, settings in SCALES.items():
                if (family, who, kind) == ("keras3", "native", "fixed"):
                    continue
                model = trained_model(family, wrapper, **settings)
                if who == "ours" and kind == "dynamic":
                    mpls.keras.save_model(model, folder / f"{framework.__name__}-{family}-ours-dynamic-by_mpls.keras")
                # In this order: Keras 3 forgets the optimizer when it writes an H5 file.
                for suffix in (".keras", ".h5", ""):
                    # One of the two, as a SavedModel takes seconds.
                    if suffix or (family != "keras3" and kind == ("dynamic" if family == "new" else "fixed")):
                        model.save(folder / f"{framework.__name__}-{family}-{who}-{kind}{suffix}")


def unnumbered(found: Any) -> str:
    """Return what was found, with names without the number that tells objects of a process apart."""
    return re.sub(r'"name": "(\w+?)_\d+"', r'"name": "\1"', json.dumps(found, sort_keys=True))


class NativeLoadingTest(unittest.TestCase):
    found: dict[str, dict[str, Any]]
    back: dict[str, Any]

    @classmethod
    def setUpClass(cls) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder, back = pathlib.Path(name, "models"), pathlib.Path(name, "back")
            folder.mkdir()
            back.mkdir()
            write_models(folder)
            running = {when: cls.start(when, folder, back) for when in ("without", "after", "installed")}
            printed = {when: process.communicate(timeout=300) for when, process in running.items()}
            for when, (_, errors) in printed.items():
                assert running[when].returncode == 0, f"{when}: {errors}"
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "mpls.keras.load_model: .* does not hold", MplsWarning)
                cls.back = {path.name: mpls.keras.load_model(path).optimizer for path in back.iterdir()}
        cls.found = {when: json.loads(output.strip().split("\n")[-1]) for when, (output, _) in printed.items()}

    @staticmethod
    def start(when: str, folder: pathlib.Path, back: pathlib.Path) -> subprocess.Popen[str]:
        # What `tf.keras` is does not matter.
        legacy = "1" if when == "after" else "0"
        return subprocess.Popen(
            [sys.executable, str(HERE / "loading_natively.py"), when, folder, HERE / "data" / "configs", back],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=process_environment(ROOT, TF_USE_LEGACY_KERAS=legacy),
        )

    @pytest.mark.programs
    def test_all_that_is_native_comes_as_without_mpls(self) -> None:
        without = {key: value for key, value in self.found["without"].items() if "-ours-" not in key}
        self.assertGreater(len(without), 100)
        for key, expected in without.items():
            with self.subTest(key=key):
                self.assertEqual(self.found["after"][key], expected)

    @pytest.mark.programs
    def test_what_mpls_has_written_loads_where_it_is_not_and_comes_back(self) -> None:
        without = self.found["without"]
        written = [key for key in without if "-ours-" in key and " " not in key]
        for key in written:
            with self.subTest(key=key):
                native = key.replace("-ours-", "-native-").replace("-by_mpls", "")
                if native in without:
                    self.assertEqual(unnumbered(without[key]), unnumbered(without[native]))
                else:
                    # Keras 3 knows no fixed scale; this one grows after more steps than its counter holds.
                    self.assertIn("keras3-ours-fixed", key)
                    self.assertEqual((without[key]["scale"], without[key]["good_steps"]), (8.0, 0))
                if key in self.back:
                    self.assertIn(mpls.keras.LossScaleOptimizer, type(self.back[key]).__mro__)
                    steps = 0 if "legacy" in key and key.endswith(".keras") else without[key]["iterations"] + 1
                    self.assertEqual(int(self.back[key].iterations), steps)
        self.assertEqual(len(self.back), len([key for key in without if " " not in key and "-" in key]) - 3)

    @parameterized.expand([("after", "after"), ("installed", "installed")])
    @pytest.mark.programs
    def test_what_mpls_has_written_comes_back_as_its_own(self, name: str, when: str) -> None:
        written = [key for key in self.found[when] if "-ours-" in key and " " not in key]
        self.assertEqual(len(written), 17)
        for key in written:
            with self.subTest(key=key):
                found = self.found[when][key]
                self.assertIn("mpls.keras.LossScaleOptimizer", found["bases"])
                self.assertEqual(found["config"]["initial_scale"], 8.0)
                state = (16.0, 1) if "-dynamic" in key else (8.0, None)
                self.assertEqual((found["scale"], found["good_steps"]), state)

    @pytest.mark.programs
    def test_while_old_names_mean_mpls_so_do_files_of_tf_keras(self) -> None:
        for key, found in self.found["installed"].items():
            if not isinstance(found, dict) or "bases" not in found:
                continue
            is_keras_3 = key.startswith("keras-") or ".k3" in key
            with self.subTest(key=key):
                is_ours = "mpls.keras.LossScaleOptimizer" in found["bases"]
                self.assertEqual(is_ours, not is_keras_3 or "-ours-" in key)
