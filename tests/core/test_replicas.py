"""Replicas agree: one loss scale, one decision, whichever context and whichever way of aggregating."""

from __future__ import annotations

import functools
import unittest
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.keras
import mpls.v1
from mpls.v1 import DynamicLossScale

INF, NAN = float("inf"), float("nan")
STEPS = ([1.0, 2.0], [1.0, INF], [NAN, 1.0], [INF, -INF], [0.0, 0.0])


@functools.cache
def mirrored(merges: bool = True) -> Any:
    """Return a strategy over two devices; without merging it is as on GPUs with XLA.

    One object for the whole process: the collective ops of two would be taken for each other's.
    """
    # Collective ops of strategies in one process are told apart by these keys alone.
    tf.distribute.MirroredStrategy._collective_key_base += 10_007
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    if not merges:
        # What TensorFlow's own test combinations do.
        strategy.extended._use_merge_call = lambda: False
    return strategy


STRATEGIES: dict[str, Callable[[], Any]] = {
    "one_device": lambda: tf.distribute.OneDeviceStrategy("CPU:0"),
    "mirrored_1": lambda: tf.distribute.MirroredStrategy(["CPU:0"]),
    "mirrored_2": mirrored,
    "mirrored_2_without_merge": lambda: mirrored(merges=False),
    "central_storage_2": lambda: tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"], "CPU:0"),
}


def run(strategy: Any, fn: Callable[..., Any], values: list[float]) -> list[Any]:
    """Run `fn` on each replica, inside a tf.function; return the results of the replicas."""
    merges, function = strategy.extended._use_merge_call(), tf.function(fn)

    @tf.function
    def call(grads: Any) -> Any:
        # In a function of its own, a replica cannot call `merge_call`.
        return strategy.run(lambda grad: (fn if merges else function)(grad), (grads,))

    return locals_of(strategy, call(distribute(strategy, values)))


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

    @parameterized.expand([(merges, traced) for merges in (True, False) for traced in (True, False)])
    def test_in_a_replica_context(self, merges: bool, traced: bool) -> None:
        strategy, scale = mirrored(merges), DynamicLossScale(8)
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

    def test_built_in_the_scope_and_used_outside(self) -> None:
        strategy = mirrored()
        with strategy.scope():
            scale = DynamicLossScale(8)
        # The strategy of the first use counts.
        self.assertEqual(float(scale()), 8.0)
        self.assertEqual(len(strategy.experimental_local_results(scale._current_loss_scale)), 1)

    def test_variables_of_a_users_subclass_are_mirrored_too(self) -> None:
        strategy = mirrored()

        class Mine(DynamicLossScale):
            def __init__(self) -> None:
                super().__init__()
                self.mine = self._add_weight("mine", 1.0)

        with strategy.scope():
            scale = Mine()
        self.assertEqual(len(strategy.experimental_local_results(scale.mine)), 2)


class UpdateTest(unittest.TestCase):
    @parameterized.expand(STRATEGIES.items())
    @pytest.mark.default_run("one case")
    def test_in_a_replica_context(self, name: str, make: Callable[[], Any]) -> None:
        strategy = make()
        with strategy.scope():
            scale = DynamicLossScale(8, 2)
            scale()

        def update(grad: Any) -> Any:
            return tf.identity(scale.update([grad, None])[1])

        expected = 8.0
        count = strategy.num_replicas_in_sync
        for values in STEPS:
            finite = all(map(np.isfinite, values[-count:]))
            expected = expected if finite else expected / 2
            self.assertEqual(run(strategy, update, values), [finite] * count)
            self.assertEqual(set(locals_of(strategy, scale._current_loss_scale)), {expected})
            self.assertEqual(len(set(locals_of(strategy, scale._num_good_steps))), 1)

    @parameterized.expand(STRATEGIES.items())
    @pytest.mark.default_run("one case")
    def test_in_a_cross_replica_context(self, name: str, make: Callable[[], Any]) -> None:
        strategy = make()
        with strategy.scope():
            scale = DynamicLossScale(8, 2)
            update = tf.function(lambda grad: scale.update([grad])[1])
            expected = 8.0
            for values in STEPS:
                finite = all(map(np.isfinite, values[-strategy.num_replicas_in_sync :]))
                expected = expected if finite else expected / 2
                self.assertEqual(bool(update(distribute(strategy, values))), finite)
                self.assertEqual(float(scale()), expected)


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
