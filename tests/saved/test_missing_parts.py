"""A model or checkpoint of which files are missing is no whole one, and what files hold twice is not hidden."""

from __future__ import annotations

import json
import pathlib
import shutil
import tempfile
import unittest

import tensorflow as tf
import tf_keras

import mpls.keras
from mpls.errors import SavedStateError
from mpls.inspect import describe
from mpls.saved.reading import read
from mpls.saved.saved_models import SavedModel
from tests.saved import rewriting
from tests.saved.artefacts import DATA

MODEL = DATA / "artefacts" / "keras_tf.momentum" / "tf215.lso2" / "saved_model"
OLD_MODEL = next((DATA / "artefacts" / "keras_tf.momentum").glob("tf2[1-4]*/saved_model"))


def message(number: int, content: bytes) -> bytes:
    """Return a short field of a protocol buffer."""
    return bytes([number << 3 | 2, len(content)]) + content


class MissingPartsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = self.folder / "saved_model"

    def test_index_of_a_saved_model(self) -> None:
        for source in (MODEL, OLD_MODEL):
            shutil.copytree(source, self.path)
            (self.path / "variables" / "variables.index").unlink()
            with self.assertRaisesRegex(SavedStateError, "variables.index: the file must exist"):
                read(self.path)
            shutil.rmtree(self.path / "variables")
            self.assertEqual(describe(self.path)["status"], "broken")
            shutil.rmtree(self.path)

    def test_shards(self) -> None:
        shutil.copytree(MODEL, self.path)
        (shard,) = (self.path / "variables").glob("*.data-*")
        shard.unlink()
        with self.assertRaisesRegex(SavedStateError, "data-00000-of-00001: the file must exist"):
            read(self.path)

    def test_shard_of_weights_only(self) -> None:
        # No optimizer is in it.
        tf.train.Checkpoint(v=tf.Variable([1.0, 2.0])).write(str(self.folder / "ckpt"))
        self.assertEqual(read(self.folder / "ckpt").optimizers, [])
        (shard,) = self.folder.glob("*.data-*")
        whole = shard.read_bytes()
        for content in (whole[:-1], None):
            shard.unlink()
            if content is not None:
                shard.write_bytes(content)
            with self.assertRaisesRegex(SavedStateError, "must (exist|end at byte)"):
                read(self.folder / "ckpt")

    def test_saved_models_without_variables(self) -> None:
        model = tf_keras.Sequential([tf_keras.layers.Flatten(input_shape=(2,))])
        model.save(str(self.path), save_format="tf")
        self.assertEqual(describe(self.path)["status"], "ok")
        shutil.rmtree(self.path)
        # TF 1 writes no values where there are none.
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            x = tf.compat.v1.placeholder(tf.float32, [1])
            builder = tf.compat.v1.saved_model.Builder(str(self.path))
            signature = tf.compat.v1.saved_model.predict_signature_def({"x": x}, {"y": x + 1})
            builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
            builder.save()
        self.assertFalse((self.path / "variables" / "variables.index").exists())
        self.assertEqual(describe(self.path)["status"], "ok")

    def test_saved_model_of_tf1_with_variables(self) -> None:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            variable = tf.compat.v1.get_variable("v", [2])
            session.run(variable.initializer)
            builder = tf.compat.v1.saved_model.Builder(str(self.path))
            builder.add_meta_graph_and_variables(session, ["serve"], {})
            builder.save()
        self.assertEqual(describe(self.path)["status"], "ok")
        (self.path / "variables" / "variables.index").unlink()
        self.assertEqual(describe(self.path)["status"], "broken")

    def test_tensors_that_share_their_bytes(self) -> None:
        source = rewriting.checkpoint("keras_object.adam/tf24.lso2", self.folder, {})
        content = (self.folder / "ckpt.data-00000-of-00001").read_bytes()
        self.assertTrue(read(source).optimizers)
        (self.folder / "ckpt.data-00000-of-00001").write_bytes(content[:-1])
        with self.assertRaisesRegex(SavedStateError, "end at byte|have bytes of its own"):
            read(source)

    def test_two_descriptions_of_one_object(self) -> None:
        shutil.copytree(MODEL, self.path)
        code = {"class_name": "Lambda", "config": {"function": {"class_name": "__lambda__", "config": {}}}}
        metadata = self.path / "keras_metadata.pb"
        benign = message(1, message(3, b"root.layer-9") + message(4, b"_tf_keras_layer") + message(5, b"{}"))
        hidden = message(3, b"root.layer-9") + message(4, b"_tf_keras_layer")
        hidden = message(1, hidden + message(5, json.dumps(code).encode()))
        metadata.write_bytes(metadata.read_bytes() + hidden + benign)
        self.assertEqual(sum(key.startswith("root.layer-9") for key in SavedModel(str(self.path)).texts()), 2)
        with self.assertRaisesRegex(SavedStateError, "hold no Python code"):
            mpls.keras.load_model(str(self.path), compile=False)
