"""`mpls inspect` says of every artefact what is in it, for people and for machines."""

from __future__ import annotations

import contextlib
import json
import re
import unittest
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls
import mpls.keras
from mpls.errors import SavedStateError
from mpls.inspect import describe, inspect
from mpls.saved.reading import read
from tests.artefacts.replay import Artefact
from tests.commands import run_command
from tests.folders import InFolder
from tests.saved import rewriting
from tests.saved.artefacts import ARTEFACTS, CONFIGS
from tests.saved.rewriting import SUFFIX

OPTIMIZER_KEYS = [
    "key",
    "family",
    "algorithm",
    "iterations",
    "hyperparameters",
    "slots",
    "other_state",
    "loss_scale",
    "options",
    "counts",
    "possible_steps",
    "possible_scales",
    "restores_into",
]
KEYS = ["path", "status", "reason", "format", "written_by", "refusal", "optimizers"]
LOSS_SCALE_KEYS = ["dynamic", "scale", "good_steps", "initial_scale", "growth_steps", "multiplier", "options"]


def run(*arguments: str) -> tuple[int, str, str]:
    return run_command("inspect", *arguments)


def strict(text: str) -> Any:
    """Parse JSON as the standard has it, without NaN."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


class InspectTest(InFolder, unittest.TestCase):
    def test_schema(self) -> None:
        paths = [each.path for each in ARTEFACTS] + [str(path) for path in CONFIGS]
        for path in paths:
            status, out, err = run(path, "--json")
            self.assertEqual((status, err), (0, ""), path)
            found = strict(out)
            self.assertEqual(list(found), KEYS)
            # `load_model` loads each of the models.
            self.assertIsNone(found["refusal"], path)
            (optimizer,), (record,) = found["optimizers"], read(path).optimizers
            self.assertEqual(list(optimizer), OPTIMIZER_KEYS)
            self.assertEqual(optimizer["iterations"], record.iterations)
            self.assertEqual(optimizer["slots"]["variables"], len(record.variables))
            if record.loss_scale is None:
                self.assertIsNone(optimizer["loss_scale"])
            else:
                self.assertEqual(list(optimizer["loss_scale"]), LOSS_SCALE_KEYS)
                self.assertEqual(optimizer["loss_scale"], vars(record.loss_scale))
            self.assertEqual(optimizer["restores_into"][0]["family"], record.family)
            self.assertIs(optimizer["restores_into"][0]["state"], record.iterations is not None)

    @parameterized.expand(
        [
            (
                "keras_object.adam/tf22.exp",
                """\
                {path}: object checkpoint, written by TF 1.14 or later
                  optimizer 'optimizer': Adam of tf_keras.optimizers.legacy, 5 steps
                    hyperparameters: beta_1 0.9, beta_2 0.999, decay 0, learning_rate 0.05
                    slots: m, v, of 2 variables, 6 numbers
                    loss scale: dynamic, now 16, good steps 1
                    restores: into tf_keras.optimizers.legacy, by tf.train.Checkpoint.restore
                    restores: into tf_keras.optimizers, by mpls.convert_state
                    restores: into keras.optimizers, by mpls.convert_state
                """,
            ),
            (
                "keras_v3.momentum/tf21.lso2",
                """\
                {path}: .keras, written by tf_keras 2.21.0
                  optimizer 'optimizer': SGD of tf_keras.optimizers.legacy, steps unknown
                    hyperparameters: learning_rate 0.0625, decay 0, momentum 0.5, nesterov False
                    loss scale: dynamic, current unknown, initially 64, grows after 3, by 2
                    gives settings only: into tf_keras.optimizers.legacy, by mpls.keras.load_model
                """,
            ),
        ]
    )
    def test_text(self, name: str, wanted: str) -> None:
        path = Artefact(*name.split("/")).path
        lines = [line[16:] for line in wanted.rstrip().splitlines()]
        self.assertEqual(run(path), (0, "\n".join(lines).format(path=path) + "\n", ""))

    def test_broken_file(self) -> None:
        key = f"optimizer/loss_scale/current_loss_scale{SUFFIX}"
        path = rewriting.checkpoint("keras_object.adam/tf24.lso2", self.folder, {key: np.float32("nan")})
        status, out, err = run(str(path))
        reason = f"{path}: {key} must be a positive, finite float32 number; got nan (float)."
        self.assertEqual((status, err), (1, ""))
        self.assertIn(f"{path}: cannot be restored: {reason}", out)
        (self.folder / "empty.h5").write_bytes(b"")
        self.assertEqual(run(str(self.folder / "empty.h5"))[0], 1)
        status, out, err = run(str(path), "--json")
        found = strict(out)
        self.assertEqual((status, err, list(found), found["status"]), (1, "", KEYS, "broken"))
        self.assertTrue(found["reason"].startswith(reason))

    def test_nothing_there(self) -> None:
        (self.folder / "notes.txt").write_text("hello")
        for path in (self.folder / "nothing", self.folder / "notes.txt", self.folder):
            status, out, err = run(str(path))
            self.assertEqual((status, out), (2, ""))
            wrong = "exist; got nothing. There is" if path.name == "nothing" else "be a checkpoint's prefix, "
            self.assertTrue(err.startswith(f"mpls inspect: {path} must {wrong}"), err)
            status, out, err = run(str(path), "--json")
            found = strict(out)
            self.assertEqual((status, err, list(found), found["status"]), (2, "", KEYS, "unknown"))

    def test_unreadable(self) -> None:
        # Not by the file's mode: some users may read everything.
        with mock.patch("mpls.inspect.read", side_effect=PermissionError(13, "Permission denied", "model.h5")):
            status, out, err = run("model.h5")
        self.assertEqual((status, out, err), (2, "", "mpls inspect: [Errno 13] Permission denied: 'model.h5'\n"))

    def test_non_finite_hyperparameters(self) -> None:
        path = self.folder / "config.json"
        path.write_text(
            '{"class_name": "SGD", "config": {"learning_rate": NaN, "momentum": [Infinity, {"a": -Infinity}]}}'
        )
        status, text = inspect(str(path), as_json=True)
        found = strict(text)["optimizers"][0]["hyperparameters"]
        self.assertEqual((status, found), (0, {"learning_rate": "nan", "momentum": ["inf", {"a": "-inf"}]}))
        self.assertIn("learning_rate nan", inspect(str(path))[1])

    @parameterized.expand(
        [(keras,), (tf_keras,)], name_func=lambda function, number, case: f"{function.__name__}_{number}"
    )
    def test_a_wrapper_of_a_users_class(self, framework: Any) -> None:
        """It is told by its settings, as other classes too have an optimizer in their config."""

        class Mine(mpls.keras.LossScaleOptimizer):
            def get_config(self) -> dict[str, Any]:
                return {**super().get_config(), "interval": 3}

        for options in ({"initial_scale": 64.0}, {"dynamic": False, "initial_scale": 16.0}):
            model = framework.Sequential([framework.layers.Input((2,)), framework.layers.Dense(1)])
            model.compile(Mine(framework.optimizers.Adam(0.1), **options), "mse")
            model.fit(np.ones((4, 2), np.float32), np.ones((4, 1)), verbose=0)
            for suffix in ("keras", "h5"):
                path = str(self.folder / f"model.{suffix}")
                mpls.keras.save_model(model, path, overwrite=True)
                (optimizer,) = describe(path)["optimizers"]
                found = optimizer["algorithm"], optimizer["loss_scale"]["scale"], optimizer["slots"]["variables"]
                self.assertEqual(found, ("Adam", options["initial_scale"], 2))
        other = {
            "class_name": "Lookahead",
            "config": {"optimizer": {"class_name": "SGD", "config": {}}, "learning_rate": 0.1},
        }
        (self.folder / "config.json").write_text(json.dumps(other))
        self.assertIsNone(describe(str(self.folder / "config.json"))["optimizers"][0]["loss_scale"])

    def test_what_load_model_refuses(self) -> None:
        for members, refused in (
            ({"model": None}, "model.weights.h5 must be in the file"),
            ({"metadata": b'{"keras_version": "another"}'}, "keras_version must be that of a Keras.*got 'another'"),
        ):
            path = rewriting.archive("keras_v3.momentum/tf21.k3", self.folder, {}, **members)
            found = describe(path)
            self.assertEqual(found["status"], "ok")
            self.assertRegex(found["refusal"], refused)
            with self.assertRaisesRegex(SavedStateError, re.escape(found["refusal"])):
                mpls.keras.load_model(path)

    @parameterized.expand([("adam", True), ("momentum", True), ("sgd", False), ("wrapped", True)])
    def test_weights_alone(self, name: str, has_slots: bool) -> None:
        """A conversion is offered where there is one: the file does not say which slots it holds."""
        optimizer = {
            "adam": keras.optimizers.Adam(0.5),
            "momentum": keras.optimizers.SGD(0.5, 0.5),
            "sgd": keras.optimizers.SGD(0.5),
            "wrapped": mpls.keras.LossScaleOptimizer(keras.optimizers.Adam(0.5)),
        }[name]
        model = keras.Sequential([keras.layers.Input([2]), keras.layers.Dense(1)])
        model.compile(optimizer, "mse")
        model.fit(np.ones([1, 2]), np.ones([1, 1]), verbose=0)
        path = str(self.folder / "model.weights.h5")
        model.save_weights(path)
        (found,) = describe(path)["optimizers"]
        own, *others = found["restores_into"]
        self.assertEqual(own, {"family": "keras3", "by": "model.load_weights", "state": True})
        self.assertEqual(bool(others), not has_slots)
        target = tf_keras.optimizers.SGD(0.5) if name == "sgd" else tf_keras.optimizers.Adam(0.5)
        refused = self.assertRaises(SavedStateError) if has_slots else contextlib.nullcontext()
        with refused:
            mpls.convert_state(path, target, [tf.Variable(np.ones([2, 1])), tf.Variable(np.ones([1]))])
