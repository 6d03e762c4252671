"""Models and optimizers of Keras 3 saved and loaded, with mpls and without it."""

from __future__ import annotations

import pathlib
import tempfile
import unittest
import warnings
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import mpls
import mpls.keras

Ours: Any = mpls.keras.LossScaleOptimizer
Native: Any = keras.optimizers.LossScaleOptimizer
DYNAMIC = {"initial_scale": 8.0, "dynamic_growth_steps": 2}


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


class KerasFilesTest(SavingTestCase):
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


class CheckpointTest(SavingTestCase):
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
