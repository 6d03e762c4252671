"""What TensorFlow computes from constants for the shapes in a model: refused before it does, if that is much."""

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
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.keras
from mpls.errors import SavedStateError
from mpls.keras.files import constants
from mpls.keras.files.contents import opened_model
from mpls.keras.files.model_limits import limited
from tests.saved import watching
from tests.saved.fuzz_driver import Lane
from tests.saved.mutations.sources import Sources
from tests.saved.shape_graphs import model_of_a_fixed_shape
from tests.untrusted.models import save

_LITTLE = "the model's config must compute shapes from constants with little work; got"
_SMALL = 8


def _product(x: Any) -> Any:
    return tf.linalg.matmul(tf.ones_like(x), tf.ones_like(x))


def _shaped(numbers: Any) -> Any:
    """Return numbers of a shape that is computed from others."""
    size = tf.cast(tf.reduce_sum(numbers), tf.int32) * 0 + 3
    return tf.reshape(tf.fill(tf.reshape(size, [1]), 1.0), [3, 1])


def _under_a_condition(x: Any) -> Any:
    return tf_keras.layers.Dropout(0.5)(x, training=tf.reduce_sum(_product(x)) > 0)


# Each as `(what a model computes from its input of (3, n, n), a size that takes seconds or gigabytes)`.
_COSTLY: dict[str, tuple[Callable[[Any], Any], int]] = {
    "product": (lambda x: _shaped(_product(x)), 12_000),
    "cumsum": (lambda x: _shaped(tf.cumsum(tf.ones_like(x))), 15_000),
    "sort": (lambda x: _shaped(tf.sort(tf.ones_like(x))), 9_000),
    "where": (lambda x: _shaped(tf.where(tf.ones_like(x) > 0)), 9_000),
    "range": (lambda x: _shaped(tf.range(tf.size(x))), 20_000),
    "svd": (lambda x: _shaped(tf.linalg.svd(tf.ones_like(x), compute_uv=False)), 3_000),
    "condition": (_under_a_condition, 12_000),
}


def _joined(number: int) -> Callable[[Any], Any]:
    def compute(x: Any) -> Any:
        size = tf.shape(x)[:1] * 0 + 1
        for _ in range(number):
            size = tf.concat([size, size], 0)
        return tf.reshape(x, tf.concat([tf.shape(x), size[:1]], 0))

    return compute


def _cast(number: int) -> Callable[[Any], Any]:
    def compute(x: Any) -> Any:
        shape = tf.shape(x)
        for _ in range(number):
            shape = tf.cast(tf.cast(shape, tf.int64), tf.int32)
        return tf.reshape(x, shape)

    return compute


class _Base(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def _saved(self, compute: Callable[[Any], Any], size: int, suffix: str = ".keras") -> str:
        """Save a model that computes something for each of three slices of its input; set their size in the file."""
        inputs = tf_keras.Input(batch_shape=[3, _SMALL, _SMALL])
        inner = tf_keras.Model(inputs, compute(inputs))
        slices = tf_keras.Input(batch_shape=[1, 3, _SMALL, _SMALL])
        path = str(self.folder / f"model{suffix}")
        save(tf_keras.Model(slices, tf_keras.layers.TimeDistributed(inner)(slices)), path)
        if suffix == ".h5":
            with h5py.File(path, "r+") as file:
                file.attrs["model_config"] = _resized(file.attrs["model_config"], size)
        else:
            with zipfile.ZipFile(path) as archive:
                content = {name: archive.read(name) for name in archive.namelist()}
            content["config.json"] = _resized(content["config.json"].decode(), size).encode()
            with zipfile.ZipFile(path, "w") as archive:
                for name, value in content.items():
                    archive.writestr(name, value)
        return path

    def _assert_refused(self, path: str, message: str) -> None:
        with self.assertRaisesRegex(SavedStateError, f"{message}.*safe_mode=False") as caught:
            mpls.keras.load_model(path)
        self.assertIn(path, str(caught.exception))


def _resized(config: str, size: int) -> str:
    def without_builds(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without_builds(each) for key, each in value.items() if key != "build_config"}
        return [without_builds(each) for each in value] if isinstance(value, list) else value

    text = json.dumps(without_builds(json.loads(config)))
    return text.replace(f"{_SMALL}, {_SMALL}]", f"{size}, {size}]")


class ConstantsTest(_Base):
    @parameterized.expand([(name, suffix) for name in _COSTLY for suffix in (".keras", ".h5")])
    @pytest.mark.default_run("one case")
    def test_much_work(self, name: str, suffix: str) -> None:
        self._assert_refused(self._saved(*_COSTLY[name], suffix), _LITTLE)

    @parameterized.expand(["product", "cumsum", "range", "svd", "condition"])
    def test_little_work(self, name: str) -> None:
        mpls.keras.load_model(self._saved(_COSTLY[name][0], 32))

    @pytest.mark.matrix
    def test_little_work_many_times(self) -> None:
        """The limit is of all that a model computes."""
        path = self._saved(lambda x: tf.add_n([_shaped(_product(x)) for _ in range(10)]), 64)
        mpls.keras.load_model(path)
        with (
            mock.patch.object(constants, "_WORK", 3 * 10**6),
            mock.patch("mpls.keras.files.model_limits._WORK_OF_A_LAYER", 0),
        ):
            self._assert_refused(path, _LITTLE)

    def test_what_is_no_shape(self) -> None:
        mpls.keras.load_model(self._saved(lambda x: tf.matmul(x, tf.cumsum(_product(x))), 12_000))

    def test_sizes_that_are_put_together(self) -> None:
        mpls.keras.load_model(self._saved(_joined(5), _SMALL))
        message = r"the model's config must describe tensors of at most 254 dimensions; got 'one of [0-9]+'"
        self._assert_refused(self._saved(_joined(16), _SMALL), message)

    def test_sizes_that_are_cast(self) -> None:
        mpls.keras.load_model(self._saved(_cast(20), _SMALL))
        with mock.patch.object(constants, "_DEPTH", 30):
            self._assert_refused(
                self._saved(_cast(20), _SMALL), "must put few sizes together to a shape; got 'parts of parts"
            )

    def test_values_that_tensorflow_computes_in_python(self) -> None:
        with opened_model(self._saved(_joined(1), _SMALL)) as file, tf.Graph().as_default():
            numbers = tf.fill([1000, 1000], 1.0)
            with limited(file, with_own=False):
                self.assertEqual(tf.get_static_value(numbers).shape, (1000, 1000))
            with self.assertRaisesRegex(SavedStateError, _LITTLE), limited(file, with_own=False):
                tf.get_static_value(tf.fill([100_000, 100_000], 1.0))
            with self.assertRaisesRegex(SavedStateError, _LITTLE), limited(file, with_own=False):
                tf.get_static_value(tf.range(10**9))


class CostsTest(_Base):
    """Measured from outside, in a process that is killed if it takes too long."""

    @unittest.skipUnless(watching.IS_SUPPORTED, watching.WHY_NOT)
    @pytest.mark.matrix
    def test_in_seconds_and_megabytes(self) -> None:
        base = self.folder.resolve()
        lane = Lane(base, Sources([]), few=True, limits={})
        self.addCleanup(lane.close)
        self.folder = base / "case"
        self.folder.mkdir()
        lane.request("load_model", self._saved(*_COSTLY["product"]))
        causes = [cause for failure in lane.results.failures for cause in failure.causes]
        self.assertEqual([cause for cause in causes if cause.startswith(("too", "killed", "crashed"))], [])


class HonestTest(_Base):
    """Models of fixed shapes, in which masks, positions and states are constants."""

    @parameterized.expand([".keras", ".h5"])
    @pytest.mark.default_run("one case")
    def test_of_tf_keras(self, suffix: str) -> None:
        self._assert_loaded(model_of_a_fixed_shape(), suffix)

    def test_of_keras_3(self) -> None:
        inputs = keras.Input([512, 16], batch_size=2)
        x = keras.layers.MultiHeadAttention(2, 8)(inputs, inputs, use_causal_mask=True)
        x = keras.layers.LSTM(8, return_sequences=True)(keras.layers.Masking()(x))
        x = x * keras.ops.cumsum(keras.ops.ones_like(x), axis=1)
        self._assert_loaded(keras.Model(inputs, keras.layers.Flatten()(x)), ".keras")

    def _assert_loaded(self, model: Any, suffix: str) -> None:
        path = str(self.folder / f"model{suffix}")
        save(model, path)
        # A tenth of the limit.
        with mock.patch.object(constants, "_WORK", constants._WORK // 10):
            self.assertEqual(mpls.keras.load_model(path).output_shape, model.output_shape)
