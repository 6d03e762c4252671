"""Gradients that a program clips between unscaling and applying them: what was infinite or NaN is still seen."""

from __future__ import annotations

import gc
import unittest
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.keras
from tests.warned import warned

from .trainers import FAMILIES, RATE, contrib, unscaled, variable_of, watched

INF, NAN = float("inf"), float("nan")


def clipped(grad: Any) -> Any:
    """Return what hides an infinity as well as a NaN."""
    return tf.clip_by_value(tf.where(tf.math.is_nan(grad), tf.zeros_like(grad), grad), -0.5, 0.5)


def legacy(**options: Any) -> Any:
    return FAMILIES["legacy"](8.0, 2000, check_unscaled=True, **options)


class NormTest(unittest.TestCase):
    def test_a_large_gradient_is_finite_although_its_square_is_not(self) -> None:
        opt, weight = legacy(), tf.Variable(1.0)
        opt.get_scaled_loss(tf.constant(1.0))
        grads = opt.get_unscaled_gradients([tf.constant(2.0**90)])
        self.assertEqual(float(opt.unscaled_global_norm), INF)
        opt.apply_gradients([(clipped(grads[0]), weight)])
        self.assertEqual(int(opt.applied_steps), 1)

    @parameterized.expand([("legacy",), ("new",), ("keras3",)])
    def test_complex_gradients(self, family: str) -> None:
        opt, weight = FAMILIES[family](8.0, 100, check_unscaled=True), tf.Variable(1 + 1j)
        if family != "legacy":
            opt.build([weight])
        for grad, applied, norm in ((3 + 4j, 1, 5.0), (complex(3, NAN), 1, NAN), (4j, 2, 4.0)):
            scaled = tf.cast(opt.get_scaled_loss(tf.constant(1.0)), tf.complex128) * grad
            grads = opt.get_unscaled_gradients([scaled])
            np.testing.assert_array_equal(opt.unscaled_global_norm, norm)
            # The clipped gradient is finite.
            opt.apply_gradients([(grads[0] if applied == 2 else tf.constant(3 + 4j, tf.complex128), weight)])
            self.assertEqual(int(opt.applied_steps), applied)
        self.assertEqual(complex(weight.numpy()), 1 + 1j - RATE * (3 + 8j))

    def test_refused(self) -> None:
        with self.assertRaisesRegex(AttributeError, "check_unscaled=True"):
            _ = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD()).unscaled_global_norm
        with self.assertRaisesRegex(RuntimeError, "here none were"):
            _ = legacy().unscaled_global_norm
        with self.assertRaisesRegex(TypeError, "check_unscaled"):
            mpls.keras.LossScaleOptimizer(tf_keras.optimizers.legacy.SGD(), check_unscaled="yes")

    def test_no_gradients_are_an_applied_step_of_a_legacy_optimizer(self) -> None:
        opt = legacy()
        opt.get_scaled_loss(tf.constant(1.0))
        opt.apply_gradients(opt.get_unscaled_gradients([]))
        self.assertEqual((int(opt.applied_steps), int(opt.skipped_steps)), (1, 0))


class ReplicasTest(unittest.TestCase):
    @parameterized.expand([("legacy", False), ("legacy", True), ("new", False), ("keras3", False), ("v1", False)])
    def test_an_overflow_of_one_replica_that_is_clipped_skips_the_step_on_all(
        self, family: str, is_eager: bool
    ) -> None:
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        with strategy.scope():
            weight, opt = variable_of(family, [1.0]), FAMILIES[family](8.0, 100, check_unscaled=True)

        def in_replica(bad_replica: Any) -> Any:
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            factor = tf.where(tf.equal(replica, bad_replica), INF, 1.0)
            (grad,) = unscaled(opt, lambda: tf.reduce_sum(watched(weight) * factor), [weight])
            opt.apply_gradients([(clipped(grad), weight)])
            return opt.unscaled_global_norm

        step: Any = lambda bad_replica: strategy.run(in_replica, args=(bad_replica,))  # noqa: E731
        step = step if is_eager else tf.function(step)
        for bad_replica, applied, scale in ((-1, 1, 8.0), (0, 1, 4.0), (1, 1, 2.0), (-1, 2, 2.0)):
            norms = map(float, strategy.experimental_local_results(step(tf.constant(bad_replica))))
            self.assertEqual(list(norms), [INF if replica == bad_replica else 1.0 for replica in range(2)])
            state = opt.state_dict()
            self.assertEqual((state["applied_steps"], state["scale"]), (applied, scale), bad_replica)


class SeveralTest(unittest.TestCase):
    @parameterized.expand([(in_function, number) for in_function in (False, True) for number in (1, 2)])
    def test_micro_batches_decide_together(self, in_function: bool, number: int) -> None:
        opt, weights = legacy(track_overflows=True), [tf.Variable(1.0) for _ in range(number)]

        def step(*factors: Any) -> None:
            totals = [tf.zeros([])] * number
            # The last loss has one variable only.
            for factor, variables in zip(factors, (weights, weights[:1]), strict=True):
                with tf.GradientTape() as tape:
                    loss = opt.get_scaled_loss(tf.add_n(variables) * factor)
                for place, grad in enumerate(opt.get_unscaled_gradients(tape.gradient(loss, variables))):
                    totals[place] += clipped(grad)
            opt.apply_gradients(zip(totals, weights, strict=True))

        step = tf.function(step) if in_function else step
        for first, second, applied in ((1.0, 1.0, 1), (INF, 1.0, 1), (1.0, NAN, 1), (0.25, 0.25, 2)):
            step(tf.constant(first), tf.constant(second))
            self.assertEqual(int(opt.applied_steps), applied)
        # Whose gradient overflows is not known if losses of different variables do; a function cannot see which do.
        several = [] if in_function else [1, 1]
        self.assertEqual([each.count for each in opt.overflow_report()], [2] if number == 1 else several)

    @parameterized.expand([(False,), (True,)])
    def test_a_gradient_that_is_not_applied_decides_with_those_of_its_loss(self, in_function: bool) -> None:
        opt, weights = legacy(), [tf.Variable(1.0) for _ in range(3)]

        def step(factor: Any) -> None:
            kept = []
            for loss, variables in (
                (lambda: weights[0] + weights[1] * factor, weights[:2]),
                (lambda: weights[2], weights[2:]),
            ):
                with tf.GradientTape() as tape:
                    scaled = opt.get_scaled_loss(loss())
                kept.append(opt.get_unscaled_gradients(tape.gradient(scaled, variables))[0])
            opt.apply_gradients(zip(kept, weights[::2], strict=True))

        step = tf.function(step) if in_function else step
        for factor, applied in ((INF, 0), (1.0, 1)):
            step(tf.constant(factor))
            self.assertEqual(int(opt.applied_steps), applied)

    @parameterized.expand(
        [(f"{name}_{inside}", name, inside) for name in FAMILIES if name != "v1" for inside in (1, 0)]
    )
    @pytest.mark.default_run("one case", by=lambda name, *values: values)
    def test_loops_over_tensors_are_functions_of_their_own(self, name: str, family: str, inside: int) -> None:
        opt = FAMILIES[family](8.0, 100, check_unscaled=True)
        variable = variable_of(family)
        raw = watched(variable)
        opt.build([variable]) if family == "keras3" else None

        @tf.function
        def step(factors: Any) -> None:
            total = tf.constant(0.0)
            for place in tf.range(3):
                with tf.GradientTape() as tape:
                    loss = opt.get_scaled_loss(raw * factors[place])
                grad = tape.gradient(loss, raw)
                total += clipped(opt.get_unscaled_gradients([grad])[0]) if inside else grad
            if not inside:
                total = clipped(opt.get_unscaled_gradients([total])[0])
            opt.apply_gradients([(total, variable)])

        with warned() as texts:
            step(tf.constant([1.0, INF, 1.0]))
        told = [text for text in texts if "unscaled elsewhere" in text]
        self.assertEqual((int(opt.applied_steps), len(told)), (inside, inside))

    @parameterized.expand([(f"{family}_{mode}", family, mode) for family in FAMILIES for mode in ("eager", "function")])
    @pytest.mark.default_run("one case", by=lambda name, *values: values)
    def test_gradients_that_are_applied_to_one_group_after_the_other(self, name: str, family: str, mode: str) -> None:
        opt = FAMILIES[family](64.0, 100, check_unscaled=True)
        variables = [variable_of(family, 2.0) for _ in range(3)]
        raw = list(map(watched, variables))
        opt.build(variables) if family in ("new", "keras3") else None

        def step(factors: Any) -> None:
            grads = unscaled(opt, lambda: tf.add_n([x * factors[place] for place, x in enumerate(raw)]), variables)
            pairs = [(clipped(grad), variable) for grad, variable in zip(grads, variables, strict=True)]
            opt.apply_gradients(pairs[:1])
            opt.apply_gradients(pairs[1:])

        run = tf.function(step) if mode == "function" else step
        for factors, applied in (
            ((1.0, 1.0, 1.0), 2),
            ((INF, 1.0, 1.0), 2),
            ((1.0, NAN, 1.0), 2),
            ((1.0, 1.0, 1.0), 4),
        ):
            run(tf.constant(factors))
            self.assertEqual(int(opt.applied_steps), applied, factors)
        self.assertEqual(int(opt.skipped_steps), 4)
        np.testing.assert_allclose([float(each.numpy()) for each in raw], [2.0 - 2 * RATE * 0.5] * 3)

    def test_an_overflow_decides_about_its_own_step_only(self) -> None:
        opt, weight = legacy(), tf.Variable(1.0)
        with warned() as texts:
            for number in (1, 2):
                opt.get_scaled_loss(tf.constant(1.0))
                (bad,) = opt.get_unscaled_gradients([tf.constant(INF)])
                opt.apply_gradients([(clipped(bad), weight)])
                for _ in range(2):
                    opt.apply_gradients([(tf.constant(1.0), weight)])
                self.assertEqual((int(opt.applied_steps), int(opt.skipped_steps)), (2 * number, number))
        # It is said once.
        self.assertEqual(sum("unscaled elsewhere" in text for text in texts), 1)

    @parameterized.expand([(False,), (True,)])
    def test_gradients_that_are_never_applied_take_no_more_memory(self, of_other_numbers: bool) -> None:
        opt, weight = legacy(), tf.Variable(1.0)

        def unscale(times: int, value: float = 1.0) -> int:
            for number in range(times):
                opt.get_scaled_loss(tf.constant(1.0))
                opt.get_unscaled_gradients([tf.constant(value)] * (1 + (of_other_numbers and number % 2)))
            gc.collect()
            return sum(map(tf.is_tensor, gc.get_objects()))

        before = unscale(40)
        self.assertLess(unscale(200) - before, 40)
        opt.apply_gradients([(tf.constant(1.0), weight)])
        self.assertEqual((int(opt.applied_steps), int(opt.skipped_steps)), (1, 0))
        unscale(2, INF), unscale(100)
        opt.apply_gradients([(tf.constant(1.0), weight)])
        self.assertEqual((int(opt.applied_steps), int(opt.skipped_steps)), (1, 1))
        before = unscale(40, INF)
        self.assertLess(unscale(200, INF) - before, 40)

    def test_many_gradients_whose_rows_differ_in_number(self) -> None:
        opt, weights = legacy(), [tf.Variable([1.0, 1.0]) for _ in range(6)]
        for number, value in enumerate((1.0, 1.0, 1.0, 1.0, INF), 1):
            rows = tf.IndexedSlices(tf.fill([number], value), tf.zeros([number], tf.int32), [2])
            opt.get_scaled_loss(tf.constant(1.0))
            *dense, sparse = opt.get_unscaled_gradients([*[tf.ones([2])] * 5, rows])
            clipped = tf.IndexedSlices(tf.clip_by_value(sparse.values, -1.0, 1.0), sparse.indices, sparse.dense_shape)
            opt.apply_gradients(zip([*dense, clipped], weights, strict=True))
        self.assertEqual((int(opt.applied_steps), int(opt.skipped_steps)), (4, 1))

    @parameterized.expand([(family, by) for family in ("v1", "legacy", "new", "keras3") for by in (False, True)])
    def test_gradients_that_nothing_was_done_to_decide_for_themselves(self, family: str, in_function: bool) -> None:
        opt = FAMILIES[family](8.0, 2000, check_unscaled=True)
        weight = variable_of(family)

        def pairs(factor: float) -> Any:
            return [(unscaled(opt, lambda: watched(weight) * factor, [weight])[0], weight)]

        def apart() -> None:
            fine, bad = pairs(1.0), pairs(NAN)
            opt.apply_gradients(bad)
            opt.apply_gradients(fine)

        (tf.function(apart, autograph=False) if in_function else apart)()
        self.assertEqual([int(opt.applied_steps), int(opt.skipped_steps)], [1, 1])

        def after_others() -> None:
            pairs(INF)
            opt.apply_gradients(pairs(1.0))

        (tf.function(after_others, autograph=False) if in_function else after_others)()
        self.assertEqual([int(opt.applied_steps), int(opt.skipped_steps)], [2, 1])
        self.assertAlmostEqual(float(keras.ops.convert_to_numpy(weight)), 1.0 - 2 * RATE)

    def test_contrib(self) -> None:
        opt, weight = contrib(8.0, 100, check_unscaled=True), tf.Variable(1.0)
        for value, skipped in ((INF, 1), (1.0, 1)):
            pairs = opt.compute_gradients(lambda value=value: weight * value, [weight])
            opt.apply_gradients([(clipped(grad), variable) for grad, variable in pairs])
            self.assertEqual(int(opt.skipped_steps), skipped)
