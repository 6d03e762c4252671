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
from mpls.errors import ReplicaContextError, UnsupportedStrategyError
from tests.conformance.devices import central_storage, mirrored
from tests.conformance.hosts import HOSTS
from tests.conformance.setups import Scaling, Term

TF_KERAS = ("keras_legacy", "keras_new")


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


# The classes, with how many replicas, the families that they are refused to, and what is said.
REFUSED: dict[str, tuple[tuple[Any, ...], tuple[int, ...], tuple[str, ...], tuple[str, ...]]] = {
    "central_storage": (
        (central_storage,),
        (1, 2),
        TF_KERAS,
        (
            "got CentralStorageStrategy",
            "must be a MirroredStrategy, MultiWorkerMirroredStrategy or OneDeviceStrategy",
            "Use tf.distribute.MirroredStrategy(), or wrap a tf.compat.v1.train optimizer with",
            "mpls docs strategies",
        ),
    ),
    "central_storage_of_keras_3": (
        (central_storage,),
        (2,),
        ("keras3",),
        (
            "got CentralStorageStrategy with 2 replicas",
            "CentralStorageStrategy with one replica",
            "Use tf.distribute.MirroredStrategy()",
        ),
    ),
    "parameter_servers": (
        (tf.distribute.ParameterServerStrategy,),
        (1, 2),
        TF_KERAS,
        ("got ParameterServerStrategyV2", "wrap a tf.compat.v1.train optimizer with mpls.v1"),
    ),
    "tpus": (
        (
            tf.distribute.TPUStrategy,
            tf.distribute.experimental.TPUStrategy,
            tf.compat.v1.distribute.experimental.TPUStrategy,
        ),
        (2,),
        (*TF_KERAS, "keras3"),
        ("TPUStrategy", "TPUs compute in bfloat16, which needs no loss scaling", "use the optimizer unwrapped"),
    ),
}


class RefusalTest(unittest.TestCase):
    @parameterized.expand([(name, family) for name, row in REFUSED.items() for family in row[2]])
    def test_constructor(self, name: str, family: str) -> None:
        classes, numbers, _, words = REFUSED[name]
        for cls, replicas in itertools.product(classes, numbers):
            strategy = central_storage(replicas) if cls is central_storage else Pretender(cls, replicas)
            inner = HOSTS[family].make_inner("momentum", None)
            with strategy.scope(), self.assertRaises(UnsupportedStrategyError) as caught:
                mpls.keras.LossScaleOptimizer(inner)
            self.assertIsInstance(caught.exception, ValueError)
            for each in words:
                self.assertIn(each, str(caught.exception))
            # Nothing was done to the optimizer: it can be wrapped still.
            mpls.keras.LossScaleOptimizer(inner)

    @parameterized.expand(TF_KERAS)
    def test_made_outside_and_used_under_a_strategy_that_does_not_work(self, family: str) -> None:
        host, strategy = HOSTS[family], central_storage()
        optimizer = host.wrap(host.make_inner("momentum", None), Scaling(8.0, 2))
        with strategy.scope():
            weight = host.make_variable(Term([1.0]), "weight")

        def step() -> None:
            grads = host.gradients(optimizer, lambda: tf.reduce_sum(weight), [weight], is_scaled=True)
            host.apply(optimizer, list(zip(grads, [weight], strict=True)), None)

        with self.assertRaisesRegex(UnsupportedStrategyError, "got CentralStorageStrategy"):
            strategy.run(step)
        self.assertEqual(weight.numpy().tolist(), [1.0])

    @parameterized.expand(["v1", *TF_KERAS, "keras3", "keras3_apply"])
    def test_gradients_are_applied_outside_of_a_replica(self, family: str) -> None:
        host = HOSTS[family]
        with mirrored().scope():
            weight = host.make_variable(Term([1.0]), "weight")
            optimizer = host.wrap(host.make_inner("momentum", None), Scaling(8.0, 2))
            with self.assertRaises(ReplicaContextError) as caught:
                host.apply(optimizer, [(tf.constant([1.0]), weight)], None)
        text = str(caught.exception)
        self.assertIn("in a replica context; got a cross-replica context", text)
        self.assertIn("strategy.run(step_fn)", text)
        # The originals raised the one, and their pages say the other.
        self.assertIsInstance(caught.exception, ValueError)
        self.assertIsInstance(caught.exception, RuntimeError)
