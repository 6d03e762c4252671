"""Files that are broken, or reach out of themselves, are refused in words about them; nothing in a file runs.

`mpls inspect` and `load_model` refuse the same files. Honest files of unusual forms are read.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import pathlib
import random
import shutil
import tracemalloc
import unittest
import zipfile
from collections.abc import Callable
from typing import Any

import h5py
import keras
import ml_dtypes
import numpy as np
import tensorflow as tf
import tf_keras
from parameterized import parameterized
from tf_keras.protobuf.saved_metadata_pb2 import SavedMetadata as KerasMetadata

import mpls.keras
from mpls.errors import SavedStateError
from mpls.inspect import describe
from tests.folders import InFolder
from tests.saved import rewriting
from tests.saved.artefacts import DATA

CHECKPOINTS = {
    "checkpoint": ("keras_object.adam/tf24.lso2", "ckpt-1"),
    "checkpoint_of_keras3": ("keras_object.adam/tf21.k3", "ckpt-1"),
    "saver": ("v1_saver.adam/tf24", "ckpt"),
}
MODELS = {
    "saved_model": ("keras_tf.momentum/tf215.lso2/saved_model", "."),
    "old_saved_model": ("keras_tf.momentum/tf24.lso2/saved_model", "."),
    "h5": ("keras_h5.momentum/tf24.lso2", "model.h5"),
    "archive": ("keras_v3.momentum/tf21.k3", "model.keras"),
    "legacy_archive": ("keras_v3.momentum/tf21.lso2", "model.keras"),
}
FILES = CHECKPOINTS | MODELS


class Case(InFolder, unittest.TestCase):
    """Has a folder for a copy of an artefact, and one outside of it."""

    def setUp(self) -> None:
        self.folder, self.outside = self.folder / "inside", self.folder / "outside"
        self.folder.mkdir()
        self.outside.mkdir()

    def copied(self, kind: str) -> pathlib.Path:
        name, file = FILES[kind]
        ignored = shutil.ignore_patterns("expected.json", "fingerprint.pb")
        shutil.copytree(DATA / "artefacts" / name, self.folder, ignore=ignored, dirs_exist_ok=True)
        return self.folder / file

    def files(self) -> list[pathlib.Path]:
        return sorted(file for file in self.folder.rglob("*") if file.is_file())

    def assert_refused(self, path: pathlib.Path, text: str, of_loading: str = "must be a model") -> None:
        """Have `mpls inspect` and `load_model` refuse a file; the latter may have other words."""
        found = describe(path)
        reason = found["reason"] or found["refusal"] or "not refused"
        self.assertRegex(reason, text)
        self.assertIn(str(self.folder), reason)
        if path.exists():
            with self.assertRaisesRegex(SavedStateError, f"{text}|{of_loading}"):
                mpls.keras.load_model(path, compile=False)

    def assert_whole(self, path: pathlib.Path) -> None:
        found = describe(path)
        self.assertEqual((found["status"], found["refusal"]), ("ok", None), found["reason"])


class BytesTest(Case):
    """What is cut off, changed or missing is seen."""

    @parameterized.expand([(kind,) for kind in FILES if not kind.endswith(("old_saved_model", "legacy_archive"))])
    def test_cut_off_anywhere(self, kind: str) -> None:
        path = self.copied(kind)
        for file in self.files():
            whole = file.read_bytes()
            for length in sorted({int(len(whole) * part / 8) for part in range(8)} | {len(whole) - 1}):
                # The last byte of an H5 file need not be one of its content.
                if kind == "h5" and length == len(whole) - 1:
                    continue
                file.write_bytes(whole[:length])
                found = describe(path)
                self.assertNotEqual(found["status"], "ok", f"{file.name} of {length} bytes")
                self.assertIn(str(self.folder), found["reason"])
            file.write_bytes(whole)
        self.assert_whole(path)

    @parameterized.expand([(kind,) for kind in CHECKPOINTS])
    def test_flipped_bits_of_a_checkpoint(self, kind: str) -> None:
        path = self.copied(kind)
        wanted, numbers = describe(path), random.Random(11)
        for file in self.files():
            whole = file.read_bytes()
            for _ in range(60):
                position, bit = numbers.randrange(len(whole)), numbers.randrange(8)
                flipped = bytearray(whole)
                flipped[position] ^= 1 << bit
                file.write_bytes(flipped)
                # The weights are not read, nor what fills the table's end up.
                if (found := describe(path))["status"] == "ok":
                    self.assertEqual(found, wanted, f"{file.name}: bit {bit} of byte {position}")
            file.write_bytes(whole)

    @parameterized.expand([("saved_model",), ("old_saved_model",), ("checkpoint",)])
    def test_missing_files(self, kind: str) -> None:
        path = self.copied(kind)
        for file in self.files():
            if kind == "checkpoint" and file.suffix == ".index":
                continue
            if file.name == "saved_model.pb" or "variables" in file.name or "ckpt-1.data" in file.name:
                whole = file.read_bytes()
                file.unlink()
                text = f"{file.name}: the file must exist|must be a checkpoint's prefix"
                self.assert_refused(path, text, "must be a model|be one that tf_keras can load")
                file.write_bytes(whole)
        if kind != "checkpoint":
            shutil.rmtree(path / "variables")
            self.assert_refused(path, "variables.index: the file must exist", "be one that tf_keras can load")

    def test_data_of_weights_only(self) -> None:
        tf.train.Checkpoint(v=tf.Variable([1.0, 2.0])).write(str(self.folder / "ckpt"))
        self.assertEqual(describe(self.folder / "ckpt")["optimizers"], [])
        (shard,) = self.folder.glob("*.data-*")
        shard.write_bytes(shard.read_bytes()[:-1])
        self.assert_refused(self.folder / "ckpt", "must end at byte")
        shard.unlink()
        self.assert_refused(self.folder / "ckpt", "the file must exist")

    def test_saved_models_without_variables(self) -> None:
        path = self.folder / "model"
        model = tf_keras.Sequential([tf_keras.layers.Flatten(input_shape=(2,))])
        model.save(str(path), save_format="tf")
        self.assert_whole(path)
        # TF 1 writes no values where there are none.
        for has_variable in (False, True):
            shutil.rmtree(path)
            with tf.Graph().as_default(), tf.compat.v1.Session() as session:
                if has_variable:
                    session.run(tf.compat.v1.get_variable("v", [2]).initializer)
                builder = tf.compat.v1.saved_model.Builder(str(path))
                builder.add_meta_graph_and_variables(session, ["serve"], {})
                builder.save()
            self.assertEqual((path / "variables" / "variables.index").exists(), has_variable)
            self.assertEqual(describe(path)["status"], "ok")
        (path / "variables" / "variables.index").unlink()
        self.assertEqual(describe(path)["status"], "broken")

    def test_tensors_that_share_their_bytes(self) -> None:
        source = rewriting.checkpoint("keras_object.adam/tf24.lso2", self.folder, {})
        self.assertTrue(describe(source)["optimizers"])
        data = self.folder / "ckpt.data-00000-of-00001"
        data.write_bytes(data.read_bytes()[:-1])
        self.assert_refused(pathlib.Path(source), "end at byte|have bytes of its own")


class ArchivesTest(Case):
    def members(self, kind: str = "archive") -> dict[str, bytes]:
        with zipfile.ZipFile(self.copied(kind)) as archive:
            return {name: archive.read(name) for name in archive.namelist()}

    def write(self, content: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> pathlib.Path:
        path = self.folder / "model.keras"
        with zipfile.ZipFile(path, "w", method) as archive:
            for name, value in content.items():
                archive.writestr(name, value)
        return path

    @parameterized.expand([(zipfile.ZIP_STORED,), (zipfile.ZIP_DEFLATED,)])
    def test_honest_ones(self, method: int) -> None:
        # A hundred MB of zeros are packed to a thousandth.
        path = self.write(self.members() | {"assets/words.txt": bytes(100 << 20)}, method)
        self.assert_whole(path)
        # Python 3.10 has no Keras as new as the one that wrote the file.
        if "quantization_config" in inspect.signature(keras.layers.Dense).parameters:
            mpls.keras.load_model(path, compile=False)

    @parameterized.expand([("config.json",), ("model.weights.h5",), ("assets/words.txt",)])
    def test_member_that_unpacks_to_much(self, name: str) -> None:
        path = self.write(self.members() | {name: bytes(1_234_567)}, zipfile.ZIP_DEFLATED)
        sizes = (size.to_bytes(4, "little") for size in (1_234_567, 1 << 31))
        path.write_bytes(path.read_bytes().replace(*sizes))
        self.assert_refused(path, "the archive must unpack to at most")

    def test_members_that_are_not_what_the_directory_says(self) -> None:
        whole = self.write(self.members() | {"assets/words.txt": b"some words"}).read_bytes()
        path = self.folder / "model.keras"
        for changed, text in (
            (whole[:30] + b"x" + whole[31:], "must be whole"),
            (whole.replace(b"some words", b"same words"), "assets/words.txt must be whole"),
        ):
            path.write_bytes(changed)
            self.assert_refused(path, text)
        path.write_bytes(whole)
        with self.assertWarns(UserWarning), zipfile.ZipFile(path, "a") as archive:
            archive.writestr("config.json", b"{}")
        self.assert_refused(path, "two members have the same name")

    @parameterized.expand(["../escaped", "/escaped", "assets/../../escaped"])
    def test_members_outside_the_archive(self, name: str) -> None:
        path = self.write(self.members() | {name: b"text"})
        self.assert_refused(path, f"{name} must be a place in the archive")

    def test_what_is_in_the_archive(self) -> None:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as inner:
            inner.writestr("arr_0.npy", bytes(140 << 20))
            inner.writestr("arr_1.npy", bytes(140 << 20))
        path = self.write(self.members("legacy_archive") | {"optimizer_weights.npz": stream.getvalue()})
        self.assert_refused(path, "optimizer_weights.npz: the archive must unpack to at most")
        stream = io.BytesIO(self.members()["model.weights.h5"])
        with h5py.File(stream, "r+") as file:
            file["elsewhere"] = h5py.ExternalLink("other.h5", "/secret")
        path = self.write(self.members() | {"model.weights.h5": stream.getvalue()})
        self.assert_refused(path, "model.weights.h5: elsewhere must be a dataset in the file")

    @parameterized.expand([("plain", (2,), "<f4"), ("much", (1 << 40,), "<f4"), ("pickled", (1,), "|O")])
    def test_arrays_of_legacy_optimizers(self, name: str, shape: tuple[int, ...], dtype: str) -> None:
        stream, written = io.BytesIO(), io.BytesIO()
        np.savez(stream, np.int64(5), np.array([0.5, 0.25], np.float32))
        with zipfile.ZipFile(stream) as source, zipfile.ZipFile(written, "w") as target:
            target.writestr("arr_0.npy", source.read("arr_0.npy"))
            array = source.read("arr_1.npy")
            header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
            target.writestr("arr_1.npy", array[:10] + header + array[128:])
        path = self.write(self.members("legacy_archive") | {"optimizer_weights.npz": written.getvalue()})
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        found = describe(path)
        _, peak = tracemalloc.get_traced_memory()
        self.assertLess(peak, 1 << 24)
        if name == "plain":
            (optimizer,) = found["optimizers"]
            self.assertEqual((optimizer["iterations"], optimizer["slots"]["names"]), (5, ["momentum"]))
        else:
            self.assertIn("arr_1.npy must be a whole array; got 'ValueError: ", found["reason"])


NAME = "optimizer_weights/x"
OUTSIDE, ELSEWHERE = "must be a dataset in the file", "must have its values in the file itself"


def _virtual(file: Any) -> None:
    layout = h5py.VirtualLayout((2,), np.float32)
    layout[...] = h5py.VirtualSource("other.h5", "secret", (2,))
    file["optimizer_weights"].create_virtual_dataset("x", layout)


def _other_filter(file: Any) -> None:
    settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    settings.set_chunk((9,))
    # A number of no filter that is there, which a reader would look for among the system's plugins.
    settings.set_filter(40_000, h5py.h5z.FLAG_OPTIONAL, ())
    space = h5py.h5s.create_simple((9,))
    h5py.h5d.create(file["optimizer_weights"].id, b"x", h5py.h5t.NATIVE_FLOAT, space, dcpl=settings)


def _created(**arguments: Any) -> Callable[[Any], None]:
    return lambda file: file.create_dataset(NAME, **arguments)


def _linked(link: Any) -> Callable[[Any], None]:
    return lambda file: file.__setitem__(NAME, link)


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "external": (_linked(h5py.ExternalLink("other.h5", "/secret")), f"{NAME} {OUTSIDE}"),
    "soft": (_linked(h5py.SoftLink("/model_weights/d0")), OUTSIDE),
    "soft_in_a_circle": (_linked(h5py.SoftLink(f"/{NAME}")), OUTSIDE),
    "raw": (_created(shape=(2,), dtype="f4", external=[("raw", 0, 8)]), f"{NAME} {ELSEWHERE}"),
    "virtual": (_virtual, ELSEWHERE),
    "texts": (_created(data=np.array(["a", "b"], dtype=object)), "hold numbers"),
    "named_type": (lambda file: file.__setitem__("type", np.dtype("f4")), "neither a group nor a dataset"),
    "other_filter": (_other_filter, "be packed by HDF5's own filters"),
    "claim": (_created(shape=(1 << 40,), dtype="f4"), "have the 4398046511104 bytes that it claims; got '0 bytes'"),
    "chunks": (
        _created(shape=(1 << 40,), dtype="f4", chunks=(1 << 20,)),
        "be of a size in proportion to the file; got '4398046511104 bytes'",
    ),
}


class H5Test(Case):
    @parameterized.expand([(kind,) for kind in REFUSED])
    def test_refused(self, kind: str) -> None:
        path, (change, text) = self.copied("h5"), REFUSED[kind]
        with h5py.File(path, "r+") as file:
            change(file)
        self.assert_refused(path, text)

    @parameterized.expand([("twice",), ("empty",)])
    def test_weights_of_the_optimizer(self, kind: str) -> None:
        path = self.copied("h5")
        with h5py.File(path, "r+") as file:
            weights = file["optimizer_weights"]
            names = [*weights.attrs["weight_names"]]
            if kind == "twice":
                weights.attrs["weight_names"] = names * 2
            else:
                del weights[names[-1]]
                weights[names[-1]] = h5py.Empty("f4")
        with self.assertRaisesRegex(SavedStateError, "a name is in it twice|must hold numbers"):
            mpls.keras.load_model(path)
        self.assertEqual(describe(path)["status"], "broken")

    def test_allowed(self) -> None:
        path = self.copied("h5")
        with h5py.File(path, "r+") as file:
            for name, value in {
                "bools": np.array([True]),
                "complex64": np.zeros(2, np.complex64),
                "bytes": np.array([b"abc"]),
                "bfloat16": np.zeros(2, ml_dtypes.bfloat16),
                "empty": np.zeros((0, 3)),
                "scalar": np.float16(1),
                "big_endian": np.zeros(2, ">f4"),
            }.items():
                file.create_dataset(name, data=value)
            file["none"] = h5py.Empty("f")
            file.attrs["names"] = ["a", "b"]
            # Circles of groups.
            file["model_weights"]["again"] = file
            file["again"] = file["model_weights"]
        self.assert_whole(path)
        self.assertTrue(mpls.keras.load_model(path, compile=False).weights)


class ReachTest(Case):
    """Reading opens nothing outside the path; that it runs no code of a file, `tests/untrusted` has."""

    def test_links_out_of_the_folder(self) -> None:
        path = self.copied("checkpoint")
        for file in self.files():
            if not file.name.startswith("ckpt-1"):
                continue
            shutil.copy(file, self.outside)
            file.unlink()
            file.symlink_to(self.outside / file.name)
            self.assert_refused(path, f"{file.name}: the file must be inside .*, not a link to elsewhere")
            file.unlink()
            # Within the folder links do no harm, and the user may name what is one.
            shutil.copy(self.outside / file.name, self.folder / f"real-{file.name}")
            file.symlink_to(f"real-{file.name}")
        link = self.outside / "link"
        link.symlink_to(self.folder)
        self.assertEqual(describe(link / "ckpt-1")["optimizers"][0]["iterations"], 6)

    @unittest.skipUnless(hasattr(os, "mkfifo"), "the system has no FIFOs")
    def test_pipes_are_not_waited_for(self) -> None:
        for name in ("model.h5", "ckpt.index"):
            os.mkfifo(self.folder / name)
            self.assert_refused(self.folder / name, "the file must be a regular file")

    def test_descriptions_that_hide_each_other(self) -> None:
        code = {"class_name": "Lambda", "config": {"function": {"class_name": "__lambda__", "config": {}}}}
        path = self.copied("saved_model")
        metadata = self.folder / "keras_metadata.pb"
        whole = metadata.read_bytes()
        number = len(KerasMetadata.FromString(whole).nodes)
        # Two of one place; one of the place that the second of another place gets; and one of another part's name.
        for hidden, others in (
            ("root.layer-9", ["root.layer-9"]),
            (f"root.layer-9 ({number + 2})", ["root.layer-9", "root.layer-9"]),
            ("training_config", []),
        ):
            changed = KerasMetadata.FromString(whole)
            changed.nodes.add(node_path=hidden, identifier="_tf_keras_layer", metadata=json.dumps(code))
            for other in others:
                changed.nodes.add(node_path=other, identifier="_tf_keras_layer", metadata="{}")
            metadata.write_bytes(changed.SerializeToString())
            with self.subTest(hidden):
                self.assert_refused(path, "hold no Python code")
                with self.assertRaisesRegex(SavedStateError, "hold no Python code"):
                    mpls.keras.load_model(path)
