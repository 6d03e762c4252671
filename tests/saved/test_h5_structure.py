"""What of H5 files HDF5 is not shown: all of it is looked at, not only what mpls reads."""

from __future__ import annotations

import pathlib
import shutil
import struct
import tempfile
import unittest
import zlib
from collections.abc import Callable
from typing import Any

import h5py
import ml_dtypes
import numpy as np
from parameterized import parameterized

import mpls.keras
from mpls.errors import SavedStateError
from mpls.inspect import describe
from mpls.saved.files import open_file, whole
from mpls.saved.h5_vetting import Structure, check_h5
from mpls.saved.reading import read
from tests.saved.artefacts import ARTEFACTS, DATA, name_of, path_of

OUTSIDE = "be a dataset in the file"
ELSEWHERE = "have its values in the file itself"
NOT_OURS = "be whole, and of what Keras writes"
NAME = "model_weights/x"


def _virtual(file: Any) -> None:
    layout = h5py.VirtualLayout((2,), np.float32)
    layout[...] = h5py.VirtualSource("other.h5", "secret", (2,))
    file["model_weights"].create_virtual_dataset("x", layout)


def _named_type(file: Any) -> None:
    file["type"] = np.dtype("f4")
    file.create_dataset(NAME, (2,), file["type"])


def _bytes_name(file: Any) -> None:
    h5py.h5g.create(file["model_weights"].id, b"\xff\xfe\x1b[31m")


def _bytes_attribute(file: Any) -> None:
    space = h5py.h5s.create(h5py.h5s.SCALAR)
    h5py.h5a.create(file["model_weights"].id, b"\xff\xfe", h5py.h5t.NATIVE_INT32, space)


def _created(**arguments: Any) -> Callable[[Any], None]:
    return lambda file: file.create_dataset(NAME, **arguments)


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "external": (lambda file: file.__setitem__(NAME, h5py.ExternalLink("other.h5", "/secret")), OUTSIDE),
    "soft": (lambda file: file.__setitem__(NAME, h5py.SoftLink("/model_weights/d0")), OUTSIDE),
    "soft_in_a_circle": (lambda file: file.__setitem__(NAME, h5py.SoftLink(f"/{NAME}")), OUTSIDE),
    "raw": (_created(shape=(2,), dtype="f4", external=[("raw", 0, 8)]), ELSEWHERE),
    "virtual": (_virtual, ELSEWHERE),
    "texts": (_created(data=np.array(["a", "b"], dtype=object)), NOT_OURS),
    "references": (lambda file: file.__setitem__(NAME, np.array([file.ref], h5py.ref_dtype)), NOT_OURS),
    "records": (_created(data=np.zeros(2, [("a", "i4"), ("b", "f4")])), NOT_OURS),
    "opaque": (_created(data=np.zeros(2, "V9")), NOT_OURS),
    "named_type": (_named_type, NOT_OURS),
    "other_filter": (_created(data=np.zeros(9), compression="lzf"), "otherwise than with gzip"),
    "name": (_bytes_name, NOT_OURS),
    "name_of_attribute": (_bytes_attribute, NOT_OURS),
    "attribute_of_references": (
        lambda file: file.attrs.create("x", np.array([file.ref], h5py.ref_dtype)),
        NOT_OURS,
    ),
    "claim": (_created(shape=(1 << 40,), dtype="f4"), "fit into the 0 bytes that it has"),
    "chunk_of_gigabytes": (
        _created(shape=(0,), maxshape=(None,), dtype="f4", chunks=(1 << 29,)),
        "leave all compressed datasets",
    ),
    "sum": (
        lambda file: [
            file.create_dataset(f"x{number}", data=np.zeros(1 << 20), chunks=(1 << 20,), compression="gzip")
            for number in range(18)
        ],
        "leave all compressed datasets at most",
    ),
}


def _structure(path: str) -> Structure:
    with open_file(path) as file:
        return check_h5("a", whole(file))


class H5StructureTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = self.folder / "model.h5"
        shutil.copy(DATA / "artefacts" / "keras_h5.momentum" / "tf24.lso2" / "model.h5", self.path)

    def _assert_refused(self, text: str) -> None:
        with self.assertRaisesRegex(SavedStateError, text):
            read(self.path)
        with self.assertRaisesRegex(SavedStateError, text):
            mpls.keras.load_model(self.path, compile=False)
        self.assertEqual(describe(self.path)["status"], "broken")

    @parameterized.expand([(kind,) for kind in REFUSED])
    def test_refused(self, kind: str) -> None:
        change, text = REFUSED[kind]
        with h5py.File(self.path, "r+") as file:
            change(file)
        self._assert_refused(text)

    def test_allowed(self) -> None:
        with h5py.File(self.path, "r+") as file:
            for name, value in {
                "bools": np.array([True]),
                "complex64": np.zeros(2, np.complex64),
                "complex128": np.zeros(2, np.complex128),
                "bytes": np.array([b"abc"]),
                "bfloat16": np.zeros(2, ml_dtypes.bfloat16),
                "empty": np.zeros((0, 3)),
                "scalar": np.float16(1),
                "big_endian": np.zeros(2, ">f4"),
            }.items():
                file.create_dataset(name, data=value)
            options = {"chunks": (7,), "compression": "gzip", "shuffle": True, "fletcher32": True}
            file.create_dataset("packed", data=np.arange(30.0), **options)
            file.create_dataset("summed", data=np.arange(30.0), chunks=(30,), fletcher32=True)
            file["none"] = h5py.Empty("f")
            file.attrs["names"] = ["a", "b"]
        structure = _structure(str(self.path))
        found: dict[str, tuple[int, ...]] = {}
        with h5py.File(self.path) as file:
            file.visititems(lambda name, each: found.update({name: getattr(each, "shape", "group")}))
        groups = {name for name, shape in found.items() if shape == "group"}
        self.assertEqual(structure.groups - {""}, groups)
        self.assertEqual(
            {name: each.shape for name, each in structure.datasets.items()},
            {name: shape or () for name, shape in found.items() if name not in groups},
        )
        self.assertTrue(read(self.path).optimizers)

    def test_a_circle_ends(self) -> None:
        with h5py.File(self.path, "r+") as file:
            file["model_weights"]["again"] = file
            file["again"] = file["model_weights"]
        self.assertTrue(read(self.path).optimizers)

    def test_trees_that_go_round_in_a_circle(self) -> None:
        content = bytearray(self.path.read_bytes())
        start = content.index(b"TREE\0")
        # Its first child is itself.
        content[start + 5] = 1
        content[start + 32 : start + 40] = struct.pack("<Q", start)
        self.path.write_bytes(content)
        self._assert_refused("goes round in a circle")

    def test_text_that_claims_gigabytes(self) -> None:
        content = bytearray(self.path.read_bytes())
        heap = struct.pack("<Q", content.index(b"GCOL"))
        place = content.index(heap)
        content[place - 4 : place] = b"\xf0\xff\xff\xff"
        self.path.write_bytes(content)
        self._assert_refused("hold a text of 4294967280 bytes")

    def test_chunks_that_unpack_to_more_than_they_hold(self) -> None:
        with h5py.File(self.path, "r+") as file:
            dataset = file.create_dataset("x", (4,), "u1", chunks=(4,), compression="gzip")
            dataset.id.write_direct_chunk((0,), zlib.compress(bytes(1 << 20)))
        self._assert_refused("a chunk does not have 4 bytes")

    def test_many_objects(self) -> None:
        with h5py.File(self.path, "r+") as file:
            for number in range(1000):
                group = file.create_group(f"g{number}")
                for link in range(40):
                    h5py.h5d.create(group.id, b"%d" % link, h5py.h5t.STD_I8LE, h5py.h5s.create(h5py.h5s.SCALAR))
        with self.assertRaisesRegex(SavedStateError, "far more (objects|parts) than files of its size|fit into the 0"):
            read(self.path)

    def test_a_weight_named_twice(self) -> None:
        with h5py.File(self.path, "r+") as file:
            weights = file["optimizer_weights"]
            weights.attrs["weight_names"] = [*weights.attrs["weight_names"]] * 2
        with self.assertRaisesRegex(SavedStateError, "a name is in it twice"):
            read(self.path)

    def test_a_long_name_of_a_weight_is_not_in_the_message(self) -> None:
        with h5py.File(self.path, "r+") as file:
            weights = file["optimizer_weights"]
            weights.attrs["weight_names"] = np.array([b"x" * 5000])
        with self.assertRaisesRegex(SavedStateError, "a name in it has more than 2048 characters") as caught:
            read(self.path)
        self.assertLess(len(str(caught.exception)), 1000)

    @parameterized.expand([(name_of(each), path_of(each)) for each in ARTEFACTS if path_of(each).endswith(".h5")])
    def test_recorded_files_are_whole(self, kind: str, path: str) -> None:
        self.assertTrue(_structure(path).datasets)


class NamesOfWeightsTest(unittest.TestCase):
    """A framework reads all arrays that the lists name, and counts them afterwards."""

    def _refused(self, change: Callable[[Any], None], words: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder) / "model.h5")
            with h5py.File(path, "w") as file:
                file.attrs["model_config"] = "{}"
                layer = file.create_group("model_weights/layer")
                layer["kernel"] = np.zeros(1 << 20, np.float32)
                file["model_weights"].attrs["layer_names"] = [b"layer"]
                change(layer)
            for read_file in (mpls.keras.load_model, read):
                with self.assertRaisesRegex(SavedStateError, words):
                    read_file(path)

    def test_twice(self) -> None:
        def change(layer: Any) -> None:
            layer.attrs["weight_names"] = [b"kernel"] * 100

        self._refused(change, "model_weights/layer/weight_names must be whole; .*a name is in it twice")

    def test_twice_in_several_attributes(self) -> None:
        def change(layer: Any) -> None:
            layer.attrs["weight_names0"] = layer.attrs["weight_names1"] = [b"kernel"]

        self._refused(change, "a name is in it twice")

    def test_links_to_one_array(self) -> None:
        def change(layer: Any) -> None:
            names = [f"kernel{number}" for number in range(100)]
            for name in names:
                layer[name] = layer["kernel"]
            layer.attrs["weight_names"] = [name.encode() for name in names]

        self._refused(
            change, "model_weights/layer must leave all weights that are named at most [0-9]+ bytes; got 'more'"
        )

    def test_paths_to_one_array(self) -> None:
        def change(layer: Any) -> None:
            layer.attrs["weight_names"] = [b"./" * number + b"kernel" for number in range(100)]

        self._refused(change, "must leave all weights that are named at most")

    def test_layers_by_other_paths(self) -> None:
        def change(layer: Any) -> None:
            layer.parent.attrs["layer_names"] = [b"./layer"]

        self._refused(change, "model_weights/layer_names must be names of groups in it; got 'model_weights/./layer'")
