"""What H5 files may hold: nothing that is outside of them, and no more than they have bytes for."""

from __future__ import annotations

import pathlib
import shutil
import tempfile
import unittest
import warnings
from collections.abc import Callable
from typing import Any

import h5py
import ml_dtypes
import numpy as np
import pytest
import tf_keras
from parameterized import parameterized

import mpls.keras
from mpls.errors import SavedStateError
from mpls.inspect import describe
from mpls.saved.reading import read
from tests.saved.artefacts import DATA

OUTSIDE = "be a dataset in the file"
ELSEWHERE = "have its values in the file itself"
NAME = "model_weights/x"


def _virtual(file: Any) -> None:
    layout = h5py.VirtualLayout((2,), np.float32)
    layout[...] = h5py.VirtualSource("other.h5", "secret", (2,))
    file["model_weights"].create_virtual_dataset("x", layout)


def _other_filter(file: Any) -> None:
    settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    settings.set_chunk((9,))
    # A number of no filter that is there, which a reader would look for among the system's plugins.
    settings.set_filter(40_000, h5py.h5z.FLAG_OPTIONAL, ())
    space = h5py.h5s.create_simple((9,))
    h5py.h5d.create(file["model_weights"].id, b"x", h5py.h5t.NATIVE_FLOAT, space, dcpl=settings)


def _created(**arguments: Any) -> Callable[[Any], None]:
    return lambda file: file.create_dataset(NAME, **arguments)


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "external": (lambda file: file.__setitem__(NAME, h5py.ExternalLink("other.h5", "/secret")), OUTSIDE),
    "soft": (lambda file: file.__setitem__(NAME, h5py.SoftLink("/model_weights/d0")), OUTSIDE),
    "soft_in_a_circle": (lambda file: file.__setitem__(NAME, h5py.SoftLink(f"/{NAME}")), OUTSIDE),
    "raw": (_created(shape=(2,), dtype="f4", external=[("raw", 0, 8)]), ELSEWHERE),
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
HONEST = ("gzip", "lzf", "latest", "track_order", "shuffle")


class H5StructureTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = self.folder / "model.h5"
        shutil.copy(DATA / "artefacts" / "keras_h5.momentum" / "tf24.lso2" / "model.h5", self.path)

    @parameterized.expand([(kind,) for kind in REFUSED])
    def test_refused(self, kind: str) -> None:
        change, text = REFUSED[kind]
        with h5py.File(self.path, "r+") as file:
            change(file)
        with self.assertRaisesRegex(SavedStateError, text):
            read(self.path)
        with self.assertRaisesRegex(SavedStateError, text):
            mpls.keras.load_model(self.path, compile=False)
        self.assertEqual(describe(self.path)["status"], "broken")

    def test_allowed(self) -> None:
        with h5py.File(self.path, "r+") as file:
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
        self.assertTrue(read(self.path).optimizers)
        self.assertTrue(mpls.keras.load_model(self.path, compile=False).weights)

    @parameterized.expand([(how,) for how in HONEST])
    @pytest.mark.default_run("one case")
    def test_other_ways_to_write_a_file(self, how: str) -> None:
        """As a user does who copies a model's file to make it smaller."""
        model = tf_keras.Sequential([tf_keras.layers.Dense(64, input_shape=(64,))])
        model.compile(mpls.keras.LossScaleOptimizer(tf_keras.optimizers.Adam()), "mse")
        model.fit(np.ones([1, 64]), np.ones([1, 64]), verbose=0)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "You are saving your model as an HDF5 file", UserWarning)
            mpls.keras.save_model(model, self.path)
        expected = describe(self.path)
        target = self.folder / "copy.h5"
        options: dict[str, Any] = {"latest": {"libver": "latest"}, "track_order": {"track_order": True}}.get(how, {})
        packed = {"gzip": {"compression": "gzip"}, "lzf": {"compression": "lzf"}, "shuffle": {"shuffle": True}}
        with h5py.File(self.path) as source, h5py.File(target, "w", **options) as file:
            file.attrs.update(source.attrs)

            def copy(name: str, item: Any) -> None:
                if isinstance(item, h5py.Group):
                    made = file.create_group(name, track_order="track_order" in options)
                else:
                    settings = packed.get(how, {}) if item.shape else {}
                    made = file.create_dataset(name, data=item[()], **settings)
                made.attrs.update(item.attrs)

            source.visititems(copy)
        self.assertEqual({**describe(target), "path": str(self.path)}, expected)
        loaded = mpls.keras.load_model(target)
        for one, other in zip(model.get_weights(), loaded.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)
        self.assertEqual(int(loaded.optimizer.iterations), 1)

    def test_a_weight_named_twice(self) -> None:
        with h5py.File(self.path, "r+") as file:
            weights = file["optimizer_weights"]
            weights.attrs["weight_names"] = [*weights.attrs["weight_names"]] * 2
        with self.assertRaisesRegex(SavedStateError, "a name is in it twice"):
            read(self.path)
