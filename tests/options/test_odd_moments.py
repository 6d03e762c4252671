"""Options at odd moments: changes that are refused, two graphs, other lists of variables, and numbers of strangers."""

from __future__ import annotations

import pathlib
import tempfile
import unittest
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from parameterized import parameterized

import mpls.contrib
import mpls.keras
import mpls.v1
from mpls.errors import SavedStateError

from .trainers import FAMILIES, RATE

v1 = tf.compat.v1
NAN = float("nan")


def sgd_of(loss_scale: Any, **options: Any) -> Any:
    return mpls.v1.MixedPrecisionLossScaleOptimizer(v1.train.GradientDescentOptimizer(RATE), loss_scale, **options)


class ConfiguringTest(unittest.TestCase):
    @parameterized.expand(
        [(f"{family}_{adjustable}", family, adjustable) for family in FAMILIES for adjustable in (True, False)]
    )
    def test_the_config_after_new_bounds_loads(self, name: str, family: str, adjustable: bool) -> None:
        opt = FAMILIES[family](1024.0, 2, adjustable=adjustable)
        opt.configure(max_scale=16)
        described = opt._loss_scale if family == "v1" else opt
        again = type(described).from_config(described.get_config())
        self.assertEqual(again.get_config(), described.get_config())
        self.assertEqual(again.state_dict()["scale"], 16.0)

    def test_new_graphs_start_between_new_bounds(self) -> None:
        loss_scale = mpls.v1.DynamicLossScale(1024)
        loss_scale.configure(max_scale=16)
        with tf.Graph().as_default(), v1.Session() as session:
            scale = loss_scale()
            session.run(v1.global_variables_initializer())
            self.assertEqual(session.run(scale), 16.0)


class OverflowsTest(unittest.TestCase):
    @parameterized.expand([(True,), (False,)])
    @pytest.mark.default_run("one case")
    def test_two_graphs_have_reports_of_their_own(self, is_final: bool) -> None:
        opt = sgd_of("dynamic", track_overflows=True)
        built = []
        for names in ("a", "bc"):
            with tf.Graph().as_default() as graph:
                weights = [v1.Variable(1.0, use_resource=True, name=name) for name in names]
                op = opt.minimize(sum(weight * NAN for weight in weights), var_list=weights)
                session = v1.Session()
                session.run(v1.global_variables_initializer())
                self.assertEqual(len(v1.global_variables()), len(names) + 8)
                if is_final:
                    graph.finalize()
            built.append((graph, session, op, list(names)))
        for graph, session, op, names in built:
            with graph.as_default():
                session.run(op)
                self.assertEqual([each.variable for each in opt.overflow_report(session)], names)
                session.close()

    @parameterized.expand([(family, later) for family in ("v1", "legacy", "new") for later in (True, False)])
    def test_checkpoints_with_another_list_of_variables(self, family: str, later: bool) -> None:
        def trained(count: int) -> Any:
            opt = FAMILIES[family](8.0, 2, track_overflows=True)
            if count:
                step(opt, count)
            return opt

        def step(opt: Any, count: int) -> None:
            if family == "v1":
                weight = tf.Variable(1.0)
                opt.compute_gradients(lambda: weight * 1.0, [weight])
            else:
                opt.get_unscaled_gradients([opt.get_scaled_loss(tf.constant(1.0))])
            opt.apply_gradients([(tf.constant(NAN), tf.Variable(1.0, name=f"w{place}")) for place in range(count)])

        with tempfile.TemporaryDirectory() as folder:
            path = tf.train.Checkpoint(scale=trained(2)).write(str(pathlib.Path(folder, "checkpoint")))
            opt = trained(0 if later else 1)
            tf.train.Checkpoint(scale=opt).read(path).expect_partial()
            step(opt, 1)
            step(opt, 2)
        report = {(each.variable, each.count) for each in opt.overflow_report()}
        self.assertTrue(report >= {("w0", 2), ("w1", 2)}, report)

    def test_variables_are_variables(self) -> None:
        with tf.Graph().as_default():
            opt = sgd_of("dynamic", track_overflows=True)
            weight = v1.Variable(1.0, use_resource=True)
            opt.minimize(weight * NAN, var_list=[weight])
            names = [variable.op.name for variable in opt.variables()]
            self.assertEqual(len([name for name in names if name.startswith("overflow_")]), 3)
            v1.variables_initializer(opt.variables())


UNUSABLE: list[tuple[str, Any]] = [
    ("growth_factor", 0.5),
    ("backoff_factor", 3.0),
    ("growth_steps", 0),
    ("hysteresis", 0),
    ("min_scale", 2.0**127 * 1.5),
    ("max_scale", 2.0**-3),
    ("min_scale", 2.0**-130),
]


class NumbersTest(unittest.TestCase):
    @parameterized.expand(
        [
            (f"{family}_{name}_{place}", family, name, value)
            for family in FAMILIES
            for place, (name, value) in enumerate(UNUSABLE)
        ]
    )
    @pytest.mark.default_run("each pair", by=lambda case, *values: values)
    def test_dicts_with_settings_that_none_can_have(self, case: str, family: str, name: str, value: Any) -> None:
        opt = FAMILIES[family](8.0, 2, adjustable=True, max_scale=2.0**20)
        before = opt.state_dict()
        with self.assertRaisesRegex(SavedStateError, "must be"):
            opt.load_state_dict({**before, name: value})
        self.assertEqual(opt.state_dict(), before)

    def test_bools_of_numpy_are_no_counts(self) -> None:
        with self.assertRaisesRegex(ValueError, "max_consecutive_skips must be"):
            sgd_of("dynamic", max_consecutive_skips=np.True_)
        with self.assertRaisesRegex(ValueError, "hysteresis must be"):
            mpls.v1.DynamicLossScale(hysteresis=np.True_)  # type: ignore[arg-type]
