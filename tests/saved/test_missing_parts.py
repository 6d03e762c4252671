"""A model or checkpoint of which files are missing is no whole one, and what files hold twice is not hidden."""

from __future__ import annotations

import json
import pathlib
import shutil
import tempfile
import unittest

import tensorflow as tf
import tf_keras
from tf_keras.protobuf.saved_metadata_pb2 import SavedMetadata as KerasMetadata

import mpls.keras
from mpls.errors import SavedStateError
from mpls.inspect import describe
from mpls.saved.reading import read
from tests.saved import rewriting
from tests.saved.artefacts import DATA

MODEL = DATA / "artefacts" / "keras_tf.momentum" / "tf215.lso2" / "saved_model"
OLD_MODEL = next((DATA / "artefacts" / "keras_tf.momentum").glob("tf2[1-4]*/saved_model"))


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

    def test_descriptions_that_hide_each_other(self) -> None:
        code = {"class_name": "Lambda", "config": {"function": {"class_name": "__lambda__", "config": {}}}}
        shutil.copytree(MODEL, self.path)
        metadata = self.path / "keras_metadata.pb"
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
            for with_compile in (True, False):
                with (
                    self.subTest(hidden, with_compile=with_compile),
                    self.assertRaisesRegex(SavedStateError, "hold no Python code"),
                ):
                    mpls.keras.load_model(str(self.path), compile=with_compile)
