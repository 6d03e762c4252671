"""Models and optimizers of Keras 3 saved and loaded, with mpls and without it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from parameterized import parameterized

import mpls
import mpls.keras
from tests.processes import python_path

Ours: Any = mpls.keras.LossScaleOptimizer
Native: Any = keras.optimizers.LossScaleOptimizer
DYNAMIC = {"initial_scale": 8.0, "dynamic_growth_steps": 2}
FIXED = {"dynamic": False, "initial_scale": 8.0}


def batch(value: float) -> tuple[Any, Any]:
    return np.full((2, 1), value, np.float32), np.zeros((2, 1), np.float32)


def trained_model(wrapper: Any, inner: Any = None, values: Any = (1.0, 1.0, np.inf, 1.0), **settings: Any) -> Any:
    inner = inner or keras.optimizers.SGD(0.0625, momentum=0.5)
    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(wrapper(inner, **(settings or DYNAMIC)), "mean_squared_error")
    for value in values:
        model.train_on_batch(*batch(value))
    return model


def values_of(optimizer: Any) -> list[Any]:
    return [np.asarray(variable.numpy()).tolist() for variable in optimizer.variables]


class SavingTestCase(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def run_without_mpls(self, program: str, *arguments: str) -> str:
        """Run a program that cannot import mpls."""
        blocked = self.folder / "blocked"
        blocked.mkdir()
        (blocked / "mpls.py").write_text("raise ImportError('there is no mpls here')\n")
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": python_path(blocked)},
            timeout=300,
            cwd=blocked,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def assert_trains_on_alike(self, model: Any, loaded: Any) -> None:
        for value in (3.0, np.inf, 2.0, 1.0):
            for each in (model, loaded):
                each.train_on_batch(*batch(value))
            self.assertEqual(values_of(loaded.optimizer), values_of(model.optimizer))
            self.assertEqual([w.tolist() for w in loaded.get_weights()], [w.tolist() for w in model.get_weights()])


class KerasFilesTest(SavingTestCase):
    @parameterized.expand(
        [
            ("dynamic", DYNAMIC, "SGD"),
            ("fixed", FIXED, "SGD"),
            ("adam", DYNAMIC, "Adam"),
        ]
    )
    @pytest.mark.default_run("one case")
    def test_a_saved_model_goes_on_as_if_nothing_had_happened(self, name: str, settings: Any, inner: str) -> None:
        values = (1.0, 1.0, np.inf, 1.0) if settings is DYNAMIC else (1.0, 1.0)
        model = trained_model(Ours, getattr(keras.optimizers, inner)(0.0625), values, **settings)
        model.save(self.path("model.keras"))
        loaded = keras.models.load_model(self.path("model.keras"))
        self.assertIs(type(loaded.optimizer), type(model.optimizer))
        self.assertEqual(loaded.optimizer.get_config(), model.optimizer.get_config())
        self.assertEqual(values_of(loaded.optimizer), values_of(model.optimizer))
        if settings is DYNAMIC:
            self.assertEqual((float(loaded.optimizer.loss_scale), int(loaded.optimizer.dynamic_counter)), (8.0, 1))
            self.assert_trains_on_alike(model, loaded)

    def test_what_keras_itself_wrote_is_read(self) -> None:
        model = trained_model(Native)
        model.save(self.path("model.keras"))
        loaded = keras.models.load_model(self.path("model.keras"))
        self.assertIsInstance(loaded.optimizer, Ours)
        self.assertEqual(values_of(loaded.optimizer), values_of(model.optimizer))
        ours = trained_model(Ours, values=(1.0,))
        ours.load_weights(self.path("model.keras"))
        self.assertEqual([w.tolist() for w in ours.get_weights()], [w.tolist() for w in model.get_weights()])

    PROGRAM = """
import sys
import keras

model = keras.models.load_model(sys.argv[1])
optimizer = model.optimizer
assert type(optimizer) is keras.optimizers.LossScaleOptimizer, type(optimizer)
assert "mpls" not in sys.modules
print([float(optimizer.dynamic_scale), int(optimizer.step_counter), int(optimizer.iterations)])
print([variable.numpy().tolist() for variable in optimizer.variables])
"""

    @pytest.mark.programs
    def test_files_load_where_mpls_is_not(self) -> None:
        model = trained_model(Ours)
        model.save(self.path("model.keras"))
        state, values = self.run_without_mpls(self.PROGRAM, self.path("model.keras")).splitlines()
        self.assertEqual(state, "[8.0, 1, 3]")
        self.assertEqual(values, str(values_of(model.optimizer)))

    def test_the_files_hold_the_same_as_those_of_keras(self) -> None:
        import h5py

        stores = []
        for wrapper in (Ours, Native):
            path = self.path(f"{len(stores)}.weights.h5")
            trained_model(wrapper).save_weights(path)
            with h5py.File(path) as file:
                names: dict[str, Any] = {}
                file.visititems(
                    lambda name, item, names=names: (
                        names.update({name: item[()].tolist()}) if isinstance(item, h5py.Dataset) else None
                    )
                )
            stores.append(names)
        self.assertEqual(*stores)
        self.assertTrue(any("optimizer" in name for name in stores[0]))

    def test_a_model_that_was_never_trained(self) -> None:
        model = trained_model(Ours, values=())
        model.save(self.path("model.keras"))
        with warnings.catch_warnings():
            # Keras says so of every optimizer that was not built: there is nothing to load.
            warnings.filterwarnings("ignore", "Skipping variable loading", UserWarning)
            loaded = keras.models.load_model(self.path("model.keras"))
        self.assertEqual(loaded.optimizer.get_config(), model.optimizer.get_config())
        self.assert_trains_on_alike(model, loaded)


class H5Test(SavingTestCase):
    def test_h5(self) -> None:
        """Keras reads the class from no module there: its own wrapper comes back, which counts as one of ours."""
        model = trained_model(Ours)
        model.save(self.path("model.h5"))
        loaded = keras.models.load_model(self.path("model.h5"))
        self.assertIsInstance(loaded.optimizer, Ours)
        self.assertEqual(loaded.optimizer.get_config(), model.optimizer.get_config())
        self.assertEqual([w.tolist() for w in loaded.get_weights()], [w.tolist() for w in model.get_weights()])


class CheckpointTest(SavingTestCase):
    @parameterized.expand([("ours", Ours, Ours), ("from_native", Native, Ours), ("to_native", Ours, Native)])
    @pytest.mark.default_run("one case")
    def test_object_based_checkpoints(self, name: str, saving: Any, loading: Any) -> None:
        model = trained_model(saving)
        path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(self.path("checkpoint"))
        other = trained_model(loading, values=(2.0,))
        status = tf.train.Checkpoint(model=other, optimizer=other.optimizer).restore(path)
        status.assert_consumed()
        self.assertEqual(values_of(other.optimizer), values_of(model.optimizer))
        self.assert_trains_on_alike(model, other)

    def test_the_keys_are_those_of_the_native_wrapper(self) -> None:
        keys = []
        for wrapper in (Ours, Native):
            path = tf.train.Checkpoint(optimizer=trained_model(wrapper).optimizer).save(self.path("checkpoint"))
            keys.append(sorted(name for name, _ in tf.train.list_variables(path)))
        self.assertEqual(*keys)

    def test_restored_before_it_is_built(self) -> None:
        model = trained_model(Ours)
        path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(self.path("checkpoint"))
        other = trained_model(Ours, values=())
        tf.train.Checkpoint(model=other, optimizer=other.optimizer).restore(path)
        # The wrapper's own variables exist already; those of the wrapped optimizer come with the first step, as Keras
        # creates them.
        self.assertEqual((float(other.optimizer.loss_scale), int(other.optimizer.dynamic_counter)), (8.0, 1))

    def test_weights_of_the_optimizer_alone(self) -> None:
        model, other = trained_model(Ours), trained_model(Ours, values=(2.0,))
        store: dict[str, Any] = {}
        model.optimizer.save_own_variables(store)
        other.optimizer.load_own_variables(store)
        self.assertEqual(values_of(other.optimizer), values_of(model.optimizer))
        unbuilt = Ours(keras.optimizers.SGD(0.0625, momentum=0.5))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            unbuilt.load_own_variables(store)
        self.assertRegex(str(caught[0].message), "Skipping variable loading")
