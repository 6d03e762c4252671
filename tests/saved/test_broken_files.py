"""Files cut off or with flipped bits are refused, whatever part of them is hit; no size that they claim is believed."""

from __future__ import annotations

import io
import pathlib
import random
import shutil
import tempfile
import tracemalloc
import unittest
import zipfile

import numpy as np
from parameterized import parameterized

from mpls.errors import SavedStateError
from mpls.saved.reading import read
from tests.saved.artefacts import DATA

FILES = {
    "checkpoint": ("keras_object.adam/tf24.lso2", "ckpt-1.index"),
    "checkpoint_of_keras3": ("keras_object.adam/tf21.k3", "ckpt-1.index"),
    "saver": ("v1_saver.adam/tf24", "ckpt.index"),
    "saved_model": ("keras_tf.momentum/tf215.lso2/saved_model", "."),
    "h5": ("keras_h5.momentum/tf24.lso2", "model.h5"),
    "archive": ("keras_v3.momentum/tf21.k3", "model.keras"),
}


class BrokenFilesTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def _copied(self, kind: str) -> pathlib.Path:
        name, file = FILES[kind]
        shutil.copytree(DATA / "artefacts" / name, self.folder, dirs_exist_ok=True)
        return self.folder / file

    @parameterized.expand([(kind,) for kind in FILES])
    def test_cut_off_anywhere(self, kind: str) -> None:
        path = self._copied(kind)
        for file in self._files():
            whole = file.read_bytes()
            for length in sorted({int(len(whole) * part / 8) for part in range(8)} | {len(whole) - 1}):
                file.write_bytes(whole[:length])
                # A config cut off to nothing may leave a file that is none of ours; nothing else is raised.
                if kind == "h5" and length == len(whole) - 1:
                    continue
                with self.assertRaises(SavedStateError, msg=f"{file.name} of {length} bytes") as caught:
                    read(path)
                self.assertIn(str(self.folder), str(caught.exception))
            file.write_bytes(whole)
        self.assertTrue(read(path).optimizers)

    @parameterized.expand([("checkpoint",), ("checkpoint_of_keras3",), ("saver",)])
    def test_every_flipped_bit_of_a_checkpoint_is_seen(self, kind: str) -> None:
        path = self._copied(kind)
        wanted = repr(read(path))
        numbers = random.Random(11)
        for file in self._files():
            whole = file.read_bytes()
            for _ in range(60):
                position, bit = numbers.randrange(len(whole)), numbers.randrange(8)
                flipped = bytearray(whole)
                flipped[position] ^= 1 << bit
                file.write_bytes(flipped)
                try:
                    found = repr(read(path))
                except SavedStateError:
                    continue
                # The weights are not read, nor what fills the table's end up.
                self.assertEqual(found, wanted, f"{file.name}: bit {bit} of byte {position}")
            file.write_bytes(whole)

    def _files(self) -> list[pathlib.Path]:
        names = ("fingerprint.pb", "expected.json")
        return sorted(file for file in self.folder.rglob("*") if file.is_file() and file.name not in names)

    def test_missing_data_file(self) -> None:
        path = self._copied("checkpoint")
        (self.folder / "ckpt-1.data-00000-of-00001").unlink()
        with self.assertRaisesRegex(SavedStateError, r"ckpt-1.data-00000-of-00001: the file must exist"):
            read(path)

    def test_arrays_that_claim_much(self) -> None:
        path = self._archive_with_legacy_weights((1 << 40,))
        self._assert_refused_in_little_memory(path, "arr_1.npy must be a whole array; got .*it is no plain array")

    def test_pickled_arrays(self) -> None:
        path = self._archive_with_legacy_weights((1,), "'|O'")
        self._assert_refused_in_little_memory(path, "arr_1.npy must be a whole array; got .*it is no plain array")

    def test_arrays_of_legacy_optimizers(self) -> None:
        (optimizer,) = read(self._archive_with_legacy_weights((2,))).optimizers
        self.assertEqual(optimizer.iterations, 5)
        (variable,) = optimizer.variables
        self.assertEqual({name: value.tolist() for name, value in variable.slots.items()}, {"momentum": [0.5, 0.25]})

    def _archive_with_legacy_weights(self, shape: tuple[int, ...], dtype: str = "'<f4'") -> pathlib.Path:
        path = self.folder / "model.keras"
        shutil.copy(DATA / "artefacts" / "keras_v3.momentum" / "tf21.lso2" / "model.keras", path)
        stream = io.BytesIO()
        np.savez(stream, np.int64(5), np.array([0.5, 0.25], np.float32))
        written = io.BytesIO()
        with zipfile.ZipFile(stream) as source, zipfile.ZipFile(written, "w") as target:
            target.writestr("arr_0.npy", source.read("arr_0.npy"))
            array = source.read("arr_1.npy")
            header = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
            target.writestr("arr_1.npy", array[:10] + header + array[128:])
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("optimizer_weights.npz", written.getvalue())
        return path

    def _assert_refused_in_little_memory(self, path: pathlib.Path, text: str) -> None:
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        with self.assertRaisesRegex(SavedStateError, text):
            read(path)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        self.assertLess(peak, 1 << 24)
