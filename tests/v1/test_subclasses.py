"""What users' subclasses of the v1 wrapper and of loss scales do, and what code reads of them, in a v1 graph."""

from __future__ import annotations

import itertools
import unittest
from typing import Any

import numpy as np
import tensorflow as tf
from parameterized import parameterized

import mpls.v1
from mpls.errors import TrainingStuckError
from tests.golden.replay import control_flow

v1 = tf.compat.v1
INF = float("inf")
NATIVE = v1.mixed_precision.experimental
BASES = [("mpls", mpls.v1), ("tensorflow", NATIVE)]


class Showing(mpls.v1.MixedPrecisionLossScaleOptimizer):
    """Shows what it wraps and its loss scale, as the trainer of an accelerator's maker has it."""

    @property
    def loss_scale(self) -> Any:
        return self._loss_scale

    @property
    def optimizer(self) -> Any:
        return self._optimizer


def capped(base: Any) -> Any:
    """Return a class of loss scales that looks at a norm that somebody sets later, and has a variable of its own."""

    class Capped(base.DynamicLossScale):
        def __init__(self, maximum: float = 2.0**15) -> None:
            super().__init__(2.0**15, 2, 2.0)
            self._maximum = maximum
            self._overflows = self._add_weight(name="overflows", dtype=tf.int64, initial_value=0)
            self.global_norm = None

        def update(self, grads: Any) -> Any:
            finite = tf.reduce_all(tf.math.is_finite(self.global_norm))
            count = self._overflows.assign_add(tf.cast(tf.logical_not(finite), tf.int64))
            op, _ = super().update([self.global_norm])
            with tf.control_dependencies([op, count]):
                scale = tf.minimum(self._current_loss_scale.read_value(), self._maximum)
                return self._current_loss_scale.assign(scale), finite

    return Capped


class SubclassTest(unittest.TestCase):
    @parameterized.expand(BASES)
    def test_attributes_set_on_the_loss_scale_later(self, name: str, base: Any) -> None:
        with tf.Graph().as_default():
            weights = v1.get_variable("weights", initializer=[1.0, 2.0])
            factor = v1.placeholder(tf.float32, [])
            global_step = v1.train.get_or_create_global_step()
            scale = capped(base)()
            optimizer = Showing(v1.train.GradientDescentOptimizer(0.1), scale)
            self.assertIs(optimizer.loss_scale, scale)
            self.assertIsInstance(optimizer.optimizer, v1.train.GradientDescentOptimizer)
            self.assertIsInstance(optimizer, (int, mpls.v1.MixedPrecisionLossScaleOptimizer))
            pairs = optimizer.compute_gradients(tf.reduce_sum(weights) * factor, [weights])
            optimizer.loss_scale.global_norm = tf.linalg.global_norm([grad for grad, _ in pairs])
            train_op = optimizer.apply_gradients(pairs, global_step)
            seen = []
            with v1.Session() as session:
                session.run(v1.global_variables_initializer())
                for value in (1.0, INF, 2.0, 3.0):
                    session.run(train_op, {factor: value})
                    seen.append(session.run([optimizer._loss_scale(), global_step, scale._overflows]))
                result = session.run(weights)
        expected = [[32768.0, 1, 0], [16384.0, 1, 1], [16384.0, 2, 1], [32768.0, 3, 1]]
        self.assertEqual([[float(scale), int(step), int(count)] for scale, step, count in seen], expected)
        np.testing.assert_allclose(result, [0.4, 1.4], rtol=1e-6)


class Told(mpls.v1.LossScale):
    """A loss scale that answers what it is told to, and counts its updates."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer
        self.updates = self._add_weight("updates", 0)

    def __call__(self) -> Any:
        return tf.constant(4.0)

    def update(self, grads: Any) -> Any:
        return self.updates.assign_add(1), self.answer

    def get_config(self) -> dict[str, Any]:
        return {}


class Fussy(mpls.v1.FixedLossScale):
    """A fixed loss scale that takes small gradients only."""

    def update(self, grads: Any) -> Any:
        return tf.no_op(), tf.reduce_all([tf.reduce_all(grad < 2.0) for grad in grads])


class AnswerTest(unittest.TestCase):
    """A step is applied or skipped as the loss scale says, in whichever type it says it."""

    @parameterized.expand([(True,), (False,)])
    def test_of_a_subclass_of_the_fixed_one(self, skips: bool) -> None:
        inner, variable = v1.train.GradientDescentOptimizer(0.5), tf.Variable(1.0)
        optimizer = mpls.v1.MixedPrecisionLossScaleOptimizer(inner, Fussy(8, skip_nonfinite=skips))
        for factor, expected in ((1.0, 0.5), (3.0, 0.5), (1.0, 0.0)):
            optimizer.minimize(lambda factor=factor: variable * factor, var_list=[variable])
            self.assertEqual(float(variable), expected)

    @parameterized.expand(itertools.product((bool, np.bool_, tf.constant), (True, False)))
    def test_in_eager_mode(self, kind: Any, answer: bool) -> None:
        scale, variable, step = Told(kind(answer)), tf.Variable(1.0), tf.Variable(0, dtype=tf.int64)
        inner = v1.train.GradientDescentOptimizer(0.5)
        optimizer = mpls.v1.MixedPrecisionLossScaleOptimizer(inner, scale, count_steps=True)
        self.assertIsNone(optimizer.minimize(lambda: variable * 1.0, step, [variable]))
        self.assertEqual((float(variable), int(step), int(scale.updates)), (0.5 if answer else 1.0, answer, 1))
        self.assertEqual((int(optimizer.applied_steps), int(optimizer.skipped_steps)), (answer, not answer))

    @parameterized.expand([(True,), (False,)])
    def test_training_is_given_up_where_it_says_no(self, in_function: bool) -> None:
        variable, inner = tf.Variable(1.0), v1.train.GradientDescentOptimizer(0.5)
        optimizer = mpls.v1.MixedPrecisionLossScaleOptimizer(inner, Told(False), max_consecutive_skips=2)

        def once() -> None:
            optimizer.minimize(lambda: variable * 1.0, var_list=[variable])

        step = tf.function(once) if in_function else once
        for _ in range(2):
            step()
        # Its scale, 4, is above the least that a scale without bounds may have.
        stuck = (TrainingStuckError, tf.errors.InvalidArgumentError)
        with self.assertRaisesRegex(stuck, "(?s)in a row.*initial_scale="):
            step()
        self.assertEqual(float(variable), 1.0)

    @parameterized.expand(itertools.product((bool, np.bool_, tf.constant, "fed"), (True, False), (False, True)))
    def test_in_a_graph(self, kind: Any, answer: bool, is_v2: bool) -> None:
        with tf.Graph().as_default() as graph, control_flow(is_v2), v1.Session() as session:
            told = v1.placeholder(tf.bool, []) if kind == "fed" else kind(answer)
            scale, variable = Told(told), v1.get_variable("weight", initializer=1.0, use_resource=True)
            optimizer = mpls.v1.MixedPrecisionLossScaleOptimizer(v1.train.GradientDescentOptimizer(0.5), scale)
            op = optimizer.minimize(variable * 1.0)
            session.run(v1.global_variables_initializer())
            for number in (1, 2):
                session.run(op, {told: answer} if kind == "fed" else {})
                self.assertEqual(session.run(scale.updates), number)
            self.assertEqual(session.run(variable), 0.0 if answer else 1.0)
            has_conditional = bool({"If", "StatelessIf", "Switch"} & {each.type for each in graph.get_operations()})
            # What is known when the step is built makes no conditional.
            self.assertEqual(has_conditional, kind == "fed")

    @parameterized.expand(
        [
            ("float16", 2.0**17, 2.0**15),
            ("float16", 65504.0, 65504.0),
            ("float16", 65505.0, 2.0**15),
            ("bfloat16", 2.0**17, 2.0**17),
            ("float64", 2.0**126, 2.0**126),
        ]
    )
    def test_a_fixed_scale_is_lowered_to_what_the_loss_can_hold(self, name: str, scale: float, used: float) -> None:
        inner = v1.train.GradientDescentOptimizer(0.5)
        optimizer = mpls.v1.MixedPrecisionLossScaleOptimizer(inner, scale)
        variable, seen = tf.Variable(1.0, dtype=name), []

        @tf.custom_gradient
        def watched(value: Any) -> Any:
            return value, lambda upstream: seen.append(float(upstream)) or upstream

        ((grad, _),) = optimizer.compute_gradients(lambda: watched(variable * tf.constant(0.5, name)), [variable])
        self.assertEqual((seen, grad.dtype.name, float(grad)), ([float(tf.cast(used, name))], name, 0.5))
