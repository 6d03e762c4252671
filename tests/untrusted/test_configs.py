"""Whatever a config names, at whatever place, in whatever format: refused before a framework makes anything of it."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import pathlib
import sys
import tempfile
import unittest
import warnings
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.experimental
import mpls.keras
from mpls.errors import ArgumentTypeError, SavedStateError
from mpls.inspect import describe
from mpls.keras.files import loading
from mpls.saved.config_safety import refuse_unsafe_configs
from mpls.upstream.keras_packages import ObjectsOfUser
from tests.folders import InFolder
from tests.untrusted.models import FRAMEWORKS, KINDS, Change, Templates, layer
from tests.untrusted.payloads import NAMES, PAYLOADS, SPY

Put = Callable[[dict[str, Any], Any], None]


def _setting(name: str, key: str) -> Put:
    return lambda parts, payload: layer(parts, name)["config"].update({key: payload})


def _in_place_of_layer(parts: dict[str, Any], payload: Any) -> None:
    dense = layer(parts, "dense")
    name = dense["config"]["name"]
    dense.clear()
    dense.update({"name": name, "inbound_nodes": [], **copy.deepcopy(payload)})
    if isinstance(dense.get("config"), dict):
        dense["config"]["name"] = name


def _in_nested(parts: dict[str, Any], payload: Any) -> None:
    layer(parts, "nested")["config"]["layers"][-1:] = [payload]


def _among_arguments(parts: dict[str, Any], payload: Any) -> None:
    node = layer(parts, "around")["inbound_nodes"][0]
    if isinstance(node, dict):
        node["kwargs"]["training"] = payload
    else:
        node[0][3]["training"] = payload


def _compile(*way: str) -> Put:
    def put(parts: dict[str, Any], payload: Any) -> None:
        config = parts["compile"]
        for key in way[:-1]:
            config = config[key]
        config[way[-1]] = payload

    return put


_INNER = ("optimizer", "config", "inner_optimizer")
PLACES: dict[str, Put] = {
    "activation": _setting("dense", "activation"),
    "initializer": _setting("dense", "kernel_initializer"),
    "regularizer": _setting("dense", "kernel_regularizer"),
    "constraint": _setting("dense", "bias_constraint"),
    "dtype": _setting("dense", "dtype"),
    "unknown setting": _setting("dense", "anything"),
    "cell": _setting("rnn", "cell"),
    "wrapped layer": _setting("around", "layer"),
    "layer": _in_place_of_layer,
    "layer of a nested model": _in_nested,
    "argument of a call": _among_arguments,
    "build_config": lambda parts, payload: layer(parts, "dense").update(build_config={"input_shape": [payload]}),
    "loss": _compile("loss"),
    "losses": lambda parts, payload: parts["compile"].update(loss={"nested": [payload]}),
    "metrics": lambda parts, payload: parts["compile"].update(metrics=[["mae", payload]]),
    "weighted metrics": lambda parts, payload: parts["compile"].update(weighted_metrics=[payload]),
    "optimizer": _compile("optimizer"),
    "wrapped optimizer": _compile(*_INNER),
    "schedule": _compile(*_INNER, "config", "learning_rate"),
    "setting of a schedule": _compile(*_INNER, "config", "learning_rate", "config", "decay_steps"),
}
NAMED_PLACES = [
    "activation",
    "initializer",
    "regularizer",
    "constraint",
    "cell",
    "wrapped layer",
    "loss",
    "losses",
    "metrics",
    "weighted metrics",
    "optimizer",
]


@tf_keras.utils.register_keras_serializable("untrusted")
class Registered(tf_keras.Model):  # type: ignore[misc]
    """A model of the user."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dense = tf_keras.layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs)

    def get_config(self) -> dict[str, Any]:
        return {"name": self.name}


def everything_in(folder: pathlib.Path) -> dict[pathlib.Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class _Base(InFolder, unittest.TestCase):
    templates: Templates

    @classmethod
    def setUpClass(cls) -> None:
        cls.templates = Templates()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.templates.remove()

    def setUp(self) -> None:
        (self.folder / f"{SPY}.py").write_text("raise AssertionError('a module in the file was imported')")

    def _assert_refused(self, framework: str, suffix: str, change: Change, **kwargs: Any) -> str:
        """Refuse a file, with nothing made by the framework, and return the message.

        `mpls inspect` refuses the file too. Neither imports what the file names, and neither changes a file.
        """
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        path = self.templates.changed(framework, suffix, folder, change)
        path_entry = mock.patch.object(sys, "path", [str(self.folder), *sys.path])
        natively = mock.patch.object(loading, "_load_natively", side_effect=AssertionError("the framework was asked"))
        before = everything_in(self.folder)
        with path_entry, natively:
            found = describe(path)
            with self.assertRaises(SavedStateError) as caught:
                mpls.keras.load_model(path, **kwargs)
        self.assertTrue(found["refusal"] or found["status"] == "broken", found)
        self.assertEqual(everything_in(self.folder), before)
        self.assertTrue(str(caught.exception).startswith(f"{path}: "), caught.exception)
        self.assertNotIn(SPY, sys.modules)
        return str(caught.exception)


class RefusalTest(_Base):
    """Every payload at one place, and every place with some payload, in each format."""

    @parameterized.expand(KINDS)
    def test_objects(self, framework: str, suffix: str) -> None:
        # In each format, other payloads are at a place.
        places = [*PLACES.items()] * 2
        places = places[3 * KINDS.index((framework, suffix)) :]
        for (name, payload), (place, put) in zip(PAYLOADS.items(), itertools.cycle(places), strict=False):
            with self.subTest(name, place=place):
                message = self._assert_refused(framework, suffix, functools.partial(put, payload=payload))
                self.assertIn("safe_mode=False", message)

    @parameterized.expand(KINDS)
    @pytest.mark.default_run("one case")
    def test_names(self, framework: str, suffix: str) -> None:
        for place, name in zip(NAMED_PLACES, itertools.cycle(NAMES), strict=False):
            with self.subTest(name, place=place):
                message = self._assert_refused(framework, suffix, functools.partial(PLACES[place], payload=name))
                self.assertIn("safe_mode=False", message)

    @parameterized.expand(KINDS)
    def test_without_compiling_too(self, framework: str, suffix: str) -> None:
        change = PLACES["activation"]
        self._assert_refused(framework, suffix, lambda parts: change(parts, PAYLOADS["function of os"]), compile=False)

    @parameterized.expand(KINDS)
    def test_other_custom_objects_do_not_help(self, framework: str, suffix: str) -> None:
        for name in ("function of os", "class that is imported", "registered name alone"):
            with self.subTest(name):
                self._assert_refused(
                    framework,
                    suffix,
                    lambda parts, n=name: PLACES["activation"](parts, PAYLOADS[n]),
                    custom_objects={"Mine": tf_keras.layers.Dense, "function": len},
                )

    @parameterized.expand(KINDS)
    def test_names_that_lead_out_of_the_assets(self, framework: str, suffix: str) -> None:
        self._assert_refused(framework, suffix, lambda parts: layer(parts, "dense")["config"].update(name="a/../../b"))


HASHING = {"module": "keras.layers", "class_name": "Hashing", "config": {"num_bins": 3}}


class ResultTest(_Base):
    """What is no model, or cannot be made one, is an error that names the file."""

    def _assert_named(self, change: Change) -> None:
        path = self.templates.changed("keras", ".keras", self.folder, change)
        with self.assertRaisesRegex(SavedStateError, f"^{path}: "):
            mpls.keras.load_model(path)

    @parameterized.expand(
        [
            ("layer", HASHING),
            ("array", {"class_name": "__numpy__", "config": {"value": [1.0], "dtype": "float32"}}),
            ("values", {"layers": [1]}),
        ]
    )
    def test_what_is_no_model(self, name: str, config: dict[str, Any]) -> None:
        def change(parts: dict[str, Any]) -> None:
            parts["model"].clear()
            parts["model"].update(config)

        self._assert_named(change)

    def test_what_is_no_optimizer(self) -> None:
        self._assert_named(lambda parts: _compile(*_INNER)(parts, HASHING))

    def test_custom_objects_that_are_no_dict(self) -> None:
        with self.assertRaisesRegex(ArgumentTypeError, "custom_objects must be a dict"):
            mpls.keras.load_model(self.templates.path("keras", ".keras"), custom_objects=[len])  # type: ignore[arg-type]

    @parameterized.expand([(None,), (0,), ("",), (np.False_,), ("False",), (1,)])
    def test_only_false_switches_the_checks_off(self, value: Any) -> None:
        with self.assertRaisesRegex(ArgumentTypeError, "safe_mode must be a bool"):
            mpls.keras.load_model(self.templates.path("keras", ".keras"), safe_mode=value)


class AllowedTest(_Base):
    @parameterized.expand(KINDS)
    def test_the_templates(self, framework: str, suffix: str) -> None:
        self.assertIsNone(describe(self.templates.path(framework, suffix))["refusal"])
        model = mpls.keras.load_model(self.templates.path(framework, suffix))
        self.assertEqual(model.predict(np.ones([1, 3, 2]), verbose=0).shape, (1, 1))
        self.assertIsInstance(model.optimizer, mpls.keras.LossScaleOptimizer)

    @parameterized.expand(KINDS)
    def test_initializers_of_tensorflow(self, framework: str, suffix: str) -> None:
        k = FRAMEWORKS[framework]
        dense = k.layers.Dense(
            1, kernel_initializer=tf.constant_initializer(2.0), bias_initializer=tf.ones_initializer()
        )
        path = str(self.folder / f"model{suffix}")
        with warnings.catch_warnings():
            # tf_keras says of each that it is not one of its own.
            warnings.filterwarnings("ignore", "The `keras.initializers.serialize", UserWarning)
            mpls.keras.save_model(k.Sequential([k.layers.Input([2]), dense]), path)
        np.testing.assert_array_equal(mpls.keras.load_model(path)(np.ones([1, 2], np.float32)), [[5.0]])

    @parameterized.expand(KINDS)
    @pytest.mark.default_run("one case")
    def test_what_is_not_loaded_is_not_looked_at(self, framework: str, suffix: str) -> None:
        path = self.templates.changed(
            framework, suffix, self.folder, lambda parts: PLACES["loss"](parts, PAYLOADS["function of os"])
        )
        self.assertTrue(mpls.keras.load_model(path, compile=False).weights)

    @parameterized.expand([kind for kind in KINDS if kind[1]])
    @pytest.mark.default_run("one case")
    def test_custom_objects(self, framework: str, suffix: str) -> None:
        k = FRAMEWORKS[framework]

        class Twice(k.layers.Layer):  # type: ignore[misc]
            def call(self, inputs: Any) -> Any:
                return inputs * 2.0

        def half(inputs: Any) -> Any:
            return inputs * 0.5

        def difference(y_true: Any, y_pred: Any) -> Any:
            return k.losses.mean_squared_error(y_true, y_pred)

        inputs = k.layers.Input([2])
        # H5 files of tf_keras hold no such activation that it could load.
        activation = "relu" if (framework, suffix) == ("tf_keras", ".h5") else half
        outputs = k.layers.Dense(1, activation=activation)(Twice()(inputs))
        if framework == "keras":
            # tf_keras saves the bytecode of named functions too.
            outputs = k.layers.Lambda(half)(outputs)
        model = k.Model(inputs, outputs)
        model.compile(k.optimizers.SGD(0.1), loss=difference)
        path = str(self.folder / f"model{suffix}")
        mpls.keras.save_model(model, path)
        with self.assertRaisesRegex(SavedStateError, "pass it in custom_objects"):
            mpls.keras.load_model(path)
        own = {"Twice": Twice, "half": half, "difference": difference}
        again = mpls.keras.load_model(path, custom_objects=own)
        values = np.ones([1, 2], np.float32)
        np.testing.assert_array_equal(again.predict(values, verbose=0), model.predict(values, verbose=0))
        with k.saving.custom_object_scope(own):
            mpls.keras.load_model(path)

    @parameterized.expand(["tf_keras", "keras"])
    def test_registered_functions(self, framework: str) -> None:
        k = FRAMEWORKS[framework]

        @k.saving.register_keras_serializable(f"untrusted_{framework}")  # type: ignore[untyped-decorator]
        def own_activation(inputs: Any) -> Any:
            return inputs * 3.0

        path = str(self.folder / "model.keras")
        dense = k.layers.Dense(1, activation=own_activation, name="dense")
        mpls.keras.save_model(k.Sequential([k.layers.Input([2]), dense]), path)
        self.assertIs(mpls.keras.load_model(path).get_layer("dense").activation, own_activation)
        # What older releases wrote, and the same with another function of the module.
        config = {"module": __name__, "class_name": "function", "config": "own_activation"}

        def check(config: Any) -> None:
            refuse_unsafe_configs("file", ".keras", {"config": config}, ObjectsOfUser(k, {}))

        registered = {**config, "registered_name": f"untrusted_{framework}>own_activation"}
        for name, raises in (("own_activation", False), ("tempfile", True), ("mpls", True)):
            with self.assertRaises(SavedStateError) if raises else contextlib.nullcontext():
                check({"activation": {**registered, "config": name}})
        # What only looks like a registered name.
        for hostile in (
            {**config, "module": SPY, "config": ">own_activation", "registered_name": "function"},
            {**config, "module": SPY, "registered_name": ">own_activation"},
            {"module": SPY, "class_name": "own_activation", "config": {}, "registered_name": ">own_activation"},
            {"module": SPY, "class_name": "own_activation", "config": {}, "registered_name": None},
        ):
            with self.assertRaises(SavedStateError):
                check({"activation": hostile})
        # Without the package, among what is registered only.
        bare = {**config, "registered_name": "function"}
        for module, raises in (("builtins", False), (__name__, True), (SPY, True)):
            with self.assertRaises(SavedStateError) if raises else contextlib.nullcontext():
                check({"activation": {**bare, "module": module}})

    @parameterized.expand(["tf_keras", "keras"])
    def test_policies_of_mpls(self, framework: str) -> None:
        k = FRAMEWORKS[framework]
        policies = [mpls.experimental.Policy("mixed_float16", loss_scale=8.0)] if framework == "tf_keras" else []
        for number, policy in enumerate([*policies, mpls.keras.Policy("mixed_bfloat16")]):
            path = str(self.folder / f"model{number}.keras")
            mpls.keras.save_model(k.Sequential([k.layers.Input([2]), k.layers.Dense(1, dtype=policy)]), path)
            self.assertEqual(mpls.keras.load_model(path).layers[-1].compute_dtype, policy.compute_dtype)

    @parameterized.expand([".keras", ".h5", ""])
    def test_losses_and_metrics_of_tensors(self, suffix: str) -> None:
        inputs = tf_keras.layers.Input([2])
        outputs = tf_keras.layers.Dense(1)(inputs)
        model = tf_keras.Model(inputs, outputs)
        model.add_loss(tf.reduce_mean(outputs))
        model.add_metric(tf.reduce_mean(outputs), name="mean")
        path = str(self.folder / f"model{suffix}")
        mpls.keras.save_model(model, path)
        self.assertEqual(len(mpls.keras.load_model(path).losses), 1)

    def test_registered_models_in_saved_models(self) -> None:
        path, model = str(self.folder / "model"), Registered()
        model(np.ones([1, 2], np.float32))
        mpls.keras.save_model(model, path)
        self.assertIsInstance(mpls.keras.load_model(path), Registered)

    def test_ops_of_old_releases(self) -> None:
        """TF 2.2 and 2.3 wrote such a layer for `2 * x`."""

        def change(parts: dict[str, Any]) -> None:
            node = {"name": "mul", "op": "Mul", "input": ["x", "y"], "attr": {"T": {"type": "DT_FLOAT"}}}
            config = {"name": "times", "trainable": True, "dtype": "float32", "node_def": node, "constants": {"1": 2.0}}
            times = {"class_name": "TensorFlowOpLayer", "config": config, "name": "times"}
            layers = parts["model"]["config"]["layers"]
            layers.insert(2, {**times, "inbound_nodes": [[["dense", 0, 0, {}]]]})
            layer(parts, "around")["inbound_nodes"][0][0][0] = "times"

        path = self.templates.changed("tf_keras", ".h5", self.folder, change)
        model = mpls.keras.load_model(path)
        values = np.ones([1, 3, 2], np.float32)
        dense = tf_keras.Model(
            model.inputs, [model.get_layer("dense").output, model.get_layer("tf_op_layer_times").output]
        )
        once, twice = dense.predict(values, verbose=0)
        np.testing.assert_array_equal(2.0 * once, twice)
