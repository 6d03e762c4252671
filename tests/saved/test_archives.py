"""Archives in which readers could differ, or that would unpack to much, are refused before anything is unpacked."""

from __future__ import annotations

import inspect
import io
import json
import pathlib
import shutil
import struct
import tempfile
import unittest
import zipfile
import zlib
from typing import Any

import h5py
import keras
import numpy as np
from parameterized import parameterized

import mpls.keras
from mpls.errors import SavedStateError
from mpls.formats.record import FileRecord
from mpls.saved.archives import KerasArchive
from mpls.saved.arrays import StoredArray
from mpls.saved.files import open_file
from mpls.saved.memory_limits import unpacked_limit
from mpls.saved.reading import read
from mpls.saved.zips import Archive
from tests.saved.artefacts import DATA

MODEL = DATA / "artefacts" / "keras_v3.momentum" / "tf21.k3" / "model.keras"
LEGACY = DATA / "artefacts" / "keras_v3.momentum" / "tf21.lso2" / "model.keras"


def members() -> dict[str, bytes]:
    with zipfile.ZipFile(MODEL) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def listed_often(times: int) -> bytes:
    """Return a zip whose directory lists one member under many names."""
    data = zlib.compress(bytes(1 << 20))[2:-4]
    sizes = struct.pack("<3L", zlib.crc32(bytes(1 << 20)), len(data), 1 << 20)
    local = b"PK\3\4" + struct.pack("<5H", 20, 0, 8, 0, 0x21) + sizes + struct.pack("<2H", 4, 0) + b"0000" + data
    entries = b"".join(
        b"PK\1\2" + struct.pack("<6H", 20, 20, 0, 8, 0, 0x21) + sizes + struct.pack("<5H2L", 4, 0, 0, 0, 0, 0, 0)
        + f"{number:04}".encode()
        for number in range(times)
    )  # fmt: skip
    return local + entries + b"PK\5\6" + struct.pack("<4H2LH", 0, 0, times, times, len(entries), len(local), 0)


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
        self._write(members() | {"assets/words.txt": b"a\n" * 1000}, method)
        self.assertTrue(read(self.path).optimizers)
        # Python 3.10 has no Keras as new as the one that wrote the file.
        if "quantization_config" in inspect.signature(keras.layers.Dense).parameters:
            mpls.keras.load_model(self.path, compile=False)

    def test_with_data_after_an_unknown_size(self) -> None:
        class Pipe(io.RawIOBase):
            def __init__(self, target: io.BytesIO) -> None:
                self.target = target

            def writable(self) -> bool:
                return True

            def write(self, data: object) -> int:
                return self.target.write(data)  # type: ignore[arg-type]

        target = io.BytesIO()
        with zipfile.ZipFile(Pipe(target), "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[arg-type]
            for name, value in members().items():
                archive.writestr(name, value)
        self.path.write_bytes(target.getvalue())
        self.assertTrue(read(self.path).optimizers)

    @parameterized.expand([("config.json",), ("model.weights.h5",), ("assets/words.txt",)])
    def test_member_that_unpacks_to_much(self, name: str) -> None:
        content = self._write(members() | {name: bytes(1_234_567)}, zipfile.ZIP_DEFLATED)
        self.path.write_bytes(content.replace((1_234_567).to_bytes(4, "little"), (1 << 31).to_bytes(4, "little")))
        self._assert_refused(f"{name} must be of a plausible size")

    def test_sum_of_members_and_not_the_largest(self) -> None:
        with zipfile.ZipFile(self.path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for number in range(5):
                archive.writestr(f"assets/{number}", bytes(4 << 20))
        self.assertLess(4 << 20, unpacked_limit(self.path.stat().st_size))
        self._assert_refused("assets/4 must be of a plausible size")

    def test_one_member_listed_often(self) -> None:
        self.path.write_bytes(listed_often(401))
        self._assert_refused("lies where another member does|is another one where it lies")

    def test_too_many_members(self) -> None:
        self._write({f"assets/{number}": b"" for number in range(10_001)})
        self._assert_refused("the directory must have at most 10000 members")

    def test_the_same_name_twice(self) -> None:
        self._write(members())
        with self.assertWarns(UserWarning), zipfile.ZipFile(self.path, "a") as archive:
            archive.writestr("config.json", b"{}")
        self._assert_refused("two members have the same name")

    @parameterized.expand([("comment", b"x"), ("zeros", bytes(30)), ("second_end", b"PK\5\6" + bytes(18))])
    def test_more_after_the_end(self, kind: str, more: bytes) -> None:
        self.path.write_bytes(self._write(members()) + more)
        self._assert_refused("the archive must be a whole zip file")

    def test_more_before_the_start(self) -> None:
        self.path.write_bytes(b"PK\3\4" + self._write(members()))
        self._assert_refused("its directory is not where it says")

    @parameterized.expand([("flags", 6, 1), ("method", 8, 12), ("size", 22, 5), ("name", 30, ord("x"))])
    def test_header_that_differs_from_the_directory(self, kind: str, offset: int, value: int) -> None:
        content = bytearray(self._write(members()))
        content[offset] = value
        self.path.write_bytes(content)
        self._assert_refused("where it lies")

    def test_encryption_and_unusual_methods(self) -> None:
        self._write(members(), zipfile.ZIP_BZIP2)
        self._assert_refused("is encrypted, or packed in an unusual way")
        content = bytearray(self._write(members()))
        for start, offset in ((0, 6), (content.index(b"PK\1\2"), 8)):
            content[start + offset] |= 1
        self.path.write_bytes(content)
        self._assert_refused("is encrypted, or packed in an unusual way")

    def test_more_data_than_declared_stays_packed(self) -> None:
        content = self._write({"config.json": bytes(1_234_567)}, zipfile.ZIP_DEFLATED)
        self.path.write_bytes(content.replace((1_234_567).to_bytes(4, "little"), (1 << 10).to_bytes(4, "little")))
        with open_file(str(self.path)) as file, self.assertRaisesRegex(SavedStateError, "config.json must be"):
            Archive("a", file).read("config.json")

    def test_damaged_member_of_any_name(self) -> None:
        content = self._write(members() | {"assets/words.txt": b"some words"})
        self.path.write_bytes(content.replace(b"some words", b"same words"))
        with self.assertRaisesRegex(SavedStateError, "assets/words.txt must be whole"):
            mpls.keras.load_model(self.path, compile=False)

    def test_archive_in_the_archive(self) -> None:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as inner:
            inner.writestr("arr_0.npy", bytes(140 << 20))
        shutil.copy(LEGACY, self.path)
        with zipfile.ZipFile(self.path, "a") as archive:
            archive.writestr("optimizer_weights.npz", stream.getvalue())
        self._assert_refused("optimizer_weights.npz: arr_0.npy must be of a plausible size")

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

        with open_file(str(path)) as file, KerasArchive(str(path), file, lazily=True) as archive:
            stored = slots(archive.record())
            self.assertTrue(all(isinstance(each, StoredArray) for each in stored))
            read_now = [np.asarray(each) for each in stored]
        for expected, found, each in zip(slots(read(path)), read_now, stored, strict=True):
            np.testing.assert_array_equal(found, expected)
            self.assertEqual((each.shape, each.dtype), (expected.shape, expected.dtype))
            with self.assertRaisesRegex(SavedStateError, "closed file"):
                np.asarray(each)

    def test_config_in_the_archive_is_bounded_by_what_it_takes_there(self) -> None:
        content = members()
        content["config.json"] = json.dumps({"a": [[]] * 3_000_000}).encode()
        self._write(content, zipfile.ZIP_DEFLATED)
        self._assert_refused("config.json must take at most")
