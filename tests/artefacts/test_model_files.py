"""Models that the releases saved, loaded by `mpls.keras.load_model`: with all that the files hold, and training on."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import unittest
import warnings
import zipfile
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.keras
from mpls.errors import SavedStateError
from tests.artefacts.replay import SUBJECTS, Artefact, artefacts
from tests.artefacts.test_writing import CASES, WritingTestCase, scale_of, slots_of, small_model
from tests.folders import InFolder
from tests.keras.families import FRAMEWORKS, OPTIMIZERS, global_policy
from tests.saved import rewriting
from tests.warned import warned

Ours: Any = mpls.keras.LossScaleOptimizer


MODELS = [(f"{each.id}_{each.run}", pathlib.Path(each.path), each.expected) for each in artefacts("keras_model")]


def require_release_of(expected: Any, framework: Any) -> None:
    """Skip what a newer Keras has written than the one that is here: it does not read the layers' configs."""
    written_by = expected["info"].get(framework.__name__) or "2"
    wrote, here = (tuple(map(int, each.split(".")[:2])) for each in (written_by, framework.__version__))
    if wrote[0] == here[0] and wrote > here and expected["info"]["oracle"] == "tf21":
        raise unittest.SkipTest(
            f"{framework.__name__} {written_by} has written it, which {framework.__version__} cannot read"
        )


def load(path: Any, **kwargs: Any) -> tuple[Any, list[str]]:
    """Return the model, and what mpls has warned of."""
    with warned() as texts:
        model = mpls.keras.load_model(path, **kwargs)
    return model, texts


class RecordedModelsTest(unittest.TestCase):
    def assert_near(self, actual: Any, expected: Any, tolerance: float) -> None:
        for one, other in zip(actual, expected, strict=True):
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=tolerance, atol=tolerance)

    @parameterized.expand(MODELS)
    @pytest.mark.default_run("one case", by=lambda name, path, expected: (path.suffix, expected["info"]["oracle"]))
    def test_loads_with_all_that_the_file_holds(self, name: str, path: pathlib.Path, expected: Any) -> None:
        state, flavour = expected["state"], name.rpartition(".")[2]
        require_release_of(expected, keras if flavour == "k3" else tf_keras)
        model, said = load(path)
        optimizer = model.optimizer
        self.assertIsInstance(model, keras.Model if flavour == "k3" else tf_keras.Model)
        self.assertIn(Ours, type(optimizer).__mro__)
        self.assertIsInstance(optimizer.inner_optimizer, OPTIMIZERS[SUBJECTS[flavour].family].Optimizer)
        self.assertEqual(optimizer.dynamic, "fixed" not in expected["spec"]["loss_scale"])
        self.assert_near(model.get_weights(), state["weights"], 1e-6)
        # Native H5 and tf_keras' .keras files hold no current scale, and the latter nothing of a legacy optimizer.
        is_tf_keras = flavour != "k3"
        has_scale = not optimizer.dynamic or path.suffix == "" or not is_tf_keras
        has_slots = not (path.suffix == ".keras" and is_tf_keras and flavour != "lso3")
        start = state if has_slots else expected["reloaded"]["state"]
        self.assertEqual(int(optimizer.iterations), start["iter"])
        if has_slots:
            slots = sorted((each for each in state["opt_weights"].values() if np.ndim(each)), key=np.sum)
            self.assert_near(slots_of(optimizer.inner_optimizer), slots, 1e-6)
        initial = expected["spec"]["loss_scale"].get("initial")
        scale = (state["scale"], state["good"]) if has_scale else (initial, 0)
        self.assertEqual(scale_of(optimizer), scale)
        self.assertEqual(len(said), 0 if has_scale and has_slots else 1, said)
        for part, is_there in (
            (" does not hold", has_scale),
            ("scale and its counter", has_scale),
            ("slots", has_slots),
        ):
            self.assertEqual(part in "".join(said), not is_there)
        self.check_next_steps(model, expected, has_scale, has_slots)

    def check_next_steps(self, model: Any, expected: Any, has_scale: bool, has_slots: bool) -> None:
        spec, optimizer = expected["spec"], model.optimizer
        # Products of float16 matrices differ in their last bits between the releases.
        is_exact = spec.get("policy") is None or expected["info"]["oracle"] == "tf21"
        tolerance = 1e-6 if is_exact else 1e-4
        inputs, targets = (np.array(spec[key], np.float32) for key in "xy")
        continued, reloaded = expected["next"], (expected.get("reloaded") or {}).get("next")
        for number, which in enumerate(spec["post"]):
            rows = slice(2 * which, 2 * which + 2)
            model.train_on_batch(inputs[rows], targets[rows])
            weights = (continued if has_slots else reloaded)[number]
            # The weights do not depend on the scale, which is a power of two.
            self.assert_near(model.get_weights(), weights["weights"], tolerance)
            self.assertEqual(int(optimizer.iterations), weights["iter"])
            scale = (continued if has_scale else reloaded)[number]
            self.assertEqual(scale_of(optimizer), (scale["scale"], scale["good"]))


@keras.saving.register_keras_serializable("tests")
def _registered_loss(true: Any, predicted: Any) -> Any:
    return keras.ops.mean((true - predicted) ** 2)


def _own_metric(_: Any, predicted: Any) -> Any:
    return keras.ops.mean(predicted)


def iterations_of(optimizer: Any) -> int:
    return int(optimizer.iterations)


class Keras3Test(WritingTestCase):
    """Where Keras 3 itself loses state, or does not load at all."""

    @parameterized.expand(
        [
            ("momentum", lambda: keras.optimizers.SGD(0.0625, momentum=0.5)),
            ("adam", lambda: keras.optimizers.Adam(0.0625)),
            ("by_name", lambda: "adam"),
        ]
    )
    @pytest.mark.default_run("one case")
    def test_a_model_that_compile_had_wrapped_by_itself(self, name: str, optimizer: Any) -> None:
        """`compile` writes down the bare optimizer, and `save` the variables of the wrapper around it."""
        path = self.folder / "model.keras"
        with global_policy(keras, "mixed_float16"):
            model = small_model(keras, optimizer())
        model.save(path)
        config = json.loads(zipfile.ZipFile(path).read("config.json"))["compile_config"]["optimizer"]
        self.assertNotIn("LossScaleOptimizer", json.dumps(config))
        with self.assertWarnsRegex(UserWarning, "Skipping variable loading"):
            native = keras.models.load_model(path)
        self.assertEqual(int(native.optimizer.iterations), 0)
        loaded, said = load(path)
        self.assertEqual(said, [])
        self.assertIn(Ours, type(loaded.optimizer).__mro__)
        state = (*scale_of(loaded.optimizer), int(loaded.optimizer.iterations))
        # Steps at a scale of 2**15 overflow in float16.
        native_state = (model.optimizer.dynamic_scale, model.optimizer.step_counter, model.optimizer.iterations)
        self.assertEqual(state, tuple(map(float, native_state)))
        self.assertGreater(state[2], 0)
        self.assertEqual(slots_of(loaded.optimizer.inner_optimizer), slots_of(model.optimizer.inner_optimizer))
        self.assert_trains_on_alike(model, loaded, iterations_of)
        # And what is written of it now says what it is.
        again = self.folder / "again.keras"
        loaded.save(again)
        self.assertEqual(iterations_of(keras.models.load_model(again).optimizer), iterations_of(loaded.optimizer))

    @parameterized.expand(
        [
            ("mse", "mse", None),
            ("names", "mean_squared_error", ["mae", "accuracy"]),
            ("objects", keras.losses.MeanSquaredError(), [keras.metrics.MeanAbsoluteError()]),
            ("functions", _registered_loss, [_own_metric]),
        ]
    )
    @pytest.mark.matrix
    def test_h5(self, name: str, loss: Any, metrics: Any) -> None:
        for native in (True, False):
            wrapper: Any = keras.optimizers.LossScaleOptimizer if native else Ours
            inner = keras.optimizers.Adam(0.0625)
            optimizer = wrapper(inner, initial_scale=8.0, dynamic_growth_steps=2)
            model, path = small_model(keras, optimizer, loss, metrics=metrics), self.folder / f"{name}{native}.h5"
            model.save(path)
            loaded, said = load(path, custom_objects={"_own_metric": _own_metric})
            self.assertEqual(said, [])
            self.assertEqual(scale_of(loaded.optimizer), (16.0, 1))
            self.assert_trains_on_alike(model, loaded, iterations_of)


class BareOptimizersTest(InFolder, unittest.TestCase):
    @parameterized.expand(CASES)
    @pytest.mark.default_run("one case")
    def test_they_stay_bare_and_keep_their_state(self, name: str, family: str, suffix: str) -> None:
        framework, optimizers = FRAMEWORKS[family], OPTIMIZERS[family]
        model, path = small_model(framework, optimizers.Adam(0.0625)), self.folder / f"model{suffix}"
        model.save(path)
        # The `compile` of Keras would wrap the optimizer, and say nothing of the state that is lost with it.
        # The `.keras` file of a legacy one does not tell that it is bare.
        with global_policy(framework, "float32" if name == "legacy.keras" else "mixed_float16"):
            loaded, said = load(path)
        self.assertIs(type(loaded.optimizer), optimizers.Adam)
        if name == "legacy.keras":
            # tf_keras leaves it out, and nothing says so.
            self.assertRegex(said[0], "does not hold the optimizer's iterations and slots, so")
            return
        self.assertEqual(said, [])
        self.assertEqual(int(loaded.optimizer.iterations), 3)
        self.assertEqual(slots_of(loaded.optimizer), slots_of(model.optimizer))

    @parameterized.expand([("tf_keras", tf_keras), ("keras", keras)])
    @pytest.mark.default_run("one case")
    def test_models_that_were_not_compiled_or_are_not_to_be(self, name: str, framework: Any) -> None:
        path = self.folder / "model.keras"
        small_model(framework, Ours(framework.optimizers.Adam())).save(path)
        self.assertIsNone(getattr(mpls.keras.load_model(path, compile=False), "optimizer", None))
        framework.Sequential([framework.Input([1]), framework.layers.Dense(1)]).save(path)
        model, said = load(path)
        self.assertEqual((getattr(model, "optimizer", None), said), (None, []))


RAN = "RAN_CODE_OF_A_FILE"


class SafetyTest(InFolder, unittest.TestCase):
    def test_code_is_run_where_the_user_allows_it(self) -> None:
        path = self.folder / "model.keras"
        # The code of the lambda sets a variable of the environment when it is called.
        code = tf_keras.layers.Lambda(lambda x: __import__("os").environ.update(RAN_CODE_OF_A_FILE="1") or x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tf_keras.Sequential([tf_keras.Input([1]), code, tf_keras.layers.Dense(1)]).save(path)
        os.environ.pop(RAN, None)
        with self.assertRaisesRegex(SavedStateError, r"must hold no Python code.*safe_mode=False"):
            mpls.keras.load_model(path)
        self.assertNotIn(RAN, os.environ)
        model = mpls.keras.load_model(path, safe_mode=False)
        self.addCleanup(os.environ.pop, RAN, None)
        model(np.ones([1, 1], np.float32))
        self.assertIn(RAN, os.environ)


class BrokenFilesTest(InFolder, unittest.TestCase):
    @parameterized.expand(
        [
            ("scale", {"scale": float("nan"), "good_steps": 0}, "scale"),
            ("counter", {"scale": 8.0, "good_steps": 4}, "good_steps"),
            ("missing", {"scale": 8.0}, "loss_scale_state"),
            ("no_dict", 8.0, "loss_scale_state"),
        ]
    )
    def test_hostile_state_in_a_config(self, name: str, state: Any, key: str) -> None:
        with zipfile.ZipFile(Artefact("keras_v3.momentum", "tf215.lso3").path) as archive:
            config = json.loads(archive.read("config.json"))
        config["compile_config"]["optimizer"]["config"]["inner_optimizer"]["loss_scale_state"] = state
        path = rewriting.archive("keras_v3.momentum/tf215.lso3", self.folder, {}, config=json.dumps(config).encode())
        with self.assertRaisesRegex(SavedStateError, key) as caught:
            mpls.keras.load_model(path)
        self.assertIn(str(path), str(caught.exception))
        # By the framework's own loader too, where mpls makes the optimizer.
        with self.assertRaisesRegex(SavedStateError, key):
            tf_keras.models.load_model(path)

    def test_an_error_of_saving_names_the_path_that_was_given(self) -> None:
        model, path = small_model(keras, Ours(keras.optimizers.SGD())), self.folder / "model.other"
        with self.assertRaisesRegex(ValueError, f"filepath={re.escape(os.path.realpath(path))}"):
            mpls.keras.save_model(model, path)

    def test_what_is_no_model(self) -> None:
        with self.assertRaisesRegex(FileNotFoundError, "must exist; got"):
            mpls.keras.load_model(self.folder / "model.keras")
        with self.assertRaisesRegex(SavedStateError, "must be a model.*got another folder"):
            mpls.keras.load_model(self.folder)
        prefix = tf.train.Checkpoint(step=tf.Variable(1)).save(self.folder / "checkpoints" / "ckpt")
        for checkpoint in (prefix, f"{prefix}.index", os.path.dirname(prefix)):
            with self.assertRaisesRegex(SavedStateError, r"must be a model.*got a checkpoint\. .*restore\(path\)"):
                mpls.keras.load_model(checkpoint)
        path = self.folder / "model.keras"
        path.write_text("{}")
        with self.assertRaisesRegex(SavedStateError, "must be a model"):
            mpls.keras.load_model(path)
        weights = self.folder / "model.weights.h5"
        small_model(keras, Ours(keras.optimizers.SGD())).save_weights(weights)
        with self.assertRaisesRegex(SavedStateError, "model_config must be there"):
            mpls.keras.load_model(weights)

    def test_which_keras(self) -> None:
        path = Artefact("keras_tf.momentum", "tf24.lso2").path
        with self.assertRaisesRegex(ValueError, "must be 'tf_keras' for a SavedModel"):
            mpls.keras.load_model(path, keras="keras")
        with self.assertRaisesRegex(ValueError, "must be 'tf_keras' or 'keras'"):
            mpls.keras.load_model(path, keras="jax")
        import h5py

        unknown = self.folder / "model.h5"
        shutil.copy(Artefact("keras_h5.adam_fixed", "tf215.lso3").path, unknown)
        with h5py.File(unknown, "r+") as file:
            del file.attrs["keras_version"]
        with self.assertRaisesRegex(ValueError, r"model.h5: keras_version must be that of a Keras.*keras='tf_keras'"):
            mpls.keras.load_model(unknown)
        for named in ("tf_keras", tf_keras):
            self.assertEqual(int(mpls.keras.load_model(unknown, keras=named).optimizer.iterations), 5)
