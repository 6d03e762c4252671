"""Mistakes in the order of calls are named once: a step that counts twice, scaling left out, scaling done twice."""

from __future__ import annotations

import contextlib
import copy
import threading
import unittest
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import keras
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.contrib
import mpls.keras
import mpls.v1
from mpls.errors import MplsWarning
from tests.options.trainers import CELLS, FAMILIES, Trainer

v1 = tf.compat.v1

TWICE = "so the step counts twice"
NEVER = "compute_gradients() never was"
AGAIN = "got what it has returned before"
KERAS_OPTIMIZERS = {
    "legacy": tf_keras.optimizers.legacy.SGD,
    "new": tf_keras.optimizers.SGD,
    "keras3": keras.optimizers.SGD,
}
WAYS = {"eager": lambda fn: fn, "function": tf.function, "xla": tf.function(jit_compile=True)}


@contextlib.contextmanager
def warned() -> Iterator[list[str]]:
    """Collect the texts of the warnings of mpls."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MplsWarning)
        yield texts
    texts += [str(each.message) for each in caught if issubclass(each.category, MplsWarning)]


def contrib_optimizer(fixed: bool = False) -> Any:
    inner = v1.train.GradientDescentOptimizer(0.5)
    manager = mpls.contrib.FixedLossScaleManager(8)
    if not fixed:
        manager = mpls.contrib.ExponentialUpdateLossScaleManager(8.0, 2)
    return mpls.contrib.LossScaleOptimizer(inner, manager)


def v1_optimizer(fixed: bool = False) -> Any:
    return mpls.v1.MixedPrecisionLossScaleOptimizer(
        v1.train.GradientDescentOptimizer(0.5), 8 if fixed else mpls.v1.DynamicLossScale(8, 2)
    )


def managed(opt: Any, grad: Any) -> Any:
    """Update the scale of a contrib optimizer, as a program may do it."""
    return opt._loss_scale_manager.update_loss_scale(tf.reduce_all(tf.math.is_finite(grad)))


class TwiceUpdatedTest(unittest.TestCase):
    """The program and the optimizer both update the loss scale in one step."""

    @parameterized.expand(CELLS)
    @pytest.mark.default_run("one case", by=lambda name, *values: values)
    def test_is_named_once_in_each_family_and_mode(self, name: str, family: str, mode: str) -> None:
        made: list[Any] = []

        def make() -> Any:
            made.append(FAMILIES[family](8.0, 2))
            return made[-1]

        def update(grad: Any) -> Any:
            op, _ = made[-1]._loss_scale.update([grad])
            with tf.control_dependencies([op] if op is not None else []):
                return tf.identity(grad)

        with warned() as texts, Trainer(family, mode, make, update) as training:
            training.take(1.0)
            scale = float(training.number(made[-1]._loss_scale()))
            training.take(1.0)
        self.assertEqual([TWICE in text for text in texts], [True], texts)
        self.assertIn("See MIGRATION.md#updated-twice", texts[0])
        # So it does: growth was due after two.
        self.assertEqual(scale, 16.0)

    @parameterized.expand(CELLS)
    @pytest.mark.default_run("one case", by=lambda name, *values: values)
    def test_one_update_is_none(self, name: str, family: str, mode: str) -> None:
        def applied_by_hand(grad: Any) -> Any:
            return tf.identity(grad)

        with warned() as texts, Trainer(family, mode, lambda: FAMILIES[family](8.0, 2), applied_by_hand) as training:
            for _ in range(3):
                training.take(1.0)
        self.assertEqual(texts, [])

    @parameterized.expand(["eager", "function"])
    @pytest.mark.default_run("one case")
    def test_of_a_manager(self, way: str) -> None:
        opt, weight = contrib_optimizer(), tf.Variable(1.0)

        def step() -> None:
            pairs = opt.compute_gradients(lambda: weight * 2.0, [weight])
            managed(opt, pairs[0][0])
            opt.apply_gradients(pairs)

        step = WAYS[way](step)
        with warned() as texts:
            step(), step()
        self.assertEqual([TWICE in text for text in texts], [True], texts)

    def test_of_a_manager_in_a_session(self) -> None:
        with tf.Graph().as_default(), warned() as texts:
            opt, weight = contrib_optimizer(), v1.get_variable("w", initializer=1.0)
            pairs = opt.compute_gradients(weight * 2.0, [weight])
            managed(opt, pairs[0][0])
            opt.apply_gradients(pairs)
        self.assertEqual([TWICE in text for text in texts], [True], texts)

    def test_programs_that_apply_by_the_wrapped_optimizer_are_not_warned(self) -> None:
        opt, weight = v1_optimizer(), tf.Variable(1.0)
        with warned() as texts:
            for _ in range(3):
                pairs = opt.compute_gradients(lambda: weight * 2.0, [weight])
                _, should_apply = opt._loss_scale.update([grad for grad, _ in pairs])
                if should_apply:
                    opt._optimizer.apply_gradients(pairs)
            # An update before the step, to begin lower, belongs to no step.
            opt._loss_scale.update([tf.constant(float("inf"))])
            opt.minimize(lambda: weight * 2.0, var_list=[weight])
        self.assertEqual(texts, [])

    def test_another_threads_update_belongs_to_another_step(self) -> None:
        opt, weight = v1_optimizer(), tf.Variable(1.0)
        with warned() as texts:
            pairs = opt.compute_gradients(lambda: weight * 2.0, [weight])
            thread = threading.Thread(target=lambda: opt._loss_scale.update([tf.constant(1.0)]))
            thread.start()
            thread.join()
            opt.apply_gradients(pairs)
        self.assertEqual(texts, [])

    def test_a_scale_of_two_optimizers(self) -> None:
        scale = mpls.v1.DynamicLossScale(8, 2)
        both = [
            mpls.v1.MixedPrecisionLossScaleOptimizer(v1.train.GradientDescentOptimizer(0.5), scale) for _ in range(2)
        ]
        weight = tf.Variable(1.0)
        with warned() as texts:
            for _ in range(2):
                pairs = [opt.compute_gradients(lambda: weight * 2.0, [weight]) for opt in both]
                for opt, each in zip(both, pairs, strict=True):
                    opt.apply_gradients(each)
        self.assertEqual(texts, [])


class NeverScaledTest(unittest.TestCase):
    """Graph-mode families: gradients are applied, and no loss was ever scaled."""

    @parameterized.expand(
        [
            (f"{make.__name__}_{way}_{'fixed' if fixed else 'dynamic'}", make, way, fixed)
            for make in (v1_optimizer, contrib_optimizer)
            for way in WAYS
            for fixed in (True, False)
        ]
    )
    def test_is_named_once(self, name: str, make: Callable[[bool], Any], way: str, fixed: bool) -> None:
        opt, weight = make(fixed), tf.Variable(1.0)

        def apply() -> None:
            opt.apply_gradients([(tf.constant(1.0), weight)])

        step = WAYS[way](apply)
        with warned() as texts:
            step(), step()
        self.assertEqual([NEVER in text for text in texts], [True], texts)
        self.assertIn("See MIGRATION.md#forgotten-scaling", texts[0])
        self.assertEqual(float(weight), 0.0)

    @parameterized.expand([("v1", v1_optimizer), ("contrib", contrib_optimizer)])
    def test_in_a_session(self, name: str, make: Callable[[], Any]) -> None:
        with tf.Graph().as_default(), warned() as texts:
            opt, weight = make(), v1.get_variable("w", initializer=1.0)
            opt.apply_gradients([(v1.gradients(weight**2, weight)[0], weight)])
        self.assertEqual([NEVER in text for text in texts], [True], texts)

    @parameterized.expand([("v1", v1_optimizer), ("contrib", contrib_optimizer)])
    def test_who_reads_the_scale_may_scale_by_hand(self, name: str, make: Callable[[], Any]) -> None:
        with tf.Graph().as_default(), warned() as texts:
            opt, weight = make(), v1.get_variable("w", initializer=1.0)
            scale = opt._loss_scale() if name == "v1" else tf.identity(opt._loss_scale_manager.get_loss_scale())
            opt.apply_gradients([(v1.gradients(weight**2 * scale, weight)[0] / scale, weight)])
        self.assertEqual(texts, [])

    def test_the_gradients_of_another_function(self) -> None:
        opt, weight = v1_optimizer(), tf.Variable(1.0)

        @tf.function
        def compute() -> Any:
            return opt.compute_gradients(lambda: weight * 2.0, [weight])[0][0]

        @tf.function
        def apply(grad: Any) -> None:
            opt.apply_gradients([(grad, weight)])

        with warned() as texts:
            apply(compute())
        self.assertEqual(texts, [])

    def test_optimizers_around_it(self) -> None:
        class Around(v1.train.Optimizer):
            """Like Horovod's: calls both methods of the optimizer in it."""

            def __init__(self, inner: Any) -> None:
                super().__init__(False, "Around")
                self._inner = inner

            def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
                return self._inner.compute_gradients(*args, **kwargs)

            def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
                return self._inner.apply_gradients(*args, **kwargs)

        with warned() as texts:
            weight = tf.Variable(1.0)
            Around(v1_optimizer()).minimize(lambda: weight * 2.0, var_list=[weight])
            with tf.Graph().as_default():
                weight = v1.get_variable("w", initializer=1.0)
                sync = v1.train.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(0.5), 1, 1)
                opt = mpls.v1.MixedPrecisionLossScaleOptimizer(sync, "dynamic")
                opt.minimize(weight**2, global_step=v1.train.get_or_create_global_step())
        self.assertEqual(texts, [])

    def test_tensorflows_own_scale_does_not_tell(self) -> None:
        opt = mpls.v1.MixedPrecisionLossScaleOptimizer(
            v1.train.GradientDescentOptimizer(0.5), v1.mixed_precision.FixedLossScale(8)
        )
        with warned() as texts:
            opt.apply_gradients([(tf.constant(1.0), tf.Variable(1.0))])
        self.assertEqual(texts, [])

    def test_no_pairs_are_an_error_only(self) -> None:
        with warned() as texts, self.assertRaises(ValueError):
            v1_optimizer().apply_gradients([])
        self.assertEqual(texts, [])


class TwiceScaledTest(unittest.TestCase):
    """Keras' families: what a scaling method has returned goes into it again."""

    @parameterized.expand([(f"{family}_{way}", family, way) for family in KERAS_OPTIMIZERS for way in WAYS])
    def test_is_named_once(self, name: str, family: str, way: str) -> None:
        for call, change in (("get_scaled_loss", lambda x: x), ("get_unscaled_gradients", lambda x: [None, x])):
            opt = mpls.keras.LossScaleOptimizer(KERAS_OPTIMIZERS[family](0.5))
            method = getattr(opt, call)

            def step() -> None:
                method(method(change(tf.constant(1.0))))  # noqa: B023

            step = WAYS[way](step)
            with self.subTest(call), warned() as texts:
                step(), step()
                self.assertEqual(texts, [])
            self.assertEqual([f"{call}() {AGAIN}" in text for text in texts], [True], texts)
            self.assertIn("See MIGRATION.md#forgotten-scaling", texts[0])

    def test_scale_loss(self) -> None:
        opt = mpls.keras.LossScaleOptimizer(keras.optimizers.SGD(0.5))
        with warned() as texts:
            opt.scale_loss(opt.scale_loss(tf.constant(1.0)))
        self.assertEqual([f"scale_loss() {AGAIN}" in text for text in texts], [True], texts)

    @parameterized.expand(KERAS_OPTIMIZERS)
    def test_sparse_gradients(self, family: str) -> None:
        opt = mpls.keras.LossScaleOptimizer(KERAS_OPTIMIZERS[family](0.5))
        with warned() as texts:
            grads = opt.get_unscaled_gradients([tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]))])
            opt.get_unscaled_gradients(grads)
        self.assertEqual([AGAIN in text for text in texts], [True], texts)

    @parameterized.expand(KERAS_OPTIMIZERS)
    def test_several_calls_in_a_step_are_none(self, family: str) -> None:
        opt = mpls.keras.LossScaleOptimizer(KERAS_OPTIMIZERS[family](0.5))
        loss, grads = tf.constant(1.0), [tf.constant(1.0)]
        with warned() as texts:
            for _ in range(2):
                # Of the same loss and gradients, for two sets of variables; and of sums.
                first, second = opt.get_scaled_loss(loss), opt.get_scaled_loss(loss)
                opt.get_scaled_loss(first + second)
                again = [opt.get_unscaled_gradients(grads), opt.get_unscaled_gradients(grads)]
                opt.get_unscaled_gradients([again[0][0] + again[1][0]])
                opt.get_unscaled_gradients([])
                opt.get_unscaled_gradients([None])
        self.assertEqual(texts, [])

    def test_of_a_copy(self) -> None:
        opt = mpls.keras.LossScaleOptimizer(keras.optimizers.SGD(0.5))
        loss = opt.get_scaled_loss(tf.constant(1.0))
        copied = copy.deepcopy(opt)
        with warned() as texts:
            copied.get_scaled_loss(tf.constant(1.0))
            copied.get_scaled_loss(loss)
        self.assertEqual(texts, [])
