"""Every recorded run of MixedPrecisionLossScaleOptimizer, replayed."""

from __future__ import annotations

import builtins
import math
import platform
import re
import unittest
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from . import replay
from .v1_replay import DRIVERS, STRATEGY_DRIVERS, make_variables

v1 = tf.compat.v1

CASES = replay.load("B_v1_optimizer")

# The originals ran on x86-64; elsewhere TensorFlow's kernels may round the last bit differently.
IS_RECORDED_MACHINE = platform.machine().lower() in ("x86_64", "amd64")

STEP_MODES = tuple(DRIVERS)
FLOAT32_RECIPROCAL = "gradients were multiplied by a float32 reciprocal, which is an error for any other dtype"
FROZEN_REFERENCE = "control flow v2 passed a reference variable's value to the op that assigns it, which is an error"
LATE_SLOTS = "in eager mode there were no slots before the first step that was applied"

# Where mpls differs on purpose, and how: a word that says which test has what is right.
EXCEPTIONS = (
    replay.Differs("B.gd.fp16_vars", STEP_MODES, "trains", FLOAT32_RECIPROCAL),
    replay.Differs("B.gd.fp64_vars", STEP_MODES, "trains", FLOAT32_RECIPROCAL),
    replay.Differs("B.gd.refvar", ("graph_v2",), "graph", FROZEN_REFERENCE),
    replay.Differs("B.x.momentum.refvar", ("graph_v2",), "graph", FROZEN_REFERENCE),
    replay.Differs("B.x.gd.custom_loss_scale", STEP_MODES, "updates", "update() was called for DynamicLossScale only"),
    replay.Differs("B.momentum.fp16_loss", ("eager",), "function", LATE_SLOTS),
    replay.Differs("B.x.adadelta.dynamic", ("eager",), "function", LATE_SLOTS),
    replay.Differs("B.x.adam.compute_apply", ("eager",), "function", LATE_SLOTS),
    replay.Differs("B.x.rmsprop.embed", ("eager",), "function", LATE_SLOTS),
)

# Where only names differ: Adam's beta powers were named for the conditional that they were created in;
# mpls names them as the originals did where that conditional had no name.
NAMED_FOR_CONDITIONAL = {
    (name, mode): {"graph": "graph_v2", "function": "eager"}[mode]
    for name in ("B.adam.dynamic", "B.adam.embed", "B.x.adam.compute_apply")
    for mode in ("graph", "function")
}

RUNS = replay.runs(CASES)
DIFFERENT = {(row.case, mode): row for row in EXCEPTIONS for mode in row.modes}
STRATEGY = [run for run in RUNS if run[1] in STRATEGY_DRIVERS]
TRACES = [run for run in RUNS if run[1] in DRIVERS and run not in DIFFERENT]


def different(right: str) -> Any:
    return replay.expand([run for run, row in DIFFERENT.items() if row.right == right])


def comparison(rows: list[dict[str, Any]]) -> Callable[..., None]:
    """Return how to compare what the scale has touched.

    A power of two changes no bit, whether gradients are divided by it or multiplied by its reciprocal.
    """
    scales = np.ravel([row["scale"] for row in rows])
    is_exact = IS_RECORDED_MACHINE and np.all(np.frexp(scales)[0] == 0.5)
    return replay.assert_exact if is_exact else replay.assert_close


def assert_rows(rows: list[dict[str, Any]], expected: list[dict[str, Any]], what: str) -> None:
    assert len(rows) == len(expected), what
    compare = comparison(expected)
    for index, (row, want) in enumerate(zip(rows, expected, strict=True)):
        assert set(row) == set(want), f"{what} step {index}: {sorted(row)} is not {sorted(want)}"
        for key in want:
            check = replay.assert_exact if key in ("scale", "good", "gs") else compare
            check(row[key], want[key], f"{what} step {index} {key}")


def without_numbers(names: list[str]) -> list[str]:
    """Drop what TensorFlow appends when one process creates variables of the same name again."""
    return [re.sub(r"(_\d+)?:0$", "", name) for name in names]


class TraceTest(unittest.TestCase):
    @replay.expand(TRACES)
    @pytest.mark.default_run("each value", by=lambda name, mode: (name.split(".")[1], mode))
    def test_mpls_does_what_was_recorded(self, name: str, mode: str) -> None:
        spec, expected = CASES[name]["spec"], replay.recorded(CASES[name], mode)
        if replay.is_error(expected):
            with self.assertRaises(getattr(builtins, expected["error"])):
                DRIVERS[mode](spec)
            return
        trace = DRIVERS[mode](spec)
        assert_rows(trace.rows, expected, f"{name} {mode}")
        self.assert_names(name, mode, trace.names)

    def assert_names(self, name: str, mode: str, names: dict[str, Any]) -> None:
        right_mode = NAMED_FOR_CONDITIONAL.get((name, mode), mode)
        expected = dict(replay.recorded(CASES[name], right_mode, of="metas"))
        # The originals found no slots of what they wrapped, and published an op that no session can run.
        self.assertEqual(expected["slot_names"], [])
        expected["slot_names"] = expected["inner_slot_names"]
        self.assertTrue(all(names.pop("slots_found")))
        if mode in ("graph", "graph_v2"):
            expected["train_op_collection"] = [expected["train_op"][1]]
        else:
            expected["variables"] = without_numbers(expected["variables"])
            names["variables"] = without_numbers(names["variables"])
        self.assertEqual(names, expected)

    @replay.expand(STRATEGY)
    def test_replicas_agree_as_recorded(self, name: str, mode: str) -> None:
        rows = STRATEGY_DRIVERS[mode](CASES[name]["spec"])
        assert_rows(rows, replay.recorded(CASES[name], mode), f"{name} {mode}")


class ExceptionTest(unittest.TestCase):
    @different("trains")
    def test_variables_of_other_dtypes_train(self, name: str, mode: str) -> None:
        spec, reason = CASES[name]["spec"], DIFFERENT[name, mode].reason
        recorded = replay.recorded(CASES[name], mode)
        errors = {entry["error"] for entry in (recorded if isinstance(recorded, list) else [recorded])}
        self.assertLessEqual(errors, {"TypeError", "InvalidArgumentError"}, reason)

        trace = DRIVERS[mode](spec)

        # The same steps on float32 variables say what becomes of the scale; a bare optimizer, of variables.
        float32 = CASES["B.gd.dynamic"]
        self.assertEqual(float32["spec"]["loss_scale"], spec["loss_scale"])
        self.assertEqual(float32["spec"]["steps"][: len(spec["steps"])], spec["steps"])
        decisions = replay.recorded(float32, mode)
        variables = make_variables(spec)
        for index, (row, step) in enumerate(zip(trace.rows, spec["steps"], strict=True)):
            for key in ("scale", "good", "gs"):
                replay.assert_exact(row[key], decisions[index][key], f"{name} {mode} step {index} {key}")
            grads = self.train_without_scaling(spec, variables, replay.numbers(step))
            np.testing.assert_equal(row["grads"], [grad.numpy() for grad in grads])
            np.testing.assert_equal(list(row["vars"].values()), [variable.numpy() for variable in variables])
        dtype = spec["vars"][0]["d"]
        self.assertEqual(trace.names["grads"], [["Tensor", dtype]] * 2)
        self.assertEqual({value.dtype.name for value in trace.rows[-1]["vars"].values()}, {dtype})
        self.assertFalse(np.array_equal(trace.rows[-1]["vars"]["w"], spec["vars"][0]["v"]))

    @staticmethod
    def train_without_scaling(spec: dict[str, Any], variables: list[Any], factors: list[float]) -> list[Any]:
        with tf.GradientTape() as tape:
            loss = replay.loss_of(spec, variables, factors)
        grads = tape.gradient(loss, variables)
        if all(map(math.isfinite, factors)):
            name, arguments = spec["opt"]
            getattr(v1.train, name)(**arguments).apply_gradients(zip(grads, variables, strict=True))
        return grads

    @different("graph")
    def test_reference_variables_train_with_either_control_flow(self, name: str, mode: str) -> None:
        self.assertEqual(replay.recorded(CASES[name], mode), {"error": "TypeError"}, DIFFERENT[name, mode].reason)
        trace = DRIVERS[mode](CASES[name]["spec"])
        assert_rows(trace.rows, replay.recorded(CASES[name], "graph"), f"{name} {mode}")

    @different("updates")
    def test_update_of_a_custom_loss_scale_is_called(self, name: str, mode: str) -> None:
        recorded = replay.recorded(CASES[name], mode)
        self.assertEqual([row["scale"] for row in recorded], [4.0] * 3, DIFFERENT[name, mode].reason)
        expected = [{**row, "scale": scale} for row, scale in zip(recorded, (8.0, 16.0, 32.0), strict=True)]
        assert_rows(DRIVERS[mode](CASES[name]["spec"]).rows, expected, f"{name} {mode}")

    @different("function")
    def test_slots_exist_from_the_first_step_on(self, name: str, mode: str) -> None:
        recorded, expected = replay.recorded(CASES[name], mode), replay.recorded(CASES[name], "function")
        self.assertEqual(recorded[0]["slots"], {}, DIFFERENT[name, mode].reason)
        # But for the slots, the record of both modes is the same.
        late = [{**row, "slots": {}, "extra": {}} if row["gs"] == 0 else row for row in expected]
        self.assertEqual(recorded, late)
        assert_rows(DRIVERS[mode](CASES[name]["spec"]).rows, expected, f"{name} {mode}")
