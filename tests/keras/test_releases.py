"""Experimental wrappers as of a release, beside what that release did; and what holds by default."""

from __future__ import annotations

import json
import math
import pathlib
import types
from typing import Any

import keras
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.experimental
import mpls.keras
from mpls.core import releases
from tests.core.behavior import ReleaseTest
from tests.keras import release_traces as traces
from tests.keras.families import OPTIMIZERS

HERE = pathlib.Path(__file__).parent


RELEASES = ("2.1", "2.2", "2.3", "2.4", "2.8")
NATIVE = tf.compat.v1.mixed_precision.experimental


def recorded(release: str) -> dict[str, Any]:
    return json.loads((HERE / "data" / f"releases_tf{release.replace('.', '')}.json").read_text())


def agree(one: Any, other: Any, tolerance: float = 1e-6) -> bool:
    """Return whether two traces are the same: floats to a tolerance, all else exactly."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(agree(*pair, tolerance) for pair in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(agree(one[key], other[key], tolerance) for key in one)
    if isinstance(one, float) and isinstance(other, float):
        is_close = math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance / 4)
        return is_close or (math.isnan(one) and math.isnan(other))
    return type(one) is type(other) and one == other


# Adam's bias correction is computed by powers in float32, in another order in the newer optimizers.
TOLERANCES = {"legacy": 1e-6, "new": 5e-6, "keras3": 5e-6}


class _Comparing(ReleaseTest):
    def assert_agree(self, one: Any, other: Any, family: str = "legacy") -> None:
        self.assertTrue(agree(one, other, TOLERANCES[family]), f"\n{one}\n{other}")


CASES = [
    (f"{release}_{family}_{name}_{index}", release, family, name, value, expected)
    for release in RELEASES
    for family in OPTIMIZERS
    for index, (name, value, expected) in enumerate(recorded(release)["traces"])
    # Fixed scales ruin the weights; with Adam they say no more than with SGD. So do classes with SGD.
    if not (name == "Adam" and value in (128, 0.5)) and not (name == "SGD" and value == [8.0, 2, 2.0])
]


class RecordedTest(_Comparing):
    @parameterized.expand(CASES)
    @pytest.mark.default_run(
        "each value", by=lambda case, release, family, name, value, expected: (release, family, name)
    )
    def test_trace(self, case: str, release: str, family: str, name: str, value: Any, expected: Any) -> None:
        self.use(release)
        seen = traces.trace(mpls.experimental, OPTIMIZERS[family], name, value)
        self.assert_agree(seen, self._today(expected, family, value), family)

    def _today(self, expected: Any, family: str, value: Any) -> Any:
        if "config" not in expected:
            return expected
        keys, inner, settings = expected["config"]
        if family == "keras3" and "loss_scale" not in keys:
            # Keras reads it so.
            keys = [key for key in [*keys, "name"] if key != "dynamic" or not settings["dynamic"]]
            settings = {key: each for key, each in settings.items() if key in keys}
        again = expected["again"]
        # The original refused its own config.
        again = [expected["class"], True, 0.5] if value == 0.5 else again
        return {**expected, "config": [sorted(keys), inner, settings], "again": again}

    @parameterized.expand([(f"{r}_{f}", r, f) for r in RELEASES for f in OPTIMIZERS])
    def test_replaced_loss_scale(self, case: str, release: str, family: str) -> None:
        self.use(release)
        for name, expected in recorded(release)["replaced"]:
            seen = traces.replaced(mpls.experimental, OPTIMIZERS[family], name)
            self.assert_agree(seen, expected, family)

    @parameterized.expand([(f"{r}_{o}", r, o) for r in ("2.2", "2.3") for o in traces.OPTIMIZERS])
    def test_loss_scales_of_tensorflow_itself(self, case: str, release: str, name: str) -> None:
        self.use(release)
        api = types.SimpleNamespace(
            LossScaleOptimizer=mpls.experimental.LossScaleOptimizer,
            LossScale=NATIVE.LossScale,
            DynamicLossScale=NATIVE.DynamicLossScale,
        )
        for value in ([16.0, 1, 4.0], "own", "own dynamic"):
            (expected,) = [row[2] for row in recorded(release)["traces"] if row[:2] == [name, value]]
            self.assert_agree(traces.trace(api, OPTIMIZERS["legacy"], name, value), expected)

    @parameterized.expand(RELEASES)
    def test_names_and_refusals(self, release: str) -> None:
        self.use(release)
        optimizer = mpls.experimental.LossScaleOptimizer(OPTIMIZERS["legacy"].SGD(), 8)
        self.assertEqual(type(optimizer).__name__, recorded(release)["class"])
        self.assertEqual(traces.refused(mpls.experimental), recorded(release)["refused"])

    @parameterized.expand([(r, value) for r in RELEASES for value in traces.SECOND])
    def test_second_argument(self, release: str, value: Any) -> None:
        self.use(release)
        (expected,) = [row[1] for row in recorded(release)["second"] if agree(row[0], value)]
        self.assert_agree(traces.second_argument(mpls.experimental, OPTIMIZERS["legacy"], value), expected)


class SecondArgumentTest(_Comparing):
    @parameterized.expand(
        [
            # What the wrapped optimizer's apply_gradients gets, and the names of keyword arguments.
            ("legacy", None, "nothing", "not given", []),
            ("legacy", None, 1.0, 1.0, []),
            ("legacy", None, "text", "not given", ["name"]),
            ("legacy", "2.10", 1.0, "not given", ["name"]),
            ("legacy", "2.15", "text", "not given", ["name"]),
            ("legacy", "2.10", None, "not given", []),
            ("legacy", "2.9", 1.0, 1.0, []),
            ("new", None, 1.0, 1.0, ["skip_gradients_aggregation"]),
            ("new", "2.3", 1.0, 1.0, ["skip_gradients_aggregation"]),
            ("new", None, True, "not given", ["skip_gradients_aggregation"]),
            ("new", "2.10", 1.0, "not given", ["skip_gradients_aggregation"]),
        ]
    )
    def test_tf_keras(self, family: str, release: str | None, value: Any, got: Any, names: list[str]) -> None:
        self.use(release)
        self.assert_agree(traces.second_argument(mpls.experimental, OPTIMIZERS[family], value), [[got, names]])

    def test_keras_3_without_such_an_argument(self) -> None:
        optimizer = mpls.keras.LossScaleOptimizer(keras.optimizers.SGD(0.5), initial_scale=8.0)
        variable = keras.Variable([1.0, 2.0])
        with self.assertRaisesRegex(TypeError, r"must be a bool, since apply_gradients of SGD takes nothing"):
            traces.step(optimizer, variable.value, 1.0, 1.0)
        self.assertEqual((int(optimizer.iterations), variable.numpy().tolist()), (0, [1.0, 2.0]))


class DefaultTest(_Comparing):
    """What the releases differ in, without as_of."""

    def test_a_wrapper_keeps_the_behaviour_that_it_was_made_with(self) -> None:
        self.use("2.2")
        optimizer = mpls.experimental.LossScaleOptimizer(tf_keras.optimizers.legacy.SGD(0.5), "dynamic")
        releases.use(releases.ReleaseBehavior())
        traces.step(optimizer, tf.Variable([1.0, 2.0]), traces.INF)
        self.assertEqual((int(optimizer.iterations), float(optimizer.loss_scale())), (0, 2.0**14))
