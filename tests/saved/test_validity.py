"""State that no optimizer can have is refused, with an error that names the file and the key."""

from __future__ import annotations

import copy
import json
import pathlib
import unittest
from typing import Any

import numpy as np
import tensorflow as tf
from parameterized import parameterized

from mpls.errors import SavedStateError
from mpls.saved.reading import read
from tests.folders import InFolder
from tests.saved import rewriting
from tests.saved.rewriting import SUFFIX

SCALES: list[tuple[str, Any, str]] = [
    ("zero", np.float32(0), "be a positive, finite float32 number; got 0.0"),
    ("negative", np.float32(-8), "be a positive, finite float32 number; got -8.0"),
    ("nan", np.float32("nan"), "be a positive, finite float32 number; got nan"),
    ("infinite", np.float32("inf"), "be a positive, finite float32 number; got inf"),
    ("beyond float32", np.float64(1e300), "be a positive, finite float32 number; got 1e+300"),
    ("integer", np.int32(8), "be a scalar of a float dtype; got 'dtype int32 and shape ()'"),
    ("vector", np.ones(1, np.float32), "be a scalar of a float dtype; got 'dtype float32 and shape (1,)'"),
]
COUNTS: list[tuple[str, Any, str]] = [
    ("negative", np.int64(-1), "be a whole number that is not negative; got -1"),
    ("beyond 64 bits", np.uint64(2**63 + 5), f"be a whole number that is not negative; got {2**63 + 5}"),
    ("float", np.float32(1), "be a scalar of an integer dtype; got 'dtype float32 and shape ()'"),
    ("vector", np.ones(2, np.int64), "be a scalar of an integer dtype; got 'dtype int64 and shape (2,)'"),
]
ABOVE: list[tuple[str, Any, str]] = [
    ("above", np.int64(4), "be a whole number from 0 to 3, the growth steps; got 4"),
]
NOT_A_NUMBER = "be a scalar of a number's dtype; got 'dtype"
RATES: list[tuple[str, Any, str]] = [
    ("complex", np.complex64(1), f"{NOT_A_NUMBER} complex64 and shape ()'"),
    ("vector", np.float32([1]), f"{NOT_A_NUMBER} float32 and shape (1,)'"),
]
SLOTS: list[tuple[str, Any, str]] = [
    ("missing", None, "be in the checkpoint, since its object graph names it"),
    ("text", b"text", 'be of a numeric dtype; got "TensorFlow\'s dtype number 7"'),
]
GRAPHS: list[tuple[str, Any, str]] = [
    ("no_message", b"\xff" * 20, "be a whole object graph"),
    ("cut", b"\x0a\x05\x0a\x03\x08\xff\x01", "be a whole object graph"),
]
LEGACY, NEW, KERAS3 = (f"keras_object.adam/{run}" for run in ("tf24.lso2", "tf215.lso3", "tf21.k3"))
SAVER = "v1_saver.adam/tf24"
# What is changed in a checkpoint, where, and to what.
IN_CHECKPOINTS = [
    ("scale", LEGACY, f"optimizer/loss_scale/current_loss_scale{SUFFIX}", SCALES),
    ("scale_of_old", "keras_object.adam/tf22.exp", f"optimizer/loss_scale/current_loss_scale{SUFFIX}", SCALES),
    ("scale_of_keras3", KERAS3, f"optimizer/dynamic_scale{SUFFIX}", SCALES),
    ("scale_of_saver", SAVER, "current_loss_scale", SCALES),
    ("good_steps", LEGACY, f"optimizer/loss_scale/good_steps{SUFFIX}", COUNTS),
    ("good_steps_of_keras3", KERAS3, f"optimizer/step_counter{SUFFIX}", COUNTS),
    ("good_steps_of_saver", SAVER, "good_steps", COUNTS),
    ("iterations", LEGACY, f"optimizer/iter{SUFFIX}", COUNTS),
    ("iterations_of_new", "keras_object.adam/tf21.lso3", f"optimizer/_iterations{SUFFIX}", COUNTS),
    ("global_step", SAVER, "global_step", COUNTS),
    ("rate", LEGACY, f"optimizer/learning_rate{SUFFIX}", RATES[:1]),
    ("rate_of_new", NEW, f"optimizer/_learning_rate{SUFFIX}", RATES),
    ("slot", LEGACY, f"w/.OPTIMIZER_SLOT/optimizer/m{SUFFIX}", SLOTS),
    ("graph", LEGACY, "_CHECKPOINTABLE_OBJECT_GRAPH", GRAPHS),
]
H5, ARCHIVE = "keras_h5.momentum/tf21.k3", "keras_v3.momentum/tf21.k3"
OF_WRAPPER = "optimizer_weights/loss_scale_optimizer"
IN_MODELS = [
    ("scale_in_archive", rewriting.archive, ARCHIVE, "optimizer/vars/3", SCALES),
    ("scale_in_h5", rewriting.h5, H5, f"{OF_WRAPPER}/dynamic_scale", SCALES),
    ("good_steps_in_archive", rewriting.archive, ARCHIVE, "optimizer/vars/2", ABOVE),
    ("good_steps_in_h5", rewriting.h5, H5, f"{OF_WRAPPER}/step_counter", ABOVE),
    ("weight_in_h5", rewriting.h5, H5, f"{OF_WRAPPER}/dynamic_scale", [("missing", None, "be a dataset in the file")]),
]


def cases(places: list[Any]) -> list[Any]:
    """Return each value at each of these places, under a name."""
    return [
        (f"{place}_{name}".replace(" ", "_"), *where, value, text)
        for place, *where, values in places
        for name, value, text in values
    ]


class Refusing(InFolder, unittest.TestCase):
    def assert_refused(self, path: pathlib.Path, key: str, text: str) -> None:
        with self.assertRaises(SavedStateError) as caught:
            read(path)
        message = str(caught.exception)
        self.assertTrue(message.startswith(str(path)), message)
        self.assertIn(f": {key} must {text}", message)
        self.assertTrue(message.endswith(" See mpls docs my-checkpoints"), message)


class CheckpointTest(Refusing):
    @parameterized.expand(cases(IN_CHECKPOINTS))
    def test_refused(self, name: str, artefact: str, key: str, value: Any, text: str) -> None:
        self.assert_refused(rewriting.checkpoint(artefact, self.folder, {key: value}), key, text)

    def test_hyperparameter_of_bfloat16(self) -> None:
        key = f"optimizer/_learning_rate{SUFFIX}"
        value = np.array(0.5, tf.bfloat16.as_numpy_dtype)
        path = rewriting.checkpoint(NEW, self.folder, {key: value})
        (optimizer,) = read(path).optimizers
        self.assertEqual(optimizer.hyperparameters["learning_rate"], 0.5)

    def test_unchanged_copy_is_read(self) -> None:
        (optimizer,) = read(rewriting.checkpoint(LEGACY, self.folder, {})).optimizers
        assert optimizer.loss_scale is not None
        self.assertEqual((optimizer.iterations, optimizer.loss_scale.scale), (6, 16.0))


class ModelTest(Refusing):
    @parameterized.expand(cases(IN_MODELS))
    def test_refused(self, name: str, rewrite: Any, artefact: str, key: str, value: Any, text: str) -> None:
        self.assert_refused(rewrite(artefact, self.folder, {key: value}), key, text)

    def test_good_steps_of_a_saved_model_above_the_period(self) -> None:
        key = "optimizer/loss_scale/good_steps"
        ((_, value, text),) = ABOVE
        for name in ("tf215.lso2", "tf23.exp"):
            path = rewriting.saved_model(f"keras_tf.momentum/{name}", self.folder / name, {f"{key}{SUFFIX}": value})
            self.assert_refused(path, key, text)

    @parameterized.expand(
        [
            ("cut", b"{", "be JSON"),
            ("list", b"[1", "be JSON"),
            ("text", b'"?', "be JSON"),
            ("deep", b"[" * 100_000, "be JSON"),
            ("none", None, "describe the optimizer whose weights the file holds"),
            ("number", np.float32(1), "be text"),
        ]
    )
    def test_training_config(self, name: str, config: Any, text: str) -> None:
        path = rewriting.h5("keras_h5.momentum/tf24.lso2", self.folder, {}, training_config=config)
        self.assert_refused(path, "training_config", text)

    @parameterized.expand([("none", None, "be in the file"), ("bytes", b"\xff\xfe", "be JSON")])
    def test_config_of_an_archive(self, name: str, config: bytes | None, text: str) -> None:
        self.assert_refused(rewriting.archive(ARCHIVE, self.folder, {}, config=config), "config.json", text)


NEW_FORMAT, OLD_FORMAT = "config_dynamic.tf28.lso2", "config_dynamic.tf23.exp"
INNER = "config/inner_optimizer"
STATE = f"{INNER}/loss_scale_state"
LOSS_SCALE = "config/loss_scale"
GROWTH = "config/dynamic_growth_steps"
HUGE = 10**400
NESTED = rewriting.config("config_default.tf28.lso2")
OPTIONS = "count_steps, skip_counts_step, track_overflows, max_consecutive_skips, on_give_up, check_unscaled, enabled"
FINITE = "be a positive, finite float32 number; got"
COUNTED = "be a whole number from 0 to 5, the growth steps; got"


class ConfigTest(Refusing):
    @parameterized.expand(
        [
            ("unknown_key", NEW_FORMAT, "config/extra", 1, "be one of inner_optimizer, dynamic, initial_scale, "),
            (
                "unknown_key_of_old",
                OLD_FORMAT,
                "config/extra",
                1,
                f"be one of optimizer, loss_scale, {OPTIONS}; got 'extra'",
            ),
            ("dynamic", NEW_FORMAT, "config/dynamic", "yes", "be a bool; got 'yes'"),
            ("scale_huge", NEW_FORMAT, "config/initial_scale", HUGE, f"{FINITE} 1000"),
            ("growth_fraction", NEW_FORMAT, GROWTH, 2.5, "be a whole number; got 2.5"),
            ("inner_list", NEW_FORMAT, INNER, [], "be an object of JSON; got []"),
            ("nested", NEW_FORMAT, INNER, NESTED, "not be a LossScaleOptimizer itself; got 'LossScaleOptimizer'"),
            ("class_name", NEW_FORMAT, f"{INNER}/class_name", 3, "be a name; got 3"),
            ("rate", NEW_FORMAT, f"{INNER}/config/learning_rate", "x", "be a number or the config of a schedule"),
            ("no_scale", OLD_FORMAT, f"{LOSS_SCALE}/class_name", "Adam", "be the class name of a loss scale, "),
            ("multiplier", OLD_FORMAT, f"{LOSS_SCALE}/config/multiplier", -2, f"{FINITE} -2"),
            (
                "unknown_setting",
                OLD_FORMAT,
                f"{LOSS_SCALE}/config/extra",
                1,
                "be one of initial_loss_scale, increment_",
            ),
        ]
    )
    def test_config(self, name: str, source: str, key: str, value: Any, text: str) -> None:
        self.assert_refused(self._changed(source, key, value), key, text)

    @parameterized.expand(
        [
            ("zero", {"scale": 0, "good_steps": 0}, "scale", f"{FINITE} 0"),
            ("missing", {"good_steps": 0}, "scale", f"{FINITE} None"),
            ("above", {"scale": 8, "good_steps": 6}, "good_steps", f"{COUNTED} 6"),
            ("negative", {"scale": 8, "good_steps": -1}, "good_steps", f"{COUNTED} -1"),
            ("bool", {"scale": 8, "good_steps": True}, "good_steps", f"{COUNTED} True"),
            ("unknown", {"scale": 8, "code": "x"}, "code", "be one of scale, good_steps; got 'code'"),
        ]
    )
    def test_state_in_config(self, name: str, state: Any, key: str, text: str) -> None:
        self.assert_refused(self._changed(NEW_FORMAT, STATE, state), f"{STATE}/{key}", text)

    def test_growth_steps_that_no_count_reaches(self) -> None:
        for value in (2**63, float(2**63), HUGE):
            with self.subTest(value):
                (record,) = read(self._changed(NEW_FORMAT, GROWTH, value)).optimizers
                self.assertEqual(record.loss_scale.growth_steps, 2**63 - 1)

    def test_fixed_scale_that_grows(self) -> None:
        path = self._changed(NEW_FORMAT, "config/dynamic", False)
        self.assert_refused(path, GROWTH, "be null for a fixed scale; got 5")

    def _changed(self, source: str, key: str, value: Any) -> pathlib.Path:
        changed = copy.deepcopy(rewriting.config(source))
        inner = changed
        *steps, last = key.split("/")
        for step in steps:
            inner = inner[step]
        inner[last] = value
        path = self.folder / "config.json"
        path.write_text(json.dumps(changed))
        return path

    @parameterized.expand(
        [
            ("broken", '{"class_name": ', "the file", "be JSON"),
            ("deep", '{"class_name": ' + "[" * 100_000, "the file", "be JSON"),
            ("nested", '{"class_name": ' + "[" * 300 + "]" * 300 + "}", "the file", "be nested at most 200 times"),
            ("long_number", '{"a": ' + "1" * 5000 + "}", "the file", "be JSON"),
            ("no_optimizer", '{"units": 3}', "the config", "be a config of an optimizer; got the keys 'units'"),
            ("layer", '{"class_name": "Dense", "config": {"units": 3}}', "the config", "be a config of an optimizer"),
            ("empty", "{}", "the config", "be a config of an optimizer; got an empty one"),
        ]
    )
    def test_text(self, name: str, text: str, key: str, constraint: str) -> None:
        path = self.folder / "config.json"
        path.write_text(text)
        self.assert_refused(path, key, constraint)

    def test_state_beside_the_inner_config(self) -> None:
        for source, key in ((NEW_FORMAT, STATE), (OLD_FORMAT, "config/optimizer/loss_scale_state")):
            path = self._changed(source, key, {"scale": 128.0, "good_steps": 3})
            (optimizer,) = read(path).optimizers
            assert optimizer.loss_scale is not None
            found = (optimizer.loss_scale.scale, optimizer.loss_scale.good_steps, optimizer.loss_scale.initial_scale)
            self.assertEqual(found, (128.0, 3, 64.0))

    def test_configs_of_models_without_optimizer(self) -> None:
        path = self.folder / "config.json"
        for text in ('{"class_name": "Sequential", "config": {"name": "s", "layers": []}}', '{"config": []}'):
            path.write_text(text)
            self.assertEqual(read(path).optimizers, ())

    def test_where_configs_are(self) -> None:
        wrapper = rewriting.config(NEW_FORMAT)
        path = self.folder / "config.json"
        for content, key in (
            (wrapper, "config"),
            (wrapper["config"], "config"),
            (wrapper["config"]["inner_optimizer"], "config"),
            (wrapper["config"]["inner_optimizer"]["config"], "config"),
            ({"optimizer_config": wrapper, "loss": "mse"}, "optimizer_config"),
            ({"training_config": {"optimizer_config": wrapper}}, "training_config/optimizer_config"),
            ({"class_name": "Functional", "compile_config": {"optimizer": wrapper}}, "compile_config/optimizer"),
        ):
            path.write_text(json.dumps(content))
            (optimizer,) = read(path).optimizers
            self.assertEqual((optimizer.key, optimizer.algorithm, optimizer.family), (key, "SGD", "legacy"))
            self.assertEqual(optimizer.loss_scale is not None, "inner_optimizer" in json.dumps(content))
