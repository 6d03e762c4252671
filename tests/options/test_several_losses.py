"""Micro-batches, several losses, several optimizers and gradients of gradients, as MIGRATION says to write them."""

from __future__ import annotations

import contextlib
import itertools
import unittest
import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.keras
import mpls.v1

v1 = tf.compat.v1
INF = float("inf")
RATE = 0.5
MAKE: dict[str, Callable[[float], Any]] = {
    "legacy": tf_keras.optimizers.legacy.SGD,
    "new": tf_keras.optimizers.SGD,
    "keras3": keras.optimizers.SGD,
}
CELLS = [(f"{family}_{way}", family, way) for family, way in itertools.product(MAKE, ("eager", "function", "xla"))]


def wrapper(family: str, variables: list[Any], **options: Any) -> Any:
    opt = mpls.keras.LossScaleOptimizer(MAKE[family](RATE), initial_scale=8, count_steps=True, **options)
    if family == "keras3":
        opt.build(variables)
    return opt


def built(step: Callable[..., Any], way: str) -> Callable[..., Any]:
    return step if way == "eager" else tf.function(step, jit_compile=True if way == "xla" else None)


class SeveralTest(unittest.TestCase):
    def setUp(self) -> None:
        # None of these ways is a misuse that mpls warns of.
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.simplefilter("error")

    def counts(self, opt: Any) -> tuple[int, int, float]:
        return int(opt.applied_steps), int(opt.skipped_steps), float(opt.state_dict()["scale"])

    @parameterized.expand(CELLS)
    @pytest.mark.default_run("one case", by=lambda name, *values: values)
    def test_micro_batches(self, name: str, family: str, way: str) -> None:
        weight = tf.Variable(1.0)
        opt = wrapper(family, [weight])

        def step(batches: Any) -> None:
            total = [tf.zeros_like(weight)]
            for number in range(3):
                with tf.GradientTape() as tape:
                    scaled_loss = opt.get_scaled_loss(weight * batches[number] / 3)
                total = [old + new for old, new in zip(total, tape.gradient(scaled_loss, [weight]), strict=True)]
            opt.apply_gradients(zip(opt.get_unscaled_gradients(total), [weight], strict=True))

        run = built(step, way)
        run(tf.constant([1.0, 2.0, 3.0]))
        self.assertEqual((float(weight), self.counts(opt)), (0.0, (1, 0, 8.0)))
        run(tf.constant([1.0, INF, 3.0]))
        self.assertEqual((float(weight), self.counts(opt)), (0.0, (1, 1, 4.0)))

    @parameterized.expand(CELLS)
    @pytest.mark.default_run("one case", by=lambda name, *values: values)
    def test_two_losses_and_one_optimizer(self, name: str, family: str, way: str) -> None:
        first, shared = tf.Variable(1.0), tf.Variable(2.0)
        opt = wrapper(family, [first, shared])

        def step(x: Any, y: Any) -> None:
            with tf.GradientTape(persistent=True) as tape:
                one = opt.get_scaled_loss(first * shared * x)
                other = opt.get_scaled_loss(shared * y)
            of_first = tape.gradient(one, [first, shared])
            (of_other,) = tape.gradient(other, [shared])
            scaled = [of_first[0], of_first[1] + of_other]
            opt.apply_gradients(zip(opt.get_unscaled_gradients(scaled), [first, shared], strict=True))

        run = built(step, way)
        run(tf.constant(1.0), tf.constant(3.0))
        self.assertEqual((float(first), float(shared)), (0.0, 0.0))
        run(tf.constant(1.0), tf.constant(INF))
        self.assertEqual((float(first), float(shared), *self.counts(opt)), (0.0, 0.0, 1, 1, 4.0))

    @parameterized.expand(CELLS)
    @pytest.mark.default_run("one case", by=lambda name, *values: values)
    def test_two_optimizers_with_scales_of_their_own(self, name: str, family: str, way: str) -> None:
        generator, critic = tf.Variable(1.0), tf.Variable(1.0)
        of_generator, of_critic = wrapper(family, [generator]), wrapper(family, [critic])

        def step(x: Any) -> None:
            with tf.GradientTape() as tape:
                scaled_loss = of_critic.get_scaled_loss(critic * x * generator)
            grads = of_critic.get_unscaled_gradients(tape.gradient(scaled_loss, [critic]))
            of_critic.apply_gradients(zip(grads, [critic], strict=True))
            with tf.GradientTape() as tape:
                scaled_loss = of_generator.get_scaled_loss(generator * 1.0)
            grads = of_generator.get_unscaled_gradients(tape.gradient(scaled_loss, [generator]))
            of_generator.apply_gradients(zip(grads, [generator], strict=True))

        run = built(step, way)
        run(tf.constant(INF))
        self.assertEqual((float(critic), float(generator)), (1.0, 0.5))
        self.assertEqual((self.counts(of_critic), self.counts(of_generator)), ((0, 1, 4.0), (1, 0, 8.0)))

    @parameterized.expand(["eager", "session"])
    def test_two_optimizers_of_tf_1_share_a_scale(self, mode: str) -> None:
        with tf.Graph().as_default() if mode == "session" else contextlib.nullcontext():
            scale = mpls.v1.DynamicLossScale(8.0, 2)
            weights = [v1.get_variable(name, initializer=1.0, use_resource=True) for name in ("one", "other")]
            inner = v1.train.GradientDescentOptimizer(RATE)
            opts = [mpls.v1.MixedPrecisionLossScaleOptimizer(inner, scale, count_steps=True) for _ in range(2)]
            if mode == "eager":
                for factor, opt, weight in zip((INF, 1.0), opts, weights, strict=True):
                    opt.minimize(lambda factor=factor, weight=weight: weight * factor, var_list=[weight])
                found = [float(scale()), *(int(opt.applied_steps) for opt in opts)]
            else:
                steps = [
                    opt.minimize(weight * factor, var_list=[weight])
                    for factor, opt, weight in zip((INF, 1.0), opts, weights, strict=True)
                ]
                with v1.Session() as session:
                    session.run(v1.global_variables_initializer())
                    for step in steps:
                        session.run(step)
                    found = session.run([scale(), *(opt.applied_steps for opt in opts)])
        self.assertEqual([float(each) for each in found], [4.0, 0.0, 1.0])

    @parameterized.expand(CELLS)
    @pytest.mark.default_run("one case", by=lambda name, *values: values)
    def test_gradient_penalty(self, name: str, family: str, way: str) -> None:
        weight = tf.Variable([1.0, 2.0])
        opt = wrapper(family, [weight])

        def step(x: Any) -> None:
            with tf.GradientTape() as tape:
                with tf.GradientTape() as inner:
                    inner.watch(x)
                    score = tf.reduce_sum(weight * x)
                    scaled_score = opt.get_scaled_loss(score)
                (grad,) = opt.get_unscaled_gradients([inner.gradient(scaled_score, x)])
                scaled_loss = opt.get_scaled_loss(score + (tf.norm(grad) - 1.0) ** 2)
            grads = opt.get_unscaled_gradients(tape.gradient(scaled_loss, [weight]))
            opt.apply_gradients(zip(grads, [weight], strict=True))

        run, x, start = built(step, way), np.array([0.5, 0.25]), np.array([1.0, 2.0])
        run(tf.constant(x, tf.float32))
        norm = np.sqrt(5.0)
        np.testing.assert_allclose(weight.numpy(), start - RATE * (x + 2 * (norm - 1) * start / norm), rtol=1e-6)
        run(tf.constant([INF, 1.0]))
        self.assertEqual(self.counts(opt), (1, 1, 4.0))


if __name__ == "__main__":
    unittest.main()
