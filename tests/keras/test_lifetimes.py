"""What users drop goes away: graphs, and steps that are never finished."""

from __future__ import annotations

import gc
import unittest
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from parameterized import parameterized

import mpls.v1

v1 = tf.compat.v1


def is_gone(reference: Callable[[], Any]) -> bool:
    for _ in range(3):
        if reference() is not None:
            gc.collect()
    return reference() is None


def graph_of_a_step(scale: Any, *, runs: bool) -> Any:
    """Return a weak reference to a graph in which an optimizer has used a loss scale."""
    with tf.Graph().as_default() as graph:
        variable = v1.get_variable("variable", initializer=1.0, use_resource=True)
        opt = mpls.v1.MixedPrecisionLossScaleOptimizer(v1.train.MomentumOptimizer(0.5, 0.5), scale)
        train_op = opt.minimize(variable * variable)
        if runs:
            with v1.Session() as session:
                session.run(v1.global_variables_initializer())
                session.run(train_op)
        return weakref.ref(graph)


class GraphsTest(unittest.TestCase):
    """A loss scale that several graphs share outlives them."""

    @parameterized.expand([("built", False), ("run", True)])
    @pytest.mark.default_run("one case")
    def test_a_shared_loss_scale_keeps_no_graph(self, name: str, runs: bool) -> None:
        scale = mpls.v1.DynamicLossScale(8.0)
        self.assertTrue(bool(scale.update([tf.constant(1.0)])[1]))
        graphs = [graph_of_a_step(scale, runs=runs) for _ in range(3)]
        self.assertTrue(all(map(is_gone, graphs)))
        self.assertEqual({name for name, _ in scale._weights}, {"current_loss_scale", "good_steps"})
        self.assertEqual(len(scale._weights), 2)
        self.assertEqual(int(scale._num_good_steps), 1)
