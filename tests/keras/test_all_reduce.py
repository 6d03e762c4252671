"""Classes that all-reduce libraries make of an optimizer's own, of each form that they have had, around and within."""

from __future__ import annotations

import unittest
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.experimental
from tests.core.behavior import behaving_as
from tests.documented.families import STEPS
from tests.keras.families import OPTIMIZERS

RELEASES = ("2.2", "2.3", "2.4", None)
# What the class of the library does with the gradients of this process.
BARE, PAIRS, COMPUTING = "bare", "pairs", "computing"
INF = float("inf")


def average(grads: Any) -> list[Any]:
    """Average with a second worker, whose gradients are three times those of this one."""
    return [None if grad is None else (grad + grad * 3.0) / 2.0 for grad in grads]


def distributed(optimizer: Any, form: str, base: Any) -> Any:
    """Return an optimizer of a class that is made at run time, from the config, as all-reduce libraries do it."""
    returns_pairs = form == PAIRS

    class Reducing(base):  # type: ignore[misc]
        _HAS_AGGREGATE_GRAD = True

        def __init__(self, **kwargs: Any) -> None:
            # Before the constructor, as they do.
            self._name = f"Distributed{self.__class__.__base__.__name__}"
            self._was_reduced = False
            super(self.__class__, self).__init__(**kwargs)

        def _reduce(self, grads: Any) -> Any:
            self._was_reduced = True
            return average(grads)

        def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
            result = super(self.__class__, self).apply_gradients(*args, **kwargs)
            if not self._was_reduced and form != COMPUTING:
                raise RuntimeError("apply_gradients without _aggregate_gradients")
            return result

        if form == COMPUTING:

            def _compute_gradients(self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None) -> Any:
                pairs = super(self.__class__, self)._compute_gradients(loss, var_list, grad_loss, tape=tape)
                grads, variables = zip(*pairs, strict=True)
                return list(zip(self._reduce(grads), variables, strict=True))

            def compute_gradients(self, loss: Any, var_list: Any, tape: Any = None) -> Any:
                pairs = super(self.__class__, self).compute_gradients(loss, var_list, tape=tape)
                grads, variables = zip(*pairs, strict=True)
                return list(zip(self._reduce(grads), variables, strict=True))

            def _aggregate_gradients(self, grads_and_vars: Any) -> Any:
                return super(self.__class__, self)._aggregate_gradients(grads_and_vars)
        else:

            def _aggregate_gradients(self, grads_and_vars: Any) -> Any:
                grads, variables = zip(*grads_and_vars, strict=True)
                reduced = self._reduce(grads)
                return list(zip(reduced, variables, strict=True)) if returns_pairs else tuple(reduced)

    namespace = dict(vars(Reducing))
    cls = type(optimizer.__class__.__name__, (optimizer.__class__,), namespace)
    return cls.from_config(optimizer.get_config())


def wrapped(family: str, form: str, place: str) -> Any:
    inner = OPTIMIZERS[family].SGD(0.25)
    loss_scale = mpls.experimental.DynamicLossScale(8.0, 2)
    base = OPTIMIZERS[family].Optimizer
    if place == "within":
        return mpls.experimental.LossScaleOptimizer(distributed(inner, form, base), loss_scale)
    return distributed(mpls.experimental.LossScaleOptimizer(inner, loss_scale), form, base)


def around_or_within(*forms: str) -> list[tuple[str | None, str, str]]:
    """Return each release, place and form that there was; from 2.4 on, nobody asks a class around for gradients."""
    return [
        (release, place, form)
        for release in RELEASES
        for place in ("within", "around")
        for form in forms
        if place == "within" or form == COMPUTING or release in ("2.2", "2.3")
    ]


OF_OLD = [(release, "around", form) for release in ("2.2", "2.3") for form in (BARE, PAIRS)]
# How it trains, the family, and the release, place and form.
CASES = [
    (how, family, *each)
    for how, family, rows in (
        ("minimize", "legacy", around_or_within(BARE, PAIRS, COMPUTING)),
        ("minimize", "new", around_or_within(COMPUTING)),
        ("apply_gradients", "legacy", around_or_within(BARE, PAIRS)),
        ("apply_gradients", "new", OF_OLD),
        ("apply_gradients", "keras3", OF_OLD),
    )
    for each in rows
]


def step_of(how: str, optimizer: Any, variable: Any) -> Any:
    """Return what takes a step with a gradient."""

    def step(factor: Any) -> None:
        STEPS[how](optimizer, variable, lambda: tf.reduce_sum(variable) * factor)

    return step


class AllReduceTest(unittest.TestCase):
    """Steps of which one overflows; the average is twice the gradient."""

    @parameterized.expand(CASES)
    @pytest.mark.default_run(
        "each value", by=lambda how, family, release, place, form: ((how, family), (how, place), release, form)
    )
    def test_training(self, how: str, family: str, release: str | None, place: str, form: str) -> None:
        with behaving_as(release):
            for run in (lambda step: step, tf.function):
                optimizer, variable = wrapped(family, form, place), tf.Variable([1.0, 2.0])
                self.check(optimizer, run(step_of(how, optimizer, variable)), variable)

    @parameterized.expand([(BARE,), (PAIRS,)])
    @pytest.mark.default_run("one case")
    def test_new_optimizers_with_an_aggregation_of_their_own(self, form: str) -> None:
        class Reducing(tf_keras.optimizers.SGD):  # type: ignore[misc]
            def aggregate_gradients(self, grads_and_vars: Any) -> Any:
                grads, variables = zip(*grads_and_vars, strict=True)
                return average(grads) if form == BARE else list(zip(average(grads), variables, strict=True))

        optimizer = mpls.keras.LossScaleOptimizer(Reducing(0.25), initial_scale=8, dynamic_growth_steps=2)
        variable = tf.Variable([1.0, 2.0])
        self.check(optimizer, tf.function(step_of("apply_gradients", optimizer, variable)), variable)

    def check(self, optimizer: Any, step: Any, variable: Any) -> None:
        for factor in (1.0, INF, 1.0):
            step(tf.constant(factor))
        np.testing.assert_array_equal(variable, [0.0, 1.0])
        self.assertEqual((float(optimizer._loss_scale()), int(optimizer.dynamic_counter)), (4.0, 1))
