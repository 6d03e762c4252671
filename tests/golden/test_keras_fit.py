"""Recorded `compile` and `fit` runs under `mixed_float16`: state after every batch exactly, history and weights."""

from __future__ import annotations

import contextlib
import unittest
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.keras
from tests.keras.families import global_policy

from . import replay
from .keras_replay import OURS, Subject

CASES = replay.load("C_fit")
# The reciprocal of a scale of 2**127 or more is denormal and flushed to zero: nothing was trained; mpls divides.
TOO_BIG = "C.x.fit.sgd_float32_big"


def build_model(framework: Any, spec: dict[str, Any]) -> Any:
    layers = framework.layers
    hidden = inputs = layers.Input((len(spec["x"][0]),))
    *_, (_, last_activation, _) = spec["layers"]
    for index, (units, activation, extra) in enumerate(spec["layers"]):
        is_last = index == len(spec["layers"]) - 1
        regularizer = framework.regularizers.L2(extra["l2"]) if "l2" in extra else None
        dense = layers.Dense(units, None if is_last else activation, kernel_regularizer=regularizer, name=f"d{index}")
        hidden = dense(hidden)
        if spec.get("activity") and index == 0:
            hidden = layers.ActivityRegularization(l2=spec["activity"])(hidden)
    model = framework.Model(inputs, layers.Activation(last_activation or "linear", dtype="float32")(hidden))
    if "add_loss" in spec:
        kernel = model.get_layer("d0").kernel
        model.add_loss(lambda: spec["add_loss"] * tf.reduce_sum(tf.cast(kernel, tf.float32) ** 2))
    model.set_weights(arrays(spec["w"]))
    return model


def arrays(nested: Any) -> list[np.ndarray]:
    return [np.array(value, np.float32) for value in replay.numbers(nested)]


def wrapped(subject: Subject, spec: dict[str, Any]) -> Any:
    inner, loss_scale = subject.inner(*spec["opt"]), spec["loss_scale"]
    if "auto" in loss_scale:
        # The compile() of tf_keras wraps it, in tf_keras' own class.
        return inner if subject.framework is tf_keras else subject.wrap(inner, {"default": 1})
    if "policy" in loss_scale:
        # The experimental policy made compile() wrap the optimizer with the loss scale that it carried.
        carried = loss_scale["policy"]
        loss_scale = {"default": 1} if carried == "dynamic" else {"fixed": carried}
    return subject.wrap(inner, loss_scale)


def fit(case_id: str, subject: Subject, is_scaled: bool = True) -> tuple[dict[str, Any], Any]:
    """Train as the case says, or without a loss scale; return what the case recorded, and the model."""
    framework, spec = subject.framework, CASES[case_id]["spec"]
    with contextlib.ExitStack() as stack:
        stack.enter_context(global_policy(framework, spec.get("policy", "mixed_float16")))
        if spec.get("strategy"):
            stack.enter_context(replay.two_replicas().scope())
        model = build_model(framework, spec)
        settings = {"jit_compile": spec["jit"]} if "jit" in spec else {}
        metrics = spec.get("metrics", [])
        optimizer = wrapped(subject, spec) if is_scaled else subject.inner(*spec["opt"])
        model.compile(optimizer, spec["loss"], metrics=metrics, run_eagerly=spec.get("eager", False), **settings)
    batches: list[Any] = []

    def note(batch: int, logs: Any) -> None:
        if hasattr(model.optimizer, "inner_optimizer"):
            batches.append([*subject.state(model.optimizer), model.optimizer.iterations.numpy()])

    weights = spec.get("class_weight")
    history = model.fit(
        *arrays([spec["x"], spec["y"]]),
        batch_size=spec["batch"],
        epochs=spec["epochs"],
        shuffle=False,
        verbose=0,
        callbacks=[framework.callbacks.LambdaCallback(on_train_batch_end=note)],
        class_weight=None if weights is None else {int(label): weight for label, weight in weights.items()},
        sample_weight=None if "sample_weight" not in spec else np.array(spec["sample_weight"], np.float32),
    )
    return {"history": history.history, "batches": batches, "weights": model.get_weights()}, model


def assert_fit(result: dict[str, Any], expected: dict[str, Any]) -> None:
    """Require a result of `fit` to be as recorded."""
    replay.assert_exact(result["batches"], expected["batches"], "batches")
    assert set(result["history"]) == set(expected["history"])
    for name, values in expected["history"].items():
        assert_near(result["history"][name], values, name)
    for index, (weight, want) in enumerate(zip(result["weights"], expected["weights"], strict=True)):
        assert_near(weight, want, f"weight {index}")


def assert_near(actual: Any, expected: Any, what: str) -> None:
    # float16 matrix products may be summed in another order.
    expected = np.array(replay.numbers(expected), np.float32)
    np.testing.assert_allclose(np.array(actual, np.float32), expected, rtol=5e-3, atol=1e-3, err_msg=what)


def replays(subjects: tuple[Subject, ...]) -> list[tuple[str, Subject]]:
    return [
        (case_id, subject)
        for case_id, case in CASES.items()
        for subject in subjects
        if replay.recorded_as(case, subject.release) is not None and case_id != TOO_BIG
    ]


# In the matrix, and one of the others.
FEW = ("C.fit.jit_bad_batch", "C.fit.strategy_bad_batch", "C.fit.policy_dynamic", "C.fit.fixed_bad_batch")


class RecordedFitTest(unittest.TestCase):
    @parameterized.expand(replays(OURS), name_func=replay.named)
    @pytest.mark.default_run("one case", by=lambda case_id, subject: (case_id if case_id in FEW else "", subject.name))
    def test_it_trains_as_recorded(self, case_id: str, subject: Subject) -> None:
        result, model = fit(case_id, subject)
        assert_fit(result, replay.recorded_as(CASES[case_id], subject.release))
        assert isinstance(model.optimizer, mpls.keras.LossScaleOptimizer)
        assert not isinstance(model.optimizer.inner_optimizer, mpls.keras.LossScaleOptimizer)
