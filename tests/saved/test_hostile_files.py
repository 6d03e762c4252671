"""Reading runs no code of a file, opens nothing outside the path, and writes nothing."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest
import zipfile
from unittest import mock

import h5py
import numpy as np
from parameterized import parameterized

from mpls.errors import SavedStateError
from mpls.inspect import describe
from mpls.saved.reading import read
from tests.saved import rewriting
from tests.saved.artefacts import DATA

SPY = "spy_that_files_name"
LAMBDA = {
    "class_name": "Lambda",
    "module": "keras.layers",
    "config": {"name": "spy", "function": ["4wEAAAAAAAAAAAAAAAA=", None, None], "function_type": "lambda"},
}
CUSTOM = {"class_name": "Spy", "module": SPY, "registered_name": f"{SPY}>Spy", "config": {"learning_rate": 0.5}}


class HostileFilesTest(unittest.TestCase):
    def setUp(self) -> None:
        base = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, base)
        self.folder, self.outside = base / "inside", base / "outside"
        self.folder.mkdir()
        self.outside.mkdir()

    def _h5(self) -> pathlib.Path:
        shutil.copy(DATA / "artefacts" / "keras_h5.momentum" / "tf24.lso2" / "model.h5", self.folder)
        return self.folder / "model.h5"

    @parameterized.expand([("external",), ("soft",), ("virtual",), ("raw",)])
    def test_links_in_h5_files(self, kind: str) -> None:
        path, other = self._h5(), self.outside / "other.h5"
        with h5py.File(other, "w") as file:
            file["secret"] = np.ones((2, 3), np.float32)
        (self.outside / "raw").write_bytes(b"\0" * 24)
        with h5py.File(path, "r+") as file:
            weights = file["optimizer_weights"]
            name = weights.attrs["weight_names"][1].decode()
            del weights[name]
            if kind == "external":
                weights[name] = h5py.ExternalLink(str(other), "/secret")
            elif kind == "soft":
                weights[name] = h5py.SoftLink("/model_weights/d0/d0/kernel:0")
            elif kind == "virtual":
                layout = h5py.VirtualLayout((2, 3), np.float32)
                layout[...] = h5py.VirtualSource(str(other), "secret", (2, 3))
                weights.create_virtual_dataset(name, layout)
            else:
                external = [(str(self.outside / "raw"), 0, 24)]
                weights.create_dataset(name, (2, 3), np.float32, external=external)
            # The links work.
            self.assertEqual(weights[name].shape, (2, 3))
        constraint = (
            "be a dataset in the file" if kind in ("external", "soft") else "have its values in the file itself"
        )
        with self.assertRaisesRegex(SavedStateError, f"{name} must {constraint}"):
            read(path)

    def test_links_out_of_the_folder(self) -> None:
        source = DATA / "artefacts" / "keras_object.adam" / "tf24.lso2"
        for file in source.glob("ckpt-1*"):
            shutil.copy(file, self.folder)
            shutil.copy(file, self.outside)
        for file in sorted(self.folder.iterdir()):
            file.unlink()
            file.symlink_to(self.outside / file.name)
            with self.assertRaisesRegex(
                SavedStateError, f"{file.name}: the file must be inside .*, not a link to else"
            ):
                read(self.folder / "ckpt-1")
            file.unlink()
            shutil.copy(self.outside / file.name, file)
        # Within the folder links do no harm, and the user may name what is one.
        for file in sorted(self.folder.iterdir()):
            file.rename(self.folder / f"real-{file.name}")
            file.symlink_to(f"real-{file.name}")
        link = self.outside / "link"
        link.symlink_to(self.folder)
        self.assertEqual(read(link / "ckpt-1").optimizers[0].iterations, 6)

    @parameterized.expand([("saved_model.pb",), ("keras_metadata.pb",), ("variables",)])
    def test_links_out_of_a_saved_model(self, name: str) -> None:
        source = DATA / "artefacts" / "keras_tf.momentum" / "tf215.lso2" / "saved_model"
        target = self.folder / "saved_model"
        shutil.copytree(source, target)
        (target / name).rename(self.outside / name)
        (target / name).symlink_to(self.outside / name)
        with self.assertRaisesRegex(SavedStateError, "the file must be inside .*, not a link to elsewhere"):
            read(target)

    @unittest.skipUnless(hasattr(os, "mkfifo"), "the system has no FIFOs")
    def test_pipes_are_not_waited_for(self) -> None:
        for name in ("model.h5", "ckpt.index"):
            os.mkfifo(self.folder / name)
            with self.assertRaisesRegex(SavedStateError, "the file must be a regular file"):
                read(self.folder / name)

    def test_no_code_of_archives_runs(self) -> None:
        with zipfile.ZipFile(DATA / "artefacts" / "keras_v3.momentum" / "tf21.k3" / "model.keras") as archive:
            config = json.loads(archive.read("config.json"))
        config["config"]["layers"].append(LAMBDA)
        config["compile_config"]["optimizer"]["config"]["inner_optimizer"].update(CUSTOM)
        config["compile_config"]["loss"] = CUSTOM
        path = rewriting.archive("keras_v3.momentum/tf21.k3", self.folder, {}, config=json.dumps(config).encode())
        with zipfile.ZipFile(path, "a") as archive:
            for name in ("../../escaped", "/escaped", "assets/../../../escaped"):
                archive.writestr(name, b"text")
        self._assert_only_read(path)

    def test_no_code_of_h5_files_runs(self) -> None:
        path = self._h5()
        with h5py.File(path, "r+") as file:
            model = json.loads(file.attrs["model_config"])
            model["config"]["layers"].append(LAMBDA)
            file.attrs["model_config"] = json.dumps(model)
            training = json.loads(file.attrs["training_config"])
            training["optimizer_config"]["config"]["inner_optimizer"].update(CUSTOM)
            file.attrs["training_config"] = json.dumps(training)
        self._assert_only_read(path)

    def test_no_code_of_configs_runs(self) -> None:
        config = rewriting.config("config_default.tf21.k3")
        config["config"]["inner_optimizer"] = CUSTOM
        config["module"] = SPY
        path = self.folder / "config.json"
        path.write_text(json.dumps(config))
        self._assert_only_read(path)

    def _assert_only_read(self, path: pathlib.Path) -> None:
        (self.outside / f"{SPY}.py").write_text("raise AssertionError('a class in the file was looked up')")
        before = self._everything()
        with mock.patch.object(sys, "path", [str(self.outside), *sys.path]):
            (optimizer,) = read(path).optimizers
            description = describe(path)
        self.assertIsNone(optimizer.algorithm)
        self.assertEqual(description["status"], "ok")
        self.assertNotIn(SPY, sys.modules)
        self.assertEqual(self._everything(), before)

    def _everything(self) -> dict[str, bytes]:
        root = self.folder.parent
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
