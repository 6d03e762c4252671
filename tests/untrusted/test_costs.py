"""Settings, constants and operations with which a small config makes a load long or large: refused before they do."""

from __future__ import annotations

import json
import pathlib
import shutil
import tempfile
import unittest
import zipfile
from collections.abc import Callable
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
from mpls.keras.files import hooked, model_limits
from mpls.keras.files.costly_settings import costly_setting
from tests.untrusted.models import layer, save

_BOTH = {"tf_keras": tf_keras, "keras": keras}
_OF_A_SHAPE = "the model's config must describe constants in proportion to the file"
_OPS = "the model's config must describe layers of some thousand ops at most"
# Elements whose arrays take some hundred megabytes.
_MANY = 20_000_000


class _Base(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def _saved(self, model: Any, change: Callable[[Any], None] | None = None, suffix: str = ".keras") -> str:
        """Save a model, change its config, and return the path."""
        path = str(self.folder / f"model{suffix}")
        save(model, path)
        if change is not None and suffix == ".h5":
            with h5py.File(path, "r+") as file:
                config = json.loads(file.attrs["model_config"])
                change(config)
                file.attrs["model_config"] = json.dumps(config)
        elif change is not None:
            with zipfile.ZipFile(path) as archive:
                content = {name: archive.read(name) for name in archive.namelist()}
            config = json.loads(content["config.json"])
            change(config)
            content["config.json"] = json.dumps(config).encode()
            with zipfile.ZipFile(path, "w") as archive:
                for name, value in content.items():
                    archive.writestr(name, value)
        return path

    def _assert_refused(self, path: str, message: str) -> None:
        with self.assertRaisesRegex(SavedStateError, f"{message}.*safe_mode=False"):
            mpls.keras.load_model(path)


class ConstantsTest(_Base):
    """Constants of Normalization layers have a shape that their input has."""

    @parameterized.expand([(name, suffix) for name in _BOTH for suffix in (".keras", ".h5")])
    def test_of_the_inputs_shape(self, framework: str, suffix: str) -> None:
        k = _BOTH[framework]
        normalization = k.layers.Normalization(mean=0.0, variance=1.0, name="constant")
        model = k.Sequential([k.layers.Input([4]), normalization])

        def change(config: Any) -> None:
            first = config["config"]["layers"][0]["config"]
            key = "batch_shape" if "batch_shape" in first else "batch_input_shape"
            config["config"]["build_input_shape"] = first[key] = [None, _MANY]
            for built in (config, layer({"model": config}, "constant")):
                built.pop("build_config", None)

        self._assert_refused(self._saved(model, change, suffix), _OF_A_SHAPE)

    @parameterized.expand(_BOTH)
    def test_of_a_shape_inside(self, framework: str) -> None:
        k = _BOTH[framework]
        normalization = k.layers.Normalization(axis=1, mean=0.0, variance=1.0, name="constant")
        model = k.Sequential([k.layers.Input([4]), k.layers.RepeatVector(3, name="repeat"), normalization])

        def change(config: Any) -> None:
            layer({"model": config}, "repeat")["config"]["n"] = _MANY
            layer({"model": config}, "constant").pop("build_config", None)

        self._assert_refused(self._saved(model, change), _OF_A_SHAPE)

    @parameterized.expand([(name, axis) for name in _BOTH for axis in (-1, (1, 2), None)])
    def test_honest_ones(self, framework: str, axis: Any) -> None:
        k = _BOTH[framework]
        model = k.Sequential([k.layers.Input([300, 300]), k.layers.Normalization(axis=axis, mean=2.0, variance=4.0)])
        again = mpls.keras.load_model(self._saved(model))
        x = np.ones([1, 300, 300], np.float32)
        np.testing.assert_array_equal(again(x), model(x))


class VariablesTest(_Base):
    def test_of_a_shape_that_is_no_tuple(self) -> None:
        def change(config: Any) -> None:
            layer({"model": config}, "dense")["config"]["lora_rank"] = _MANY

        dense = keras.layers.EinsumDense("ab,bc->ac", [2], name="dense")
        model = keras.Sequential([keras.layers.Input([4]), dense])
        got = rf"got 'one of shape \[4, {_MANY}\]'"
        self._assert_refused(
            self._saved(model, change), f"describe variables no larger than those that it holds; {got}"
        )

    @parameterized.expand([(name, suffix) for name in _BOTH for suffix in (".keras", ".h5")])
    def test_orthogonal_matrices(self, framework: str, suffix: str) -> None:
        def change(config: Any) -> None:
            layer({"model": config}, "recurrent")["config"]["units"] = 3000

        k = _BOTH[framework]
        model = k.Sequential([k.layers.Input([3, 2]), k.layers.SimpleRNN(4, name="recurrent")])
        message = r"describe orthogonal matrices no larger than those that it holds; got 'one of \[3000, 3000\]'"
        self._assert_refused(self._saved(model, change, suffix), message)

    @parameterized.expand([(number, suffix) for number in (1, 2) for suffix in (".keras", ".h5")])
    def test_indices_of_sparse_kernels(self, dimensions: int, suffix: str) -> None:
        shape, larger = ([6, 3], [1000, 3]) if dimensions == 1 else ([6, 6, 3], [60, 60, 3])

        def change(config: Any) -> None:
            config["config"]["layers"][0]["config"]["batch_input_shape"] = [None, *larger]
            local = layer({"model": config}, "local")
            local["config"]["filters"] = 100
            local.pop("build_config", None)

        name = f"LocallyConnected{dimensions}D"
        local = getattr(tf_keras.layers, name)(2, 2, implementation=3, name="local")
        inputs = tf_keras.layers.Input(shape)
        path = self._saved(tf_keras.Model(inputs, local(inputs)), suffix=suffix)
        self.assertEqual(mpls.keras.load_model(path).count_params(), local.count_params())
        self._assert_refused(
            self._saved(tf_keras.Model(inputs, local(inputs)), change, suffix),
            "describe kernels no larger than those that it holds; got 'one of [0-9]+ numbers'",
        )


def _with_op_layers(function: Callable[[Any], Any], number: int) -> Any:
    inputs = tf_keras.layers.Input([200])
    outputs = inputs
    for _ in range(number):
        outputs = function(outputs)
    return tf_keras.Model(inputs, outputs)


class OperationsTest(_Base):
    """Ops and tensors are counted over the whole model."""

    @mock.patch.object(model_limits, "_OPS", 100)
    def test_ops_of_op_layers(self) -> None:
        model = _with_op_layers(lambda x: tf.math.polyval([1.0] * 60, x), 3)
        self._assert_refused(self._saved(model), _OPS)

    @mock.patch.object(model_limits, "_OPS", 100)
    def test_classes_that_tf_keras_has_registered_are_not_the_users(self) -> None:
        def change(config: Any) -> None:
            config["anything"] = {"class_name": "Custom>Adam", "config": {}}

        model = _with_op_layers(lambda x: tf.math.polyval([1.0] * 60, x), 3)
        self._assert_refused(self._saved(model, change), _OPS)

    @mock.patch.object(model_limits, "_OPS", 100)
    def test_objects_that_are_no_layers_need_no_ops(self) -> None:
        def change(config: Any) -> None:
            config["anything"] = [{"class_name": "Zeros", "config": {}}] * 1000

        model = _with_op_layers(lambda x: tf.math.polyval([1.0] * 60, x), 3)
        self._assert_refused(self._saved(model, change), _OPS)

    @parameterized.expand([(200,), ([1] * 200,)])
    @mock.patch.object(model_limits, "_OPS", 50)
    def test_outputs_of_op_layers(self, sizes: Any) -> None:
        model = _with_op_layers(lambda x: tf.split(x, sizes, axis=1)[0], 1)
        self._assert_refused(self._saved(model), _OPS)

    @parameterized.expand([".keras", ".h5"])
    @mock.patch.object(hooked, "classes_of_symbolic_tensors", list)
    def test_outputs_of_a_beam_search(self, suffix: str) -> None:
        def change(config: Any) -> None:
            search = next(each for each in config["config"]["layers"] if "ctc" in each["name"])
            search["inbound_nodes"][0][3].update(beam_width=20_000, top_paths=20_000)

        inputs = tf_keras.layers.Input([5, 4])
        decoded = tf.nn.ctc_beam_search_decoder(tf.transpose(inputs, [1, 0, 2]), tf.constant([5]), 9, 1)
        self._assert_refused(self._saved(tf_keras.Model(inputs, decoded[1]), change, suffix), _OPS)

    @mock.patch.object(model_limits, "_OPS", 50)
    def test_outputs_of_operations_of_keras_3(self) -> None:
        inputs = keras.layers.Input([200])
        model = keras.Model(inputs, keras.ops.split(inputs, 200, axis=1)[0])
        self._assert_refused(self._saved(model), _OPS)

    @parameterized.expand(["split", "compat.v1.split"])
    def test_sizes_of_which_tensorflow_dies(self, function: str) -> None:
        def change(config: Any) -> None:
            split = config["config"]["layers"][1]
            split["config"]["function"] = function
            split["inbound_nodes"][0][3]["num_or_size_splits"] = [[100, 100]]

        model = _with_op_layers(lambda x: tf.split(x, [100, 100], axis=1)[0], 1)
        self.assertEqual(mpls.keras.load_model(self._saved(model)).output_shape, (None, 100))
        self._assert_refused(self._saved(model, change), "must split tensors into a list of sizes; got 'nested lists'")


def _twice(model: Any, name: str) -> dict[str, Any]:
    """Return the config of a model that calls a model, of which it has the config, two times."""
    inputs = {"name": "inputs", "batch_input_shape": [None, 4], "dtype": "float32"}
    first = {"class_name": "InputLayer", "config": inputs, "name": "inputs", "inbound_nodes": []}
    nodes = [[["inputs", 0, 0, {}]], [[model["config"]["name"], 1, 0, {}]]]
    second = {**model, "name": model["config"]["name"], "inbound_nodes": nodes}
    ends = {"input_layers": [["inputs", 0, 0]], "output_layers": [[second["name"], 2, 0]]}
    return {"class_name": "Functional", "config": {"name": name, "layers": [first, second], **ends}}


class CallsTest(_Base):
    def test_models_that_call_models_twice(self) -> None:
        """With each model around it, the calls of the innermost layer are twice as many."""

        def change(config: Any) -> None:
            model = {key: config[key] for key in ("class_name", "config")}
            for number in range(30):
                model = _twice(model, f"model_{number}")
            config.update(model)

        inputs = tf_keras.layers.Input([4], name="inputs")
        model = tf_keras.Model(inputs, tf_keras.layers.Activation("linear")(inputs), name="innermost")
        self._assert_refused(self._saved(model, change, ".h5"), _OPS)


class DimensionsTest(_Base):
    @parameterized.expand([".keras", ".h5"])
    def test_more_than_tensors_have(self, suffix: str) -> None:
        def change(config: Any) -> None:
            config["config"]["layers"][0]["config"]["batch_shape"] = [1] * 255

        inputs = keras.layers.Input([4])
        model = keras.Model(inputs, keras.layers.Activation("relu")(inputs))
        message = "describe tensors of at most 254 dimensions; got 'one of 255'"
        self._assert_refused(self._saved(model, change, suffix), message)


_HOSTILE = [
    "(a+)+$",
    "(a|a)*b",
    "(a*)*",
    ".*.*.*b",
    "a{9}{9}{9}",
    "(a|a)(a|a)",
    r"\w+\w+!",
    "a" * 1001,
    r"(a)\1+",
    "a**",
]
_HONEST = ["dense", "block_1/dense-2", "encoder/.*", r"layer_\d\d", "^out$", "a[01]", r"v1\.2", ".+", "(dense)", ""]


def _with_policies(patterns: list[str]) -> Callable[[Any], None]:
    policy = {"module": "keras", "class_name": "DTypePolicy", "config": {"name": "bfloat16"}}
    settings = {"default_policy": None, "policy_map": dict.fromkeys(patterns, policy)}

    def change(config: Any) -> None:
        policies = {"module": "keras.dtype_policies", "class_name": "DTypePolicyMap", "config": settings}
        layer({"model": config}, "dense")["config"]["dtype"] = policies

    return change


class PatternsTest(_Base):
    """Keras 3 matches texts of a config as regular expressions with the paths of layers and variables."""

    @parameterized.expand(_HOSTILE)
    def test_hostile_ones(self, pattern: str) -> None:
        self.assertIsNotNone(costly_setting({"class_name": "DTypePolicyMap", "config": {"policy_map": {pattern: {}}}}))
        for patterns in ([pattern], ["a", [pattern]], {"class_name": "__tuple__", "items": [pattern]}):
            for name in ("Muon", "muon"):
                config = {"class_name": name, "config": {"exclude_layers": patterns}}
                self.assertIsNotNone(costly_setting(config), patterns)

    def test_many_of_muon(self) -> None:
        config = {"class_name": "Muon", "config": {"exclude_layers": ["a"] * 1001}}
        self.assertIsNotNone(costly_setting(config))

    @parameterized.expand(_HONEST)
    def test_honest_ones(self, pattern: str) -> None:
        self.assertIsNone(costly_setting({"class_name": "DTypePolicyMap", "config": {"policy_map": {pattern: {}}}}))
        self.assertIsNone(costly_setting({"class_name": "Muon", "config": {"exclude_layers": [pattern]}}))

    def test_policies_in_files(self) -> None:
        model = keras.Sequential([keras.layers.Input([2]), keras.layers.Dense(1, name="dense")])
        again = mpls.keras.load_model(self._saved(model, _with_policies(["den.*"])))
        self.assertEqual(again.layers[0].compute_dtype, "bfloat16")
        refused = self._saved(model, _with_policies(["(a+)+$"]))
        self._assert_refused(refused, "policy_map must hold patterns of at most 1000 literal characters")

    @pytest.mark.skipif(not hasattr(keras.optimizers, "Muon"), reason="Keras 3 before 3.11 has no Muon")
    def test_optimizers_in_files(self) -> None:
        for excluded, is_refused in ((["out"], False), (["(a+)+$"], True)):
            model = keras.Sequential([keras.layers.Input([2]), keras.layers.Dense(1)])
            model.compile(keras.optimizers.Muon(exclude_layers=excluded), "mse")
            path = self._saved(model)
            if is_refused:
                self._assert_refused(path, "exclude_layers must hold patterns")
            else:
                self.assertEqual(mpls.keras.load_model(path).optimizer.exclude_layers, excluded)

    def test_many_policies(self) -> None:
        model = keras.Sequential([keras.layers.Input([2]), keras.layers.Dense(1, name="dense")])
        path = self._saved(model, _with_policies([f"layer_{number}" for number in range(500)]))
        mpls.keras.load_model(path)
        with mock.patch.object(model_limits, "_CHARACTERS", 4000):
            self._assert_refused(path, "must have few patterns for the dtypes of its layers")


class TextsTest(_Base):
    def test_patterns_of_rearrange(self) -> None:
        for length, is_refused in ((250, False), (251, True)):
            nodes = [{"args": [None, "(" * length], "kwargs": {}}]
            found = costly_setting({"class_name": "Rearrange", "config": {}, "inbound_nodes": nodes})
            self.assertEqual(found is not None, is_refused)


if __name__ == "__main__":
    unittest.main()
