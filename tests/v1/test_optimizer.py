"""The graph-mode wrapper among other optimizers, graphs, sessions and arguments."""

from __future__ import annotations

import tempfile
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.v1
from tests.options.trainers import fixed

v1 = tf.compat.v1
Wrapper: Any = mpls.v1.MixedPrecisionLossScaleOptimizer
NATIVE = v1.mixed_precision

OPTIMIZERS: list[tuple[str, Callable[[], Any]]] = [
    ("gradient_descent", lambda: v1.train.GradientDescentOptimizer(0.5)),
    ("momentum", lambda: v1.train.MomentumOptimizer(0.5, 0.5)),
    ("adam", lambda: v1.train.AdamOptimizer(0.5)),
]


def dynamic(scale: float = 8, period: int = 2) -> Any:
    return mpls.v1.DynamicLossScale(scale, period)


def momentum() -> Any:
    return v1.train.MomentumOptimizer(0.5, 0.5)


class GraphTest(unittest.TestCase):
    """Optimizers that are built in one place and used in another."""

    def train(self, optimizer: Any, values: list[float]) -> list[float]:
        """Train in a graph of its own; return the variable after each step."""
        with tf.Graph().as_default(), v1.Session() as session:
            feed = v1.placeholder(tf.float32, [])
            variable = tf.Variable(1.0)
            train_op = optimizer.minimize(variable * variable * feed)
            session.run(v1.global_variables_initializer())
            seen = []
            for value in values:
                session.run(train_op, {feed: value})
                seen.append(float(session.run(variable)))
            return seen

    @parameterized.expand(OPTIMIZERS)
    @pytest.mark.default_run("one case")
    def test_built_outside_and_used_in_two_graphs(self, name: str, make: Callable[[], Any]) -> None:
        scale = dynamic()
        optimizer = Wrapper(make(), scale)
        for values in ([1.0, 0.25, 2.0], [0.5, 1.0]):
            np.testing.assert_allclose(self.train(optimizer, values), self.train(make(), values), rtol=1e-6)
        self.assertEqual((float(scale()), int(scale._num_good_steps)), (8.0, 0))

    @parameterized.expand([(None,), ("train",)])
    def test_a_fixed_scale_that_counts_steps(self, name: str | None) -> None:
        with tf.Graph().as_default(), v1.Session() as session:
            feed, variable = v1.placeholder(tf.float32, []), tf.Variable(1.0)
            v1.add_to_collection(v1.GraphKeys.TRAIN_OP, another := tf.no_op())
            optimizer, global_step = Wrapper(momentum(), 8, count_steps=True), v1.train.get_or_create_global_step()
            train_op = optimizer.minimize(variable * feed, global_step, name=name)
            self.assertEqual(v1.get_collection(v1.GraphKeys.TRAIN_OP), [another, train_op])
            self.assertEqual(train_op.name, name or "Momentum")
            self.assertIn(
                f"{train_op.name}-wrapped", [op.name.split("/")[0] for op in v1.get_default_graph().get_operations()]
            )
            session.run(v1.global_variables_initializer())
            for feed_value in (1.0, float("inf")):
                session.run(train_op, {feed: feed_value})
            found = session.run([variable, global_step, optimizer.applied_steps, optimizer.skipped_steps])
        self.assertEqual(found, [float("-inf"), 2, 2, 0])

    def test_in_eager_mode_then_in_a_graph_then_in_a_function(self) -> None:
        optimizer, variable = Wrapper(momentum(), dynamic()), tf.Variable(1.0)

        def step() -> None:
            optimizer.minimize(lambda: variable * 1.0, var_list=[variable])

        step()
        self.train(optimizer, [float("inf")])
        tf.function(step)()
        self.assertEqual((float(variable), float(optimizer._loss_scale())), (-0.25, 16.0))

    def test_the_scale_is_read_once_for_both_uses(self) -> None:
        """Between the two, another worker may change it."""
        reads = []

        class Moving(mpls.v1.LossScale):
            def __call__(self) -> Any:
                reads.append(1)
                return tf.constant(2.0 ** len(reads))

            def update(self, grads: Any) -> Any:
                return tf.no_op(), True

            def get_config(self) -> dict[str, Any]:
                return {}

        with tf.Graph().as_default(), v1.Session() as session:
            variable = tf.Variable(1.0)
            ((grad, _),) = Wrapper(momentum(), Moving()).compute_gradients(variable * 3.0)
            session.run(v1.global_variables_initializer())
            self.assertEqual((len(reads), session.run(grad)), (1, 3.0))

    def test_loss_scales_of_tensorflow_itself(self) -> None:
        for scale, expected in ((NATIVE.FixedLossScale(8), 8.0), (NATIVE.DynamicLossScale(8, 1), 16.0)):
            optimizer, variable = Wrapper(momentum(), scale), tf.Variable(1.0)
            optimizer.minimize(lambda v=variable: v * 1.0, var_list=[variable])
            self.assertEqual((float(variable), float(scale())), (0.5, expected))
        with self.assertRaisesRegex(ValueError, "max_consecutive_skips"):
            Wrapper(momentum(), NATIVE.FixedLossScale(8), max_consecutive_skips=3)

    @parameterized.expand([("made_outside",), ("before_the_first_step",)])
    def test_a_saver_of_the_graph_knows_the_optimizer(self, where: str) -> None:
        def build() -> Any:
            return v1.get_variable("v", initializer=1.0, use_resource=True)

        with tempfile.TemporaryDirectory() as folder:
            with tf.Graph().as_default(), v1.Session() as session:
                session.run(build().initializer)
                bare = v1.train.Saver().save(session, f"{folder}/bare")
            outside = Wrapper(OPTIMIZERS[0][1](), dynamic())
            with tf.Graph().as_default(), v1.Session() as session:
                if where == "made_outside":
                    outside.minimize(build() * 1.0)
                else:
                    build(), Wrapper(OPTIMIZERS[0][1](), dynamic())
                with self.assertWarnsRegex(UserWarning, "holds no loss scale"):
                    v1.train.Saver().restore(session, bare)

    @parameterized.expand([(True,), (False,)])
    def test_gradients_out_of_an_accumulator(self, has_global_step: bool) -> None:
        """Which takes no gradients of steps before its own, and takes its own forward with each that is taken."""
        with tf.Graph().as_default(), v1.Session() as session:
            feed, variable = v1.placeholder(tf.float32, []), tf.Variable(1.0)
            global_step = v1.train.get_or_create_global_step()
            optimizer = Wrapper(v1.train.GradientDescentOptimizer(0.5), dynamic())
            ((grad, _),) = optimizer.compute_gradients(variable * feed, [variable])
            accumulator = v1.ConditionalAccumulator(tf.float32, shape=())
            give = accumulator.apply_grad(grad, global_step if has_global_step else 100)
            pairs = [(accumulator.take_grad(1), variable)]
            train_op = optimizer.apply_gradients(pairs, *([global_step] if has_global_step else []))
            session.run(v1.global_variables_initializer())
            seen = []
            for value in (1.0, np.inf, 2.0):
                session.run(give, {feed: value})
                session.run(train_op, options=v1.RunOptions(timeout_in_ms=20_000))
                seen.append(float(session.run(variable)))
            self.assertEqual(seen, [0.5, 0.5, -0.5])

    def test_minimize_passes_its_arguments(self) -> None:
        inner = momentum()
        with (
            tf.Graph().as_default(),
            mock.patch.object(inner, "compute_gradients", wraps=inner.compute_gradients) as used,
            mock.patch.object(inner, "apply_gradients", wraps=inner.apply_gradients) as applied,
        ):
            settings = {"gate_gradients": 0, "aggregation_method": 2, "colocate_gradients_with_ops": True}
            settings["grad_loss"] = tf.constant(3.0)
            Wrapper(inner, dynamic()).minimize(tf.Variable(1.0) * 1.0, name="step", **settings)
        for name, value in settings.items():
            self.assertIs(used.call_args.kwargs[name], value)
        self.assertEqual(applied.call_args.args[1:], (None, "step-wrapped"))
        with self.assertRaisesRegex(ValueError, "MixedPrecisionLossScaleOptimizer: .*gradient.*tf.gradients"):
            Wrapper(momentum(), dynamic()).apply_gradients([(None, tf.Variable(1.0))])


class BareVariableTest(unittest.TestCase):
    """A variable stands where a list may; TensorFlow's own class takes one in a graph."""

    @parameterized.expand(
        [
            (f"{which}_{how}_{len(shape)}", which, how, shape)
            for which in ("v1", "contrib")
            for how in ("eager", "function", "graph")
            for shape in ((), (3,))
        ]
    )
    def test_minimize(self, name: str, which: str, how: str, shape: tuple[int, ...]) -> None:
        if how == "graph":
            with tf.Graph().as_default(), v1.Session() as session:
                variable = v1.get_variable("weight", initializer=tf.ones(shape), use_resource=True)
                step = fixed(which).minimize(tf.reduce_sum(variable**2), var_list=variable)
                session.run(v1.global_variables_initializer())
                session.run(step)
                np.testing.assert_array_equal(session.run(variable), np.full(shape, 0.5))
            return
        optimizer, variable = fixed(which), tf.Variable(tf.ones(shape))

        def train() -> None:
            optimizer.minimize(lambda: tf.reduce_sum(variable**2), var_list=variable)

        (tf.function(train) if how == "function" else train)()
        np.testing.assert_array_equal(variable, np.full(shape, 0.5))


class MembersTest(unittest.TestCase):
    def test_variables_are_those_of_the_optimizer_then_of_the_scale(self) -> None:
        with tf.Graph().as_default():
            variable = tf.Variable(1.0, name="v")
            optimizer = Wrapper(v1.train.AdamOptimizer(), dynamic(), count_steps=True)
            optimizer.minimize(variable * 1.0)
            names = [v.op.name for v in optimizer.variables()]
        self.assertEqual(set(names[:4]), {"beta1_power", "beta2_power", "v/Adam", "v/Adam_1"})
        counts = ["applied_steps", "skipped_steps", "consecutive_skips"]
        self.assertEqual(names[4:], ["current_loss_scale", "good_steps", *counts])

    def test_a_skipped_step_makes_the_slots_of_further_variables_too(self) -> None:
        optimizer, variables = Wrapper(momentum(), dynamic()), [tf.Variable(1.0), tf.Variable(2.0)]
        for variable, factor in zip(variables, (1.0, float("inf")), strict=True):
            optimizer.minimize(lambda variable=variable, factor=factor: variable * factor, var_list=[variable])
        self.assertEqual([float(optimizer.get_slot(each, "momentum")) for each in variables], [1.0, 0.0])

    def test_a_skipped_step_makes_the_slots_of_an_optimizer_inside_the_wrapped_one(self) -> None:
        class Outer(v1.train.Optimizer):  # type: ignore[misc]
            def __init__(self, inner: Any) -> None:
                super().__init__(False, "Outer")
                self._optimizer = inner

            def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
                return self._optimizer.apply_gradients(*args, **kwargs)

        inner, variable = momentum(), tf.Variable(1.0)
        Wrapper(Outer(inner), dynamic()).minimize(lambda: variable * float("inf"), var_list=[variable])
        self.assertEqual(float(inner.get_slot(variable, "momentum")), 0.0)

    def test_what_it_does_not_wrap(self) -> None:
        for opt in (None, tf_keras.optimizers.SGD(), v1.train.AdamOptimizer):
            with self.assertRaisesRegex(ValueError, r"^MixedPrecisionLossScaleOptimizer: opt must be a tf\.compat\.v1"):
                Wrapper(opt, dynamic())

    def test_an_option_of_a_wrong_type(self) -> None:
        with self.assertRaisesRegex(TypeError, "^MixedPrecisionLossScaleOptimizer: count_steps must be"):
            Wrapper(momentum(), dynamic(), count_steps="yes")
