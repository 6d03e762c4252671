"""A model file is opened once: what was looked at is what is loaded, whatever happens at its path meanwhile."""

from __future__ import annotations

import io
import os
import pathlib
import unittest
import zipfile
from collections.abc import Callable
from typing import Any
from unittest import mock

import h5py
import numpy as np
import pytest
from parameterized import parameterized

import mpls.keras
from mpls.errors import SavedStateError
from mpls.keras.files import loading
from mpls.saved.model_files import H5Model, KerasArchive, ModelFile
from tests.folders import InFolder
from tests.keras.families import FRAMEWORKS, OPTIMIZERS

CASES = [(f"{family}{suffix}", family, suffix) for family in OPTIMIZERS for suffix in (".keras", ".h5")]


def write(family: str, path: pathlib.Path, weight: float, steps: int) -> None:
    framework = FRAMEWORKS[family]
    layer = framework.layers.Dense(2, kernel_initializer=framework.initializers.Constant(weight))
    model = framework.Sequential([framework.layers.Input([3]), layer])
    # A rate of 0 leaves the weights as they are, not the momentum.
    inner = OPTIMIZERS[family].SGD(0.0, 0.5)
    optimizer = mpls.keras.LossScaleOptimizer(inner, initial_scale=8, dynamic_growth_steps=100)
    model.compile(optimizer, framework.losses.MeanSquaredError())
    for _ in range(steps):
        model.train_on_batch(np.ones([1, 3], np.float32), np.zeros([1, 2], np.float32))
    mpls.keras.save_model(model, str(path))


def state_of_model(model: Any) -> tuple[float, int, int, float]:
    optimizer = model.optimizer
    inner = optimizer.inner_optimizer
    slots = [np.asarray(each) for each in (inner.variables() if callable(inner.variables) else inner.variables)]
    momentum = next(each for each in slots if each.shape == (3, 2))
    counts = int(optimizer.iterations), int(optimizer.dynamic_counter)
    return float(model.get_weights()[0][0, 0]), *counts, float(momentum[0, 0])


class OneOpeningTest(InFolder, unittest.TestCase):
    def load_while(self, path: pathlib.Path, action: Callable[[], Any]) -> Any:
        """Load a file, and act when it has been looked at, just before the framework loads it."""
        cls: type[ModelFile] = KerasArchive if path.suffix == ".keras" else H5Model
        record = cls.record

        def record_and_act(file: ModelFile) -> Any:
            found = record(file)
            action()
            return found

        with mock.patch.object(cls, "record", record_and_act):
            return mpls.keras.load_model(path)

    def files(self, family: str, suffix: str) -> tuple[pathlib.Path, pathlib.Path]:
        first, second = self.folder / f"first{suffix}", self.folder / f"second{suffix}"
        write(family, first, 1.0, 1)
        write(family, second, 2.0, 3)
        return first, second

    @parameterized.expand(CASES)
    @pytest.mark.default_run("one case", by=lambda name, family, suffix: (family, suffix))
    def test_a_file_that_is_replaced_is_loaded_as_it_was(self, name: str, family: str, suffix: str) -> None:
        first, second = self.files(family, suffix)
        expected = state_of_model(mpls.keras.load_model(first))
        self.assertEqual(expected[:3], (1.0, 1, 1))
        self.assertEqual(state_of_model(self.load_while(first, lambda: os.replace(second, first))), expected)
        self.assertEqual(state_of_model(mpls.keras.load_model(first))[:3], (2.0, 3, 3))

    @parameterized.expand(CASES)
    @pytest.mark.default_run("one case", by=lambda name, family, suffix: (family, suffix))
    def test_a_file_that_is_written_is_refused(self, name: str, family: str, suffix: str) -> None:
        first, second = self.files(family, suffix)
        os.utime(first, (0, 0))
        with self.assertRaisesRegex(SavedStateError, "must stay as it is while it is loaded|that (tf_)?keras can load"):
            self.load_while(first, lambda: first.write_bytes(second.read_bytes()))

    def test_where_open_files_have_no_paths_one_that_is_replaced_is_refused(self) -> None:
        first, second = self.files("keras3", ".keras")
        with mock.patch.object(loading, "_OPEN_FILES", str(self.folder / "none")):
            self.assertEqual(state_of_model(mpls.keras.load_model(first))[:3], (1.0, 1, 1))
            with self.assertRaisesRegex(SavedStateError, "must stay as it is while it is loaded; got 'another one"):
                self.load_while(first, lambda: os.replace(second, first))

    def test_slots_that_only_the_wrapper_has_are_read(self) -> None:
        path = self.folder / "model.keras"
        write("new", path, 1.0, 1)
        expected = state_of_model(mpls.keras.load_model(path))
        with zipfile.ZipFile(path) as archive:
            members = {each: archive.read(each) for each in archive.namelist()}
        stream = io.BytesIO(members["model.weights.h5"])
        with h5py.File(stream, "a") as weights:
            del weights["optimizer/inner_optimizer"]
        members["model.weights.h5"] = stream.getvalue()
        with zipfile.ZipFile(path, "w") as archive:
            for key, value in members.items():
                archive.writestr(key, value)
        self.assertEqual(state_of_model(mpls.keras.load_model(path)), expected)
