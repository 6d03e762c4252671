"""Optimizers of users' classes, with state of their own beside the slots."""

from __future__ import annotations

import dataclasses
import unittest
from typing import Any

import keras
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls
from mpls.errors import MplsWarning, SavedStateError
from mpls.transfer.convert import export
from mpls.transfer.load import load_record
from tests.transfer.training import OPTIMIZERS, assert_go_on, like, optimizer, trained_for

FAMILIES = [(family,) for family in OPTIMIZERS]


class Legacy(tf_keras.optimizers.legacy.SGD):
    """Makes another variable when it makes the slots."""

    def _create_slots(self, var_list: Any) -> None:
        super()._create_slots(var_list)
        self._largest_ = self.add_weight("largest_", shape=[2], initializer="zeros")
        self._weights.append(self._largest_)


class New(tf_keras.optimizers.SGD):
    def build(self, var_list: Any) -> None:
        super().build(var_list)
        self._largest_ = tf.Variable([0.0, 0.0], name="largest_")
        self._variables.append(self._largest_)


class Keras3(keras.optimizers.SGD):
    def build(self, variables: Any) -> None:
        super().build(variables)
        self._largest_ = self.add_variable(shape=[2], name="largest_")


OWN: dict[str, Any] = {"legacy": Legacy, "new": New, "keras3": Keras3}


class Sums(keras.optimizers.Optimizer):
    """An algorithm that mpls does not know: sums of gradients, and their largest."""

    def build(self, variables: Any) -> None:
        if not self.built:
            super().build(variables)
            self.sums = [self.add_variable_from_reference(each, name="sum") for each in variables]
            self.largest = self.add_variable(shape=[], name="largest")

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        total = self.sums[self._get_variable_index(variable)]
        total.assign_add(gradient)
        self.largest.assign(keras.ops.maximum(self.largest, keras.ops.max(gradient)))
        variable.assign_sub(learning_rate * total / (self.largest + 1.0))


class Elsewhere(Sums):
    def build(self, variables: Any) -> None:
        if not self.built:
            super().build(variables)
            self.by_name = {"hidden": self.add_variable(shape=[], name="hidden")}


class KnownAlgorithmTest(unittest.TestCase):
    @parameterized.expand(FAMILIES)
    def test_state_of_a_class_goes_to_the_same_class(self, family: str) -> None:
        source, trained = trained_for(2, OWN[family](0.05, momentum=0.9), family)
        source._largest_.assign([3.0, 4.0])
        target, others = OWN[family](0.05, momentum=0.9), like(family, trained)
        report = mpls.convert_state(source, target, others, source_variables=trained)
        self.assertEqual(target._largest_.numpy().tolist(), [3.0, 4.0])
        self.assertEqual((report.others, report.left_out), (("largest_",), ()))
        self.assertIn("also set: largest_", str(report).splitlines())
        # What is not there stays as it was.
        report = load_record(dataclasses.replace(export(source), others={}), target, others)
        self.assertEqual((target._largest_.numpy().tolist(), report.others), ([3.0, 4.0], ()))

    @parameterized.expand(FAMILIES)
    def test_it_is_left_out_for_another(self, family: str) -> None:
        source, trained = trained_for(2, OWN[family](0.05, momentum=0.9), family)
        target = optimizer(family, "SGD", momentum=0.9)
        with self.assertWarnsRegex(MplsWarning, "largest_: .*SGD has none"):
            report = mpls.convert_state(source, target, like(family, trained), source_variables=trained)
        self.assertEqual(([each.partition(":")[0] for each in report.left_out], report.others), (["largest_"], ()))


class UnknownAlgorithmTest(unittest.TestCase):
    def test_it_goes_on(self) -> None:
        source, trained = trained_for(3, Sums(0.05), "keras3")
        target, others = Sums(0.05), like("keras3", trained)
        report = mpls.convert_state(source, target, others, source_variables=trained)
        self.assertEqual((report.slots[0][1], report.others), (("sums",), ("largest",)))
        assert_go_on(source, trained, target, others, 3, 6, rtol=0)
        lacking = dataclasses.replace(export(source), others={})
        before = float(target.largest)
        with self.assertRaisesRegex(SavedStateError, r"the source must have 'largest', which .*; got \[\]"):
            load_record(lacking, target, others)
        self.assertEqual(float(target.largest), before)

    def test_state_that_is_not_in_lists(self) -> None:
        source, trained = trained_for(1, Elsewhere(0.05), "keras3")
        with self.assertRaisesRegex(SavedStateError, "must keep its state in lists.* has hidden elsewhere"):
            mpls.convert_state(source, Elsewhere(0.05), like("keras3", trained), source_variables=trained)
