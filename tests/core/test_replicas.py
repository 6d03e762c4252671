"""Replicas agree: one loss scale, one decision, whichever context and whichever way of aggregating."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.experimental
import mpls.keras
import mpls.v1
from mpls.v1 import DynamicLossScale
from tests.conformance.devices import mirrored, mirrored_without_merge_calls
from tests.core.behavior import behaving_as

INF, NAN = float("inf"), float("nan")
STRATEGIES = (mirrored, mirrored_without_merge_calls)


def distribute(strategy: Any, values: list[float]) -> Any:
    count = strategy.num_replicas_in_sync
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(values[-count:][context.replica_id_in_sync_group])
    )


def locals_of(strategy: Any, value: Any) -> list[Any]:
    return [np.asarray(each).item() for each in strategy.experimental_local_results(value)]


class CreationTest(unittest.TestCase):
    """State that is created under a strategy is mirrored, wherever the first use stands."""

    def assert_mirrored(self, scale: Any, strategy: Any) -> None:
        for variable in (scale._current_loss_scale, scale._num_good_steps):
            self.assertEqual(len(strategy.experimental_local_results(variable)), 2)
            self.assertEqual(variable.aggregation, tf.VariableAggregation.NONE)
            self.assertFalse(variable.trainable)

    @parameterized.expand([(make, traced) for make in STRATEGIES for traced in (True, False)])
    def test_in_a_replica_context(self, make: Callable[[], Any], traced: bool) -> None:
        strategy, scale = make(), DynamicLossScale(8)
        if traced:
            result = locals_of(strategy, tf.function(lambda: strategy.run(lambda: tf.identity(scale())))())
        else:
            result = locals_of(strategy, strategy.run(lambda: tf.identity(scale())))
        self.assertEqual(result, [8.0, 8.0])
        self.assert_mirrored(scale, strategy)

    def test_in_a_cross_replica_context(self) -> None:
        strategy, scale = mirrored(), DynamicLossScale(8)
        with strategy.scope():
            self.assertEqual(float(scale()), 8.0)
        self.assert_mirrored(scale, strategy)
        # Outside of the scope, too, a step counts on all replicas.
        scale.update([tf.constant(1.0)])
        self.assertEqual(locals_of(strategy, scale._num_good_steps), [1, 1])


class UpdateTest(unittest.TestCase):
    @parameterized.expand(STRATEGIES)
    def test_replicas_agree_in_their_context(self, make: Callable[[], Any]) -> None:
        strategy = make()
        with strategy.scope():
            scale = DynamicLossScale(8, 2)
            scale()
        update = lambda grad: tf.identity(scale.update([grad, None])[1])  # noqa: E731
        # In a function of its own, a replica cannot call `merge_call`.
        in_replica = update if make is mirrored else tf.function(update)
        call = tf.function(lambda grads: strategy.run(in_replica, (grads,)))
        for values, after in (([1.0, 2.0], 8.0), ([1.0, INF], 4.0), ([NAN, 1.0], 2.0)):
            found = locals_of(strategy, call(distribute(strategy, values)))
            self.assertEqual(found, [bool(np.isfinite(values).all())] * 2)
            self.assertEqual(locals_of(strategy, scale._current_loss_scale), [after] * 2)


class OverflowsTest(unittest.TestCase):
    def test_a_gradient_that_overflows_on_one_replica_counts_once(self) -> None:
        strategy = mirrored()
        with strategy.scope():
            variables = [tf.Variable(1.0, name=name) for name in ("first", "second")]
            optimizer = mpls.keras.LossScaleOptimizer(tf_keras.optimizers.SGD(0.5), track_overflows=True)
            optimizer.build(variables)

        def step(grad: Any) -> None:
            optimizer.get_scaled_loss(tf.constant(1.0))
            grads = optimizer.get_unscaled_gradients([grad, tf.constant(1.0)])
            optimizer.apply_gradients(list(zip(grads, variables, strict=True)))

        function = tf.function(lambda grads: strategy.run(step, (grads,)))
        for values in ([1.0, INF], [1.0, 1.0], [NAN, INF]):
            function(distribute(strategy, values))
        (found,) = optimizer.overflow_report()
        self.assertEqual(("first" in found.variable, found.count, found.last_step), (True, 2, 3))


def keep(grads_and_vars: Any) -> Any:
    """Sum nothing."""
    return list(grads_and_vars)


class SumsNothing(tf_keras.optimizers.SGD):
    def aggregate_gradients(self, grads_and_vars: Any) -> Any:
        return keep(grads_and_vars)


class LegacySumsNothing(tf_keras.optimizers.legacy.SGD):
    def _aggregate_gradients(self, grads_and_vars: Any) -> Any:
        return keep(grads_and_vars)


def patched(optimizer: Any, name: str) -> Any:
    setattr(optimizer, name, keep)
    return optimizer


legacy_sgd, new_sgd = tf_keras.optimizers.legacy.SGD, tf_keras.optimizers.SGD


class WhoLooksTest(unittest.TestCase):
    """Where Keras has summed the gradients, one replica looks at them; where nobody knows who did, all do."""

    @parameterized.expand(
        [
            ("legacy", lambda: legacy_sgd(0.5), {}, 1),
            ("legacy aggregated", lambda: legacy_sgd(0.5), {"experimental_aggregate_gradients": False}, 2),
            ("legacy aggregator", lambda: legacy_sgd(0.5, gradient_aggregator=keep), {}, 2),
            ("legacy class", lambda: LegacySumsNothing(0.5), {}, 2),
            ("legacy object", lambda: patched(legacy_sgd(0.5), "_aggregate_gradients"), {}, 2),
            ("new", lambda: new_sgd(0.5), {}, 1),
            ("new aggregated", lambda: new_sgd(0.5), {"skip_gradients_aggregation": True}, 2),
            ("new aggregated by an old name", lambda: new_sgd(0.5), {"experimental_aggregate_gradients": False}, 2),
            ("new class", lambda: SumsNothing(0.5), {}, 2),
            ("new object", lambda: patched(new_sgd(0.5), "aggregate_gradients"), {}, 2),
        ]
    )
    @pytest.mark.default_run("each value", by=lambda name, make, arguments, looks: (looks,))
    def test_under_a_mirrored_strategy(
        self, name: str, make: Callable[[], Any], arguments: dict[str, Any], looks: int
    ) -> None:
        strategy = mirrored()
        with strategy.scope():
            variable = tf.Variable(1.0)
            optimizer = mpls.keras.LossScaleOptimizer(make(), initial_scale=8)
            optimizer._create_all_weights([variable])

        def step(grad: Any) -> None:
            optimizer.get_scaled_loss(tf.constant(1.0))
            (unscaled,) = optimizer.get_unscaled_gradients([grad])
            optimizer.apply_gradients([(unscaled, variable)], **arguments)

        for values, scale, applies in (([8.0, INF], 4.0, False), ([NAN, 8.0], 2.0, False), ([2.0, 2.0], 2.0, True)):
            before = locals_of(strategy, variable)
            function = tf.function(lambda grads: strategy.run(step, (grads,)), autograph=False)
            grads = distribute(strategy, values)
            ops = function.get_concrete_function(grads).graph.get_operations()
            devices = [tf.DeviceSpec.from_string(op.device).device_index for op in ops if op.type == "IsFinite"]
            # Each replica looks where it runs; if one looks for all, it is the first.
            self.assertEqual(sorted(devices), list(range(looks)))
            function(grads)
            self.assertEqual(float(optimizer.loss_scale), scale)
            self.assertEqual(locals_of(strategy, variable) != before, applies)


class OfOldCode(tf_keras.optimizers.legacy.SGD):
    """Written for TF 2.1 and earlier."""

    def apply_gradients(self, grads_and_vars: Any, name: Any = None) -> Any:
        return super().apply_gradients(grads_and_vars, name)


class OldCodeTest(unittest.TestCase):
    def test_gradients_that_it_would_sum_again_are_refused(self) -> None:
        strategy = mirrored()
        with strategy.scope():
            variable = tf.Variable(1.0)
            optimizer = mpls.keras.LossScaleOptimizer(OfOldCode(0.5), initial_scale=8)
            optimizer._create_all_weights([variable])

        def step() -> None:
            optimizer.minimize(lambda: variable * 2.0, [variable])

        with self.assertRaisesRegex(TypeError, "inner_optimizer must have an apply_gradients that takes experimental_"):
            strategy.run(step)
        self.assertEqual((locals_of(strategy, variable), float(optimizer.loss_scale)), ([1.0, 1.0], 8.0))
        optimizer, variable = mpls.keras.LossScaleOptimizer(OfOldCode(0.5)), tf.Variable(1.0)
        optimizer.minimize(lambda: variable * 2.0, [variable])
        self.assertEqual(float(variable), 0.0)


class Unsummed(mpls.experimental.LossScaleOptimizer):  # type: ignore[misc]
    def _aggregate_gradients(self, grads_and_vars: Any) -> Any:
        return [grad for grad, _ in grads_and_vars]


class AggregationOfUsersTest(unittest.TestCase):
    """Up to TF 2.3, a subclass of the wrapper could leave each replica its own gradients."""

    @parameterized.expand([("legacy", legacy_sgd), ("new", new_sgd)])
    def test_replicas_decide_as_one(self, name: str, make: Callable[..., Any]) -> None:
        strategy = mirrored()
        with behaving_as("2.3"), strategy.scope():
            variable = tf.Variable(1.0, aggregation=tf.VariableAggregation.MEAN)
            optimizer = Unsummed(make(0.5), mpls.experimental.DynamicLossScale(8.0))
            optimizer._create_all_weights([variable])

            def step(grad: Any) -> None:
                optimizer.get_scaled_loss(tf.constant(1.0))
                optimizer.apply_gradients([(optimizer.get_unscaled_gradients([grad])[0], variable)])

            function = tf.function(lambda grads: strategy.run(step, (grads,)), autograph=False)
            for values, scale in (([8.0, INF], 4.0), ([NAN, 8.0], 2.0)):
                function(distribute(strategy, values))
                self.assertEqual((locals_of(strategy, variable), float(optimizer.loss_scale())), ([1.0, 1.0], scale))
            function(distribute(strategy, [2.0, 2.0]))
            self.assertEqual(locals_of(strategy, variable), [0.5, 0.5])


class SummedGradientsTest(unittest.TestCase):
    """Keras 3 sums what it applies. What the user says is summed already is applied once."""

    @pytest.mark.filterwarnings("ignore:Gradients do not exist")
    def test_under_a_mirrored_strategy(self) -> None:
        strategy = mirrored()
        with strategy.scope():
            weight, table, missing = (keras.Variable(np.ones(shape), dtype="float32") for shape in ((2,), (3, 1), ()))
            maximum = keras.Variable(1.0, trainable=True)
            maximum.overwrite_with_gradient = True
            opt = mpls.keras.LossScaleOptimizer(keras.optimizers.SGD(0.5), initial_scale=8)
            opt.build([weight, table, missing, maximum])

        def step(grad: Any) -> None:
            rows = tf.IndexedSlices(tf.reshape(grad, (1, 1)), tf.constant([1]), tf.constant([3, 1]))
            pairs = [(tf.stack([grad, grad * 2]), weight), (rows, table), (None, missing), (tf.constant(4.0), maximum)]
            opt.scale_loss(1.0)
            opt.apply_gradients(pairs, skip_gradients_aggregation=True)

        # If they differ, those of the first replica count.
        tf.function(lambda grads: strategy.run(step, (grads,)), autograph=False)(distribute(strategy, [4.0, 6.0]))
        for local in range(2):
            values = [
                strategy.experimental_local_results(each.value)[local] for each in (weight, table, missing, maximum)
            ]
            self.assertEqual([each.numpy().ravel().tolist() for each in values], [[0.75, 0.5], [1, 0.75, 1], [1], [4]])
