"""The hook reads what the graph's optimizer has, in monitored sessions, whose graphs are finalized."""

from __future__ import annotations

import functools
import json
import tempfile
import unittest
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

from mpls.monitor import LossScaleHook
from tests.folders import InFolder
from tests.options.trainers import FAMILIES, contrib

from .events import scalars

v1 = tf.compat.v1


def _native() -> Any:
    inner = v1.train.GradientDescentOptimizer(0.25)
    return v1.mixed_precision.MixedPrecisionLossScaleOptimizer(inner, v1.mixed_precision.DynamicLossScale(16, 3))


OURS: dict[str, Callable[..., Any]] = {
    "v1": functools.partial(FAMILIES["v1"], 16, 3),
    "contrib": functools.partial(contrib, 16, 3),
    "legacy": functools.partial(FAMILIES["legacy"], 16, 3),
}
SESSIONS: dict[str, Callable[..., Any]] = {
    "training": lambda folder, hook: v1.train.MonitoredTrainingSession(checkpoint_dir=folder, hooks=[hook]),
    "monitored": lambda folder, hook: v1.train.MonitoredSession(hooks=[hook]),
    "singular": lambda folder, hook: v1.train.SingularMonitoredSession(hooks=[hook]),
}


def train(hook_of: Callable[[Any], Any], opt: Any, gradients: list[float], kind: str = "training") -> Any:
    """Take a step for each gradient in the current graph; return the hook."""
    step = v1.train.get_or_create_global_step()
    weight, gradient = v1.Variable(1.0, use_resource=True), v1.placeholder(tf.float32, [])
    if isinstance(opt, tf_keras.optimizers.legacy.Optimizer):
        grads = opt.get_unscaled_gradients([opt.get_scaled_loss(gradient)])
        train_op = tf.group(opt.apply_gradients([(grads[0], weight)]), step.assign_add(1))
    else:
        train_op = opt.minimize(weight * gradient, step, var_list=[weight])
    hook = hook_of(opt)
    with tempfile.TemporaryDirectory() as folder, SESSIONS[kind](folder, hook) as session:
        for each in gradients:
            session.run(train_op, {gradient: each})
    return hook


class HookTest(InFolder, unittest.TestCase):
    def setUp(self) -> None:
        graph = tf.Graph().as_default()
        graph.__enter__()
        self.addCleanup(graph.__exit__, None, None, None)

    @parameterized.expand([(f"{family}_{kind}", family, kind) for family in OURS for kind in SESSIONS])
    @pytest.mark.default_run("one case", by=lambda name, family, kind: (family, kind))
    def test_history(self, name: str, family: str, kind: str) -> None:
        steps = [1.0, 1.0, 1.0, float("inf"), float("inf")]
        hook = train(lambda opt: LossScaleHook(opt, every=2), OURS[family](count_steps=True), steps, kind)
        scales = [reading["loss_scale"] for reading in hook.history]
        counts = [tuple(reading.values())[2:] for reading in hook.history]
        # After 2 and 4 runs, and at the end.
        self.assertEqual(scales, [16.0, 16.0, 8.0])
        self.assertEqual(counts, [(2, 0, 0), (3, 1, 1), (3, 2, 2)])
        # The global step of TF 1 counts applied steps.
        steps_seen = [2, 4, 5] if family == "legacy" else [2, 3, 3]
        self.assertEqual([reading["step"] for reading in hook.history], steps_seen)

    def test_the_wrapper_of_tensorflow_and_one_that_counts_nothing(self) -> None:
        for make in (_native, OURS["v1"]):
            with tf.Graph().as_default():
                hook = train(lambda opt: LossScaleHook(opt, every=4), make(), [1.0, 1.0, 1.0, 1.0])
                self.assertEqual(hook.history, [{"step": 4, "loss_scale": 32.0}])

    def test_summaries_the_loss_and_the_file(self) -> None:
        opt, gradient = OURS["v1"](count_steps=True), v1.placeholder(tf.float32, [])
        train_op = opt.minimize(v1.Variable(1.0, use_resource=True) * gradient, v1.train.get_or_create_global_step())
        hook = LossScaleHook(opt, every=2, loss=2 * gradient, summary_dir=self.folder / "logs")
        with v1.train.MonitoredSession(hooks=[hook]) as session:
            for each in (1.0, 2.0, 1.0, float("inf"), 1.0):
                session.run(train_op, {gradient: each})
        hook.save(self.folder / "history.json")
        saved = json.loads((self.folder / "history.json").read_text())
        found = scalars(self.folder)
        self.assertEqual([each.get("loss") for each in hook.history], [4.0, float("inf"), None])
        self.assertEqual([each.get("loss", 0) for each in saved], [4.0, None, 0])
        self.assertEqual([{**each, "loss": 0} for each in saved], [{**each, "loss": 0} for each in hook.history])
        self.assertEqual(found["loss_scale"], [(2, 16.0), (3, 16.0), (4, 16.0)])
        self.assertEqual(found["loss_scale/skipped_steps"], [(2, 0), (3, 1), (4, 1)])
        self.assertEqual(found["loss"], [(2, 4.0), (3, float("inf"))])

    @parameterized.expand(OURS)
    @pytest.mark.default_run("one case")
    def test_giving_up(self, family: str) -> None:
        seen: list[Any] = []
        opt = OURS[family](max_consecutive_skips=2, on_give_up=seen.append)
        train(lambda opt: LossScaleHook(opt, every=1), opt, [float("inf")] * 3)
        self.assertEqual([stuck.consecutive_skips for stuck in seen], [3])


class RefusedTest(unittest.TestCase):
    def test_an_optimizer_that_scales_nothing(self) -> None:
        text = r"LossScaleHook: optimizer must scale the loss; got .* LossScaleHook\(mpls\.v1.*mpls docs monitoring"
        for opt in (v1.train.GradientDescentOptimizer(0.25), None, "adam"):
            with self.assertRaisesRegex(TypeError, text):
                LossScaleHook(opt)

    def test_arguments(self) -> None:
        with self.assertRaisesRegex(ValueError, "LossScaleHook: every must be a whole number of at least 1"):
            LossScaleHook(OURS["v1"](), every=0)
        with self.assertRaisesRegex(TypeError, "LossScaleHook: messages must be a bool"):
            LossScaleHook(OURS["v1"](), messages="yes")  # type: ignore[arg-type]
