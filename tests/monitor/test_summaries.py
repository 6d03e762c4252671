"""What `write_scalars` writes is read back by TensorBoard."""

from __future__ import annotations

import unittest
from typing import Any

import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls.monitor
from tests.folders import InFolder
from tests.options.trainers import EAGER, FAMILIES, Trainer

from .events import scalars
from .models import NATIVE


class SummaryTest(InFolder, unittest.TestCase):
    @parameterized.expand([(f"{family}_{way}", family, way) for family in FAMILIES for way in ("eager", "function")])
    @pytest.mark.default_run("each value", by=lambda name, family, way: (family, way))
    def test_families(self, name: str, family: str, way: str) -> None:
        training = Trainer(family, EAGER, lambda: FAMILIES[family](16.0, 3, count_steps=True))

        def step(number: Any, gradient: Any) -> None:
            training.apply(gradient)
            mpls.monitor.write_scalars(training.opt, step=number)

        run = tf.function(step) if way == "function" else step
        with tf.summary.create_file_writer(str(self.folder)).as_default():
            for number, gradient in enumerate([1.0, float("inf"), 1.0]):
                run(tf.constant(number, tf.int64), tf.constant(gradient))
        found = scalars(self.folder)
        self.assertEqual(found["loss_scale"], [(0, 16.0), (1, 8.0), (2, 8.0)])
        self.assertEqual(found["loss_scale/applied_steps"], [(0, 1), (1, 1), (2, 2)])
        self.assertEqual(found["loss_scale/skipped_steps"], [(0, 0), (1, 1), (2, 1)])
        self.assertEqual(found["loss_scale/consecutive_skips"], [(0, 0), (1, 1), (2, 0)])

    @parameterized.expand(NATIVE)
    def test_native_wrappers(self, family: str) -> None:
        opt = NATIVE[family](16.0, 3)
        with tf.summary.create_file_writer(str(self.folder)).as_default(step=7):
            mpls.monitor.write_scalars(opt, name="scale")
        self.assertEqual(scalars(self.folder), {"scale": [(7, 16.0)]})

    def test_one_replica_writes(self) -> None:
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        with strategy.scope():
            opt = FAMILIES["legacy"](16.0, 3, count_steps=True)
        with tf.summary.create_file_writer(str(self.folder)).as_default(step=1):
            strategy.run(tf.function(lambda: mpls.monitor.write_scalars(opt)))
        self.assertEqual(scalars(self.folder)["loss_scale"], [(1, 16.0)])

    def test_without_a_writer(self) -> None:
        opt = FAMILIES["legacy"](16.0, 3)
        with tf.summary.create_file_writer(str(self.folder)).as_default(step=1):
            mpls.monitor.write_scalars(opt)
        mpls.monitor.write_scalars(opt)
        mpls.monitor.write_scalars(opt, step=2)
        self.assertEqual({step for found in scalars(self.folder).values() for step, _ in found}, {1})


class RefusedTest(InFolder, unittest.TestCase):
    def test_arguments(self) -> None:
        with self.assertRaisesRegex(TypeError, "write_scalars: optimizer must scale the loss"):
            mpls.monitor.write_scalars(tf_keras.optimizers.SGD())
        with self.assertRaisesRegex(TypeError, "write_scalars: name must be a string"):
            mpls.monitor.write_scalars(FAMILIES["legacy"](16.0, 3), name=1)  # type: ignore[arg-type]

    def test_no_step(self) -> None:
        opt = FAMILIES["legacy"](16.0, 3)
        writer = tf.summary.create_file_writer(str(self.folder))
        with writer.as_default(), self.assertRaisesRegex(ValueError, "step"):
            mpls.monitor.write_scalars(opt)
