"""Archives: compressed or not, they are read; those that are broken, or would unpack to far more, are refused."""

from __future__ import annotations

import inspect
import io
import pathlib
import shutil
import tempfile
import unittest
import zipfile
from typing import Any

import h5py
import keras
import numpy as np
from parameterized import parameterized

import mpls.keras
from mpls.errors import SavedStateError
from mpls.formats.record import FileRecord
from mpls.saved.containers import StoredArray
from mpls.saved.reading import opened_model, read
from tests.saved.artefacts import DATA

MODEL = DATA / "artefacts" / "keras_v3.momentum" / "tf21.k3" / "model.keras"
LEGACY = DATA / "artefacts" / "keras_v3.momentum" / "tf21.lso2" / "model.keras"


def members() -> dict[str, bytes]:
    with zipfile.ZipFile(MODEL) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


class ArchivesTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = self.folder / "model.keras"

    def _write(self, content: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
        with zipfile.ZipFile(self.path, "w", method) as archive:
            for name, value in content.items():
                archive.writestr(name, value)
        return self.path.read_bytes()

    def _assert_refused(self, text: str) -> None:
        with self.assertRaisesRegex(SavedStateError, text):
            read(self.path)
        with self.assertRaisesRegex(SavedStateError, text):
            mpls.keras.load_model(self.path, compile=False)

    @parameterized.expand([(zipfile.ZIP_STORED,), (zipfile.ZIP_DEFLATED,)])
    def test_honest_ones_are_read(self, method: int) -> None:
        # A hundred MB of zeros are packed to a thousandth.
        self._write(members() | {"assets/words.txt": bytes(100 << 20)}, method)
        self.assertTrue(read(self.path).optimizers)
        # Python 3.10 has no Keras as new as the one that wrote the file.
        if "quantization_config" in inspect.signature(keras.layers.Dense).parameters:
            mpls.keras.load_model(self.path, compile=False)

    @parameterized.expand([("config.json",), ("model.weights.h5",), ("assets/words.txt",)])
    def test_member_that_unpacks_to_much(self, name: str) -> None:
        content = self._write(members() | {name: bytes(1_234_567)}, zipfile.ZIP_DEFLATED)
        self.path.write_bytes(content.replace((1_234_567).to_bytes(4, "little"), (1 << 31).to_bytes(4, "little")))
        self._assert_refused("the archive must unpack to at most")

    def test_the_same_name_twice(self) -> None:
        self._write(members())
        with self.assertWarns(UserWarning), zipfile.ZipFile(self.path, "a") as archive:
            archive.writestr("config.json", b"{}")
        self._assert_refused("two members have the same name")

    def test_member_of_another_name(self) -> None:
        content = bytearray(self._write(members()))
        content[30] = ord("x")
        self.path.write_bytes(content)
        self._assert_refused("must be whole")

    def test_damaged_member_of_any_name(self) -> None:
        content = self._write(members() | {"assets/words.txt": b"some words"})
        self.path.write_bytes(content.replace(b"some words", b"same words"))
        with self.assertRaisesRegex(SavedStateError, "assets/words.txt must be whole"):
            mpls.keras.load_model(self.path, compile=False)

    def test_archive_in_the_archive(self) -> None:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as inner:
            inner.writestr("arr_0.npy", bytes(140 << 20))
            inner.writestr("arr_1.npy", bytes(140 << 20))
        shutil.copy(LEGACY, self.path)
        with zipfile.ZipFile(self.path, "a") as archive:
            archive.writestr("optimizer_weights.npz", stream.getvalue())
        self._assert_refused("optimizer_weights.npz: the archive must unpack to at most")

    def test_h5_in_the_archive(self) -> None:
        stream = io.BytesIO(members()["model.weights.h5"])
        with h5py.File(stream, "r+") as file:
            file["elsewhere"] = h5py.ExternalLink("other.h5", "/secret")
        self._write(members() | {"model.weights.h5": stream.getvalue()})
        self._assert_refused("model.weights.h5: elsewhere must be a dataset in the file")

    @parameterized.expand([("whole", MODEL), ("legacy", LEGACY)])
    def test_values_are_read_when_they_are_asked_for(self, kind: str, path: pathlib.Path) -> None:
        def slots(record: FileRecord) -> list[Any]:
            (optimizer,) = record.optimizers
            return [value for variable in optimizer.variables for value in variable.slots.values()]

        with opened_model(str(path)) as archive:
            assert archive is not None
            stored = slots(archive.record())
            self.assertTrue(all(isinstance(each, StoredArray) for each in stored))
            read_now = [np.asarray(each) for each in stored]
        for expected, found, each in zip(slots(read(path)), read_now, stored, strict=True):
            np.testing.assert_array_equal(found, expected)
            self.assertEqual((each.shape, each.dtype), (expected.shape, expected.dtype))
            with self.assertRaises(SavedStateError):
                np.asarray(each)
