"""Configs of a few bytes that ask for much: refused while the framework makes the model, and soon."""

from __future__ import annotations

import json
import pathlib
import shutil
import tempfile
import threading
import unittest
import zipfile
from typing import Any
from unittest import mock

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.keras
from mpls.errors import SavedStateError
from mpls.keras.files import model_limits
from mpls.keras.files.costly_settings import costly_setting
from mpls.saved import texts
from mpls.upstream.model_loaders import (
    makers_of_networks,
    makers_of_ops,
    repeaters_of_tf_keras,
    variable_class_of_keras,
)
from tests.untrusted.models import KINDS, Change, Templates, add_metadata, layer, save

HUGE = 200_000_000


class LimitsTest(unittest.TestCase):
    templates: Templates

    @classmethod
    def setUpClass(cls) -> None:
        cls.templates = Templates()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.templates.remove()

    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def _load(self, framework: str, suffix: str, change: Change) -> Any:
        return mpls.keras.load_model(self.templates.changed(framework, suffix, self.folder, change))

    @parameterized.expand([kind for kind in KINDS if kind[1]])
    def test_variables_out_of_proportion(self, framework: str, suffix: str) -> None:
        def change(parts: dict[str, Any]) -> None:
            layer(parts, "dense")["config"]["units"] = HUGE

        with self.assertRaisesRegex(SavedStateError, "describe variables no larger than those that it holds"):
            self._load(framework, suffix, change)

    @parameterized.expand([kind for kind in KINDS if kind[1]])
    @pytest.mark.default_run("one case")
    def test_many_variables_out_of_proportion(self, framework: str, suffix: str) -> None:
        def change(parts: dict[str, Any]) -> None:
            layers = parts["model"]["config"]["layers"]
            cells = [{**layer(parts, "rnn")["config"]["cell"]} for _ in range(100)]
            for cell in cells:
                cell["config"] = {**cell["config"], "units": 300}
            rnn = layer(parts, "rnn")["config"]
            rnn["cell"] = {**cells[0], "class_name": "StackedRNNCells", "config": {"cells": cells}}
            self.assertIn("rnn", [each["config"]["name"] for each in layers])

        with self.assertRaisesRegex(SavedStateError, "describe variables no larger than those that it holds"):
            self._load(framework, suffix, change)

    @parameterized.expand(
        [
            ("metrics", "AUC", {"num_thresholds": HUGE}),
            ("metrics", "PrecisionAtRecall", {"recall": 0.5, "num_thresholds": HUGE}),
            ("metrics", "Precision", {"thresholds": [0.5] * 100_001}),
            ("metrics", "MeanIoU", {"num_classes": HUGE}),
            ("metrics", "OneHotMeanIoU", {"num_classes": HUGE}),
            ("layers", "IntegerLookup", {"num_oov_indices": HUGE, "vocabulary": [1, 2]}),
            ("layers", "TextVectorization", {"ngrams": HUGE}),
            ("layers", "StringLookup", {"max_tokens": HUGE, "pad_to_max_tokens": True, "output_mode": "tf_idf"}),
        ]
    )
    def test_numbers_that_become_lists(self, module: str, name: str, config: dict[str, Any]) -> None:
        for framework in ("tf_keras", "keras"):

            def change(parts: dict[str, Any]) -> None:
                hostile = {"module": f"keras.{module}", "class_name": name, "config": config}
                if module == "metrics":
                    parts["compile"]["metrics"] = [hostile]
                else:
                    parts["model"]["config"]["layers"].append({**hostile, "name": "hostile", "inbound_nodes": []})

            with self.assertRaisesRegex(SavedStateError, "must be at most [0-9]+, or a list of at most so many"):
                self._load(framework, ".keras", change)
            (self.folder / "model.keras").unlink()

    @parameterized.expand(["tf_keras", "keras"])
    def test_numbers_that_become_lists_together(self, framework: str) -> None:
        def change(parts: dict[str, Any]) -> None:
            config = {"num_oov_indices": 1_000_000, "vocabulary": [1, 2]}
            hostile = {"module": "keras.layers", "class_name": "IntegerLookup", "config": config}
            parts["model"]["config"]["layers"] += [{**hostile, "name": f"{n}", "inbound_nodes": []} for n in range(4)]

        with self.assertRaisesRegex(SavedStateError, "must make lists of at most 3000000 numbers with all before it"):
            self._load(framework, ".keras", change)

    def test_largest_number_of_tokens_that_becomes_no_list(self) -> None:
        for settings in ({"output_mode": "int"}, {"pad_to_max_tokens": True, "output_mode": "multi_hot"}):
            self.assertIsNone(costly_setting({"max_tokens": HUGE, **settings}))

    @parameterized.expand(["num_classes", "num_thresholds", "num_oov_indices"])
    def test_numbers_in_arrays(self, key: str) -> None:
        def change(parts: dict[str, Any]) -> None:
            array = {"class_name": "__numpy__", "config": {"value": HUGE, "dtype": "int64"}}
            parts["compile"]["metrics"] = [{"module": "keras.metrics", "class_name": "MeanIoU", "config": {key: array}}]

        with self.assertRaisesRegex(SavedStateError, f"{key} must be a number itself, and no array"):
            self._load("keras", ".keras", change)

    @parameterized.expand(
        [
            ("StackedRNNCells", "layers with weights"),
            ("Sequential", "layers in a row"),
            ("Functional", "layers;"),
        ]
    )
    @pytest.mark.default_run("one case")
    def test_more_layers_than_arrays(self, name: str, what: str) -> None:
        def change(parts: dict[str, Any]) -> None:
            activation = {"module": "keras.layers", "class_name": "Activation", "config": {"activation": "relu"}}
            if name == "StackedRNNCells":
                rnn = layer(parts, "rnn")["config"]
                rnn["cell"] = {**rnn["cell"], "class_name": name, "config": {"cells": [rnn["cell"]] * 200}}
            elif name == "Sequential":
                layer(parts, "nested")["config"]["layers"] += [activation] * 1000
            else:
                extra = [{**activation, "name": str(number), "inbound_nodes": []} for number in range(3000)]
                parts["model"]["config"]["layers"] += extra

        for framework, suffix in KINDS:
            folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
            path = self.templates.changed(framework, suffix, folder, change)
            with self.assertRaisesRegex(SavedStateError, f"must describe at most [0-9]+ {what}"):
                mpls.keras.load_model(path)

    @parameterized.expand(["tf_keras", "keras"])
    def test_archives_without_weights(self, framework: str) -> None:
        def change(parts: dict[str, Any]) -> None:
            rnn = layer(parts, "rnn")["config"]
            rnn["cell"] = {**rnn["cell"], "class_name": "StackedRNNCells", "config": {"cells": [rnn["cell"]] * 200}}

        path = self.templates.changed(framework, ".keras", self.folder, change)
        with zipfile.ZipFile(path) as archive:
            content = {name: archive.read(name) for name in archive.namelist() if not name.endswith(".h5")}
        with zipfile.ZipFile(path, "w") as archive:
            for name, value in content.items():
                archive.writestr(name, value)
        with self.assertRaisesRegex(SavedStateError, "layers with weights; got '[0-9]+, with 0 arrays in the file'"):
            mpls.keras.load_model(path)

    def test_metadata_that_take_much_together(self) -> None:
        path = self.templates.changed("tf_keras", "", self.folder, lambda parts: None)
        add_metadata(path, "[" + ",".join(["{}"] * 400) + "]", 20)
        message = "all JSON texts must take at most [0-9]+ bytes when parsed"
        with mock.patch.object(texts, "_SLACK", 150_000), self.assertRaisesRegex(SavedStateError, message):
            mpls.keras.load_model(path)

    @parameterized.expand([kind for kind in KINDS if kind[1]])
    def test_layers_that_wait_for_each_other(self, framework: str, suffix: str) -> None:
        def change(parts: dict[str, Any]) -> None:
            node = layer(parts, "around")["inbound_nodes"][0]
            if isinstance(node, dict):
                node["args"][0]["config"]["keras_history"][1] = 7
            else:
                node[0][1] = 7

        with self.assertRaisesRegex(SavedStateError, "connect its layers in some order|loops or disconnected nodes"):
            self._load(framework, suffix, change)

    def test_arguments_that_wait(self) -> None:
        def change(parts: dict[str, Any]) -> None:
            # The index of a tensor that the layer does not have.
            layer(parts, "around")["inbound_nodes"][0][0][3]["training"] = ["dense", 0, 9]

        with self.assertRaisesRegex(SavedStateError, "connect its layers in some order"):
            self._load("tf_keras", ".h5", change)

    @parameterized.expand([("LSTM", [HUGE, 2], {"unroll": True}), ("UpSampling1D", [3, 2], {"size": HUGE})])
    def test_loops_that_are_unrolled(self, name: str, shape: list[int], changed: dict[str, Any]) -> None:
        """Loops of Python in layers of tf_keras; Keras 3 works their shapes out without calling them."""
        arguments = {"units": 1} if name == "LSTM" else {}
        layers = [tf_keras.layers.InputLayer([3, 2]), getattr(tf_keras.layers, name)(**arguments)]
        path, target = (str(self.folder / each) for each in ("model.h5", "changed.h5"))
        save(tf_keras.Sequential(layers), path)
        shutil.copy(path, target)
        with h5py.File(target, "r+") as file:
            config = json.loads(file.attrs["model_config"])
            config["config"]["layers"][0]["config"]["batch_input_shape"][1:] = shape
            config["config"]["layers"][1]["config"].update(changed)
            file.attrs["model_config"] = json.dumps(config)
        with self.assertRaisesRegex(
            SavedStateError, f"^{target}: the model's config must describe layers of some thousand ops at most"
        ):
            mpls.keras.load_model(target)

    def test_loops_in_layers_without_arrays(self) -> None:
        path, target = (str(self.folder / each) for each in ("model.h5", "changed.h5"))
        layers = [tf_keras.layers.LSTM(1, unroll=True, return_sequences=True) for _ in range(4)]
        save(tf_keras.Sequential([tf_keras.layers.InputLayer([3, 2]), *layers]), path)
        shutil.copy(path, target)
        with h5py.File(target, "r+") as file:
            for name in list(file["model_weights"]):
                del file["model_weights"][name]
            file["model_weights"].attrs["layer_names"] = np.array([], "S1")
        with mock.patch.object(model_limits, "_OPS", 100), mock.patch.object(model_limits, "_OPS_WITHOUT_WEIGHTS", 0):
            mpls.keras.load_model(path)
            with self.assertRaisesRegex(SavedStateError, "must describe layers of some thousand ops at most"):
                mpls.keras.load_model(target)

    def test_calls_in_calls(self) -> None:
        around = tf_keras.layers.Dense(1)
        for _ in range(4):
            around = tf_keras.layers.TimeDistributed(around)
        path = str(self.folder / "model.h5")
        save(tf_keras.Sequential([tf_keras.layers.InputLayer([None] * 4 + [2]), around]), path)
        with mock.patch.object(model_limits, "_OPS", 0):
            mpls.keras.load_model(path)
            with (
                mock.patch.object(model_limits, "_CALLS_IN_CALLS", 1),
                self.assertRaisesRegex(SavedStateError, "must describe layers of some thousand ops at most"),
            ):
                mpls.keras.load_model(path)

    @parameterized.expand([(tf_keras,), (keras,)])
    def test_own_layers_have_as_many_ops_as_they_have(self, framework: Any) -> None:
        class Deep(framework.layers.Layer):  # type: ignore[misc,name-defined]
            def call(self, inputs: Any) -> Any:
                for _ in range(500):
                    inputs = tf.identity(inputs)
                return inputs

        path = str(self.folder / "model.keras")
        save(framework.Sequential([framework.layers.Input([2]), Deep()]), path)
        with mock.patch.object(model_limits, "_OPS", 10), mock.patch.object(model_limits, "_OPS_OF_A_LAYER", 10):
            self.assertEqual(len(mpls.keras.load_model(path, custom_objects={"Deep": Deep}).layers), 1)

    def test_nothing_is_left_behind(self) -> None:
        before = [vars(owner).get(name) for owner, name in self._targets()]
        self.test_arguments_that_wait()
        mpls.keras.load_model(self.templates.path("keras", ".keras"))
        self.assertEqual([vars(owner).get(name) for owner, name in self._targets()], before)

    def test_other_threads_are_not_limited(self) -> None:
        made: list[Any] = []
        # Together they are more than the file can hold.

        def make() -> None:
            made.append(keras.Variable(lambda shape, dtype: tf.zeros(shape, dtype), shape=[20_000_000]))
            made.append(tf.Variable(tf.zeros([20_000_000])))

        class Slow(tf_keras.layers.Layer):  # type: ignore[misc]
            def build(self, shape: Any) -> None:
                thread = threading.Thread(target=make)
                thread.start()
                thread.join()

        model = tf_keras.Sequential([tf_keras.layers.Input([2]), Slow(), tf_keras.layers.Dense(1)])
        path = str(self.folder / "model.keras")
        mpls.keras.save_model(model, path)
        made.clear()
        mpls.keras.load_model(path, custom_objects={"Slow": Slow})
        self.assertTrue(made)

    def _targets(self) -> list[tuple[Any, str]]:
        (repeater,) = repeaters_of_tf_keras()
        assert repeater is not None
        return [(variable_class_of_keras(), "__init__"), *makers_of_ops(), repeater, *makers_of_networks()]


if __name__ == "__main__":
    unittest.main()
