"""Strategies that cannot work are refused as by the originals, with the reason and what to use instead."""

from __future__ import annotations

import contextlib
import itertools
import unittest
from collections.abc import Iterator
from typing import Any
from unittest import mock

import tensorflow as tf
from parameterized import parameterized

import mpls.keras
from mpls.errors import MplsError, ReplicaContextError, UnsupportedStrategyError
from tests.conformance.devices import central_storage, mirrored, quick_joins

from .families import FAMILIES, KERAS_3, KERAS_3_STYLE, LEGACY, NEW, V_1, Family
from .slope import Slope


def by_family(function: Any, index: int, call: Any) -> str:
    return f"{function.__name__}_{call.args[0].name}"


def each(*families: Family) -> Any:
    return parameterized.expand([(family,) for family in families], name_func=by_family)


class Pretender:
    """A strategy that is recognised as one of a class, for which there is no machine here."""

    def __init__(self, cls: Any, replicas: int) -> None:
        # Instances of a class made up for it take the number of replicas without asking for devices.
        made_up = type(cls.__name__, (cls,), {"num_replicas_in_sync": replicas, "__init__": lambda self: None})
        self.strategy = made_up()

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        replacements = {"get_strategy": self.strategy, "has_strategy": True, "in_cross_replica_context": True}
        with contextlib.ExitStack() as stack:
            # tf_keras looks into the second of them.
            for module, (name, value) in itertools.product(
                (tf.distribute, tf.compat.v2.distribute), replacements.items()
            ):
                stack.enter_context(mock.patch.object(module, name, return_value=value))
            yield


TPUS = (
    tf.distribute.TPUStrategy,
    tf.distribute.experimental.TPUStrategy,
    tf.compat.v1.distribute.experimental.TPUStrategy,
)


class ConstructorTest(unittest.TestCase):
    def refusal(self, family: Family, scope: Any) -> str:
        """Return what mpls says; nothing may have been done to the optimizer."""
        inner = family.bare().inner
        with scope, self.assertRaises(ValueError) as caught:
            mpls.keras.LossScaleOptimizer(inner)
        self.assertIsInstance(caught.exception, UnsupportedStrategyError)
        self.assertIsInstance(caught.exception, MplsError)
        # It can be wrapped still.
        mpls.keras.LossScaleOptimizer(inner)
        return str(caught.exception)

    @each(LEGACY, NEW)
    def test_central_storage(self, family: Family) -> None:
        for replicas in (1, 2):
            text = self.refusal(family, central_storage(replicas).scope())
            self.assertIn("got CentralStorageStrategy", text)
            self.assertIn("must be a MirroredStrategy, MultiWorkerMirroredStrategy or OneDeviceStrategy", text)
            self.assertIn("Use tf.distribute.MirroredStrategy(), or wrap a tf.compat.v1.train optimizer with", text)
            self.assertIn("mpls docs strategies", text)

    def test_central_storage_with_keras_3(self) -> None:
        native = Slope(KERAS_3_STYLE, KERAS_3_STYLE.native, central_storage())
        with self.assertRaises(ValueError):
            native.step(1.0, 1.0)
        text = self.refusal(KERAS_3, central_storage().scope())
        self.assertIn("got CentralStorageStrategy with 2 replicas", text)
        self.assertIn("CentralStorageStrategy with one replica", text)
        self.assertIn("Use tf.distribute.MirroredStrategy()", text)

    @each(KERAS_3)
    def test_central_storage_with_one_replica_works_with_keras_3(self, family: Family) -> None:
        slope = Slope(family, family.scaled, central_storage(1))
        self.assertEqual([*slope.step(float("inf")), *slope.step(1.0)], [1.0, 0.875])
        self.assertEqual(slope.scales(), [4.0])

    @each(LEGACY, NEW)
    def test_parameter_servers(self, family: Family) -> None:
        for replicas in (1, 2):
            pretender = Pretender(tf.distribute.ParameterServerStrategy, replicas)
            text = self.refusal(family, pretender.scope())
            self.assertIn("got ParameterServerStrategyV2", text)
            self.assertIn("wrap a tf.compat.v1.train optimizer with mpls.v1", text)

    @each(LEGACY, NEW, KERAS_3)
    def test_tpus(self, family: Family) -> None:
        for cls in TPUS:
            text = self.refusal(family, Pretender(cls, 2).scope())
            self.assertIn("TPUStrategy", text)
            self.assertIn("TPUs compute in bfloat16, which needs no loss scaling", text)
            self.assertIn("use the optimizer unwrapped", text)


class WrongPlaceTest(unittest.TestCase):
    """An optimizer is used where it cannot work, though it was made where it can."""

    @each(LEGACY, NEW)
    def test_made_outside_and_used_under_a_strategy_that_does_not_work(self, family: Family) -> None:
        optimizer = family.scaled()
        strategy = central_storage()
        with strategy.scope():
            weight = family.variable([1.0], "weight")

        def step() -> None:
            grads = family.grads(optimizer, lambda: tf.reduce_sum(tf.convert_to_tensor(weight)), [weight])
            family.apply(optimizer, grads, [weight])

        with quick_joins(), self.assertRaisesRegex(UnsupportedStrategyError, "got CentralStorageStrategy"):
            strategy.run(step)
        self.assertEqual(weight.numpy().tolist(), [1.0])

    @each(*FAMILIES)
    def test_gradients_are_applied_outside_of_a_replica(self, family: Family) -> None:
        strategy = mirrored()
        with strategy.scope():
            weight = family.variable([1.0], "weight")
            optimizer = family.scaled()
            with self.assertRaises(ReplicaContextError) as caught:
                family.apply(optimizer, [tf.constant([1.0])], [weight])
        text = str(caught.exception)
        self.assertIn("in a replica context; got a cross-replica context", text)
        self.assertIn("strategy.run(step_fn)", text)
        self.assertIsInstance(caught.exception, ValueError)

    def test_v1_works_where_keras_is_refused(self) -> None:
        for replicas in (1, 2):
            slope = Slope(V_1, V_1.scaled, central_storage(replicas))
            self.assertEqual(slope.step(*[1.0] * replicas), [1.0 - 0.125 * replicas])
