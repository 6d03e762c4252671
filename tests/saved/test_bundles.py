"""The reader of TensorFlow's checkpoint files agrees with TensorFlow's own."""

from __future__ import annotations

import pathlib
import unittest
from unittest import mock

import ml_dtypes
import numpy as np
import tensorflow as tf

from mpls.errors import SavedStateError
from mpls.saved.bundles import Bundle, masked_crc32c
from mpls.saved.reading import read
from tests.folders import InFolder
from tests.saved.artefacts import ARTEFACTS


class BundleTest(InFolder, unittest.TestCase):
    def setUp(self) -> None:
        self.prefix = str(self.folder / "ckpt")

    def test_recorded_ones(self) -> None:
        prefixes = [str(path.with_suffix("")) for each in ARTEFACTS for path in each.folder.rglob("*.index")]
        self.assertGreater(len(prefixes), 70)
        for prefix in prefixes:
            self._check(prefix)

    def test_every_dtype_and_many_keys(self) -> None:
        random = np.random.default_rng(7)
        dtypes = ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
        values = {f"d/{name}": random.normal(size=(3, 2)).astype(name) for name in dtypes}
        values |= {"bool": np.array([True, False]), "bfloat16": np.ones((2, 2), ml_dtypes.bfloat16)}
        values |= {"large": random.normal(size=(123, 457)).astype("float32"), "empty": np.zeros((0, 4), "float32")}
        values |= {"scalar": np.float32(2.5), "complex": np.array([1 + 2j], "complex64")}
        # Enough keys for several blocks of the table.
        values |= {f"scope_{number // 100}/variable_{number}": np.float32(number) for number in range(3000)}
        self._save(values)
        self.assertEqual(len(self._check(self.prefix).entries), len(values))

    def _save(self, values: dict[str, np.ndarray]) -> None:
        names = sorted(values)
        tensors = [tf.constant(values[name]) for name in names]
        tf.raw_ops.SaveV2(prefix=self.prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors)

    def _check(self, prefix: str) -> Bundle:
        theirs, ours = tf.train.load_checkpoint(prefix), Bundle(prefix)
        self.assertEqual(set(ours.entries), set(theirs.get_variable_to_shape_map()))
        for key in ours.entries:
            wanted = theirs.get_tensor(key)
            if isinstance(wanted, bytes):
                self.assertEqual(ours.text(key), wanted)
                continue
            found = ours.tensor(key)
            self.assertEqual(found.dtype, np.asarray(wanted).dtype)
            np.testing.assert_array_equal(found, wanted, key)
        return ours

    def test_partitioned_variables(self) -> None:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            v1 = tf.compat.v1
            partitioner = v1.fixed_size_partitioner(3)
            kernel = v1.get_variable("kernel", [7, 2], partitioner=partitioner, use_resource=False)
            loss = tf.reduce_sum(tf.convert_to_tensor(kernel) ** 2)
            train = v1.train.MomentumOptimizer(0.25, 0.5).minimize(loss)
            session.run(v1.global_variables_initializer())
            session.run(train)
            v1.train.Saver().save(session, self.prefix, write_meta_graph=False)
        self.assertTrue(Bundle(self.prefix).entries["kernel"].slices)
        (optimizer,) = read(self.prefix).optimizers
        (variable,) = optimizer.variables
        wanted = tf.train.load_checkpoint(self.prefix).get_tensor("kernel/Momentum")
        np.testing.assert_array_equal(variable.slots["momentum"], wanted)
        data = next(self.folder.glob("ckpt.data*"))
        data.write_bytes(b"\0" * data.stat().st_size)
        with self.assertRaisesRegex(SavedStateError, "kernel/Momentum must be whole in all its slices"):
            read(self.prefix)

    def test_keys_of_slices_have_numbers_of_every_length(self) -> None:
        sides, name = [63, 64, 8191, 8192, 1 << 20, 1 << 21], "a\0b"
        for side in sides:
            with self.subTest(side=side), tf.Graph().as_default(), tf.compat.v1.Session() as session:
                parts = [f"{2 * side} {start},{side}" for start in (0, side)]
                values = [tf.range(start, start + side, dtype=tf.int32) for start in (0, side)]
                session.run(tf.raw_ops.SaveV2(prefix=self.prefix, tensor_names=[name] * 2, shape_and_slices=parts,
                                              tensors=values))  # fmt: skip
                np.testing.assert_array_equal(Bundle(self.prefix).tensor(name), np.arange(2 * side))

    def test_checksums(self) -> None:
        # The check value of CRC-32C, masked.
        crc = 0xE3069283
        self.assertEqual(masked_crc32c(b"123456789"), ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32)
        data = np.random.default_rng(5).integers(0, 256, 100_003, np.uint8).tobytes()
        pieces = [data[start : start + 1000] for start in range(0, len(data), 1000)]
        self.assertEqual(masked_crc32c(data), masked_crc32c(*pieces))

    def test_only_files_of_the_checkpoint_are_opened(self) -> None:
        artefact = next(each for each in ARTEFACTS if each.kind == "v1_object")
        opened, really = [], open
        with mock.patch("builtins.open", lambda path, *mode: opened.append(path) or really(path, *mode)):
            read(artefact.path)
        self.assertEqual({pathlib.Path(path).parent for path in opened}, {artefact.folder})
