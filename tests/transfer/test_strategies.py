"""Sources and targets under a strategy, with two replicas."""

from __future__ import annotations

import unittest
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from parameterized import parameterized

import mpls
import mpls.keras
from tests.transfer.training import (
    OPTIMIZERS,
    PAIRS,
    VALUES,
    assert_close,
    assert_go_on,
    gradients,
    like,
    optimizer,
    steps_of,
    take_step,
    train,
    trained_for,
    variables,
)


def two_replicas() -> Any:
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def train_replicas(strategy: Any, optimizer: Any, trained: list[Any], start: int, end: int, *, traced: bool) -> None:
    """Take steps in which each replica has half of the gradient."""

    def step(grads: list[Any]) -> None:
        optimizer.apply_gradients(zip([grad / 2 for grad in grads], trained, strict=True))

    def on_all(grads: list[Any]) -> None:
        strategy.run(step, (grads,))

    run = tf.function(on_all) if traced else on_all
    for number in range(start, end):
        run([tf.constant(grad, tf.float32) for grad in gradients(number, [value.shape for value in VALUES])])


def components(variable: Any) -> list[Any]:
    raw = getattr(variable, "value", variable)
    raw = variable if callable(raw) else raw
    return [each.numpy() for each in getattr(raw, "values", (raw,))]


class MirroredTest(unittest.TestCase):
    @parameterized.expand([(f"{name}_{a}_to_{b}", name, a, b) for name in ("SGD", "Adam") for a, b in PAIRS])
    @pytest.mark.default_run("one case")
    def test_into_replicas(self, label: str, name: str, a: str, b: str) -> None:
        settings = {"momentum": 0.9} if name == "SGD" else {}
        source, trained = trained_for(4, optimizer(a, name, **settings), a)
        strategy = two_replicas()
        with strategy.scope():
            target, others = optimizer(b, name, **settings), like(b, trained)
        report = mpls.convert_state(source, target, others, source_variables=trained)
        self.assertEqual(report.iterations, 4)
        slots = target.weights if b == "legacy" else target.variables
        for slot in slots:
            one, *rest = components(slot)
            for other in rest:
                np.testing.assert_array_equal(one, other)
        train(source, trained, 4, 8)
        train_replicas(strategy, target, others, 4, 8, traced=True)
        assert_close([components(each)[1] for each in others], trained)
        self.assertEqual(steps_of(target), 8)

    @parameterized.expand([(f"{a}_to_{b}", a, b) for a, b in PAIRS])
    @pytest.mark.default_run("one case")
    def test_out_of_replicas(self, label: str, a: str, b: str) -> None:
        strategy = two_replicas()
        with strategy.scope():
            source, trained = optimizer(a, "Adam"), variables(a)
        train_replicas(strategy, source, trained, 0, 4, traced=False)
        control, own = trained_for(4, optimizer(a, "Adam"), a)
        target, others = optimizer(b, "Adam"), variables(b, [components(each)[0] for each in trained])
        mpls.convert_state(source, target, others, source_variables=trained)
        assert_go_on(control, own, target, others, 4, 8)

    @parameterized.expand([(family, family) for family in OPTIMIZERS])
    def test_within_the_scope_with_a_scale(self, label: str, family: str) -> None:
        wrapped = mpls.keras.LossScaleOptimizer(optimizer("legacy", "SGD", momentum=0.9), initial_scale=64.0)
        source, trained = trained_for(4, wrapped, "legacy")
        strategy = two_replicas()
        with strategy.scope():
            inner = optimizer(family, "SGD", momentum=0.9)
            target, others = mpls.keras.LossScaleOptimizer(inner, initial_scale=8.0), like(family, trained)
            report = mpls.convert_state(source, target, others, source_variables=trained)
        self.assertEqual(report.loss_scale, (64.0, 4))
        self.assertEqual((float(target.loss_scale), int(target.dynamic_counter.numpy())), (64.0, 4))
        strategy.run(lambda: take_step(target, others, 4))
        self.assertEqual((float(target.loss_scale), int(target.dynamic_counter.numpy())), (64.0, 5))
        strategy.run(lambda: take_step(target, others, 5, factor=np.inf))
        self.assertEqual((float(target.loss_scale), int(target.dynamic_counter.numpy())), (32.0, 0))
