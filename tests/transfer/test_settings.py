"""Hyperparameters: the target's stay, and the report lists those that differ."""

from __future__ import annotations

import functools
import unittest
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from parameterized import parameterized

import mpls
from mpls.transfer.convert import export
from tests.transfer.training import PAIRS, SETTINGS, like, optimizer, schedule, trained_for, variables


class StayTest(unittest.TestCase):
    @parameterized.expand([(f"{a}_to_{b}", a, b) for a, b in PAIRS])
    @pytest.mark.default_run("one case")
    def test_none_is_set(self, label: str, a: str, b: str) -> None:
        for algorithm, settings in SETTINGS.values():
            source, trained = trained_for(1, optimizer(a, algorithm, 0.125, **settings), a)
            theirs = {name: value / 2 if isinstance(value, float) else value for name, value in settings.items()}
            target, others = optimizer(b, algorithm, **theirs), like(b, trained)
            before = target.get_config()
            report = mpls.convert_state(source, target, others, source_variables=trained)
            # Legacy optimizers show their settings as float32 once they have made variables of them.
            after = {name: _float32(value) for name, value in target.get_config().items()}
            self.assertEqual(after, {name: _float32(value) for name, value in before.items()})
            self.assertIn("learning_rate: 0.125, 0.05", report.differences)

    @parameterized.expand([(f"{a}_to_{b}", a, b) for a, b in PAIRS])
    @pytest.mark.default_run("one case")
    def test_a_schedule_is_named(self, label: str, a: str, b: str) -> None:
        source, trained = trained_for(3, optimizer(a, "SGD", schedule(a), momentum=0.9), a)
        target, others = optimizer(b, "SGD", momentum=0.9), like(b, trained)
        report = mpls.convert_state(source, target, others, source_variables=trained)
        self.assertIn("learning_rate: ExponentialDecay(initial_learning_rate=0.1", report.differences[0])
        self.assertTrue(report.differences[0].endswith(", 0.05"))


def _float32(value: Any) -> Any:
    return np.float32(value) if isinstance(value, float | np.floating) else value


class EveryAlgorithmTest(unittest.TestCase):
    @parameterized.expand([("legacy", "legacy", 0.004), ("new", "new", 0.004), ("keras3", "keras3", 0.004)])
    def test_a_decay_of_weights_that_only_the_target_has(self, label: str, family: str, decay: float) -> None:
        source, trained = trained_for(1, optimizer(family, "Adam"), family)
        target, others = keras.optimizers.AdamW(0.1, weight_decay=decay), variables("keras3")
        report = mpls.convert_state(source, target, others, source_variables=trained)
        self.assertEqual([each for each in report.differences if "decay" in each], [f"weight_decay: None, {decay:g}"])

    @parameterized.expand(
        [
            (f"{family}_{algorithm}_{name}", family, algorithm, name, *values)
            for family, algorithm, name, *values in (
                ("legacy", "SGD", "decay", 0.5, 0.25),
                ("new", "SGD", "momentum", 0.5, 0.25),
                ("keras3", "SGD", "nesterov", True, False, {"momentum": 0.5}),
                ("legacy", "RMSprop", "rho", 0.5, 0.25),
                ("new", "RMSprop", "centered", True, False),
                ("keras3", "Adam", "beta_1", 0.5, 0.25),
                ("legacy", "Adam", "beta_2", 0.5, 0.25),
                ("new", "Adam", "epsilon", 0.5, 0.25),
                ("new", "Adam", "adaptive_epsilon", True, False),
                ("keras3", "Adam", "amsgrad", True, False),
                ("legacy", "Adagrad", "initial_accumulator_value", 0.5, 0.25),
                ("new", "Ftrl", "learning_rate_power", -0.5, -0.25),
                ("keras3", "Ftrl", "l1_regularization_strength", 0.5, 0.25),
                ("legacy", "Ftrl", "l2_regularization_strength", 0.5, 0.25),
                ("new", "Ftrl", "l2_shrinkage_regularization_strength", 0.5, 0.25),
                ("keras3", "Ftrl", "beta", 0.5, 0.25),
                ("new", "Adam", "weight_decay", 0.5, 0.25),
                ("keras3", "SGD", "clipnorm", 2, 3.5),
                ("legacy", "SGD", "global_clipnorm", 0.5, 0.25),
                ("new", "SGD", "clipvalue", 0.5, 0.25),
                ("keras3", "SGD", "ema_momentum", 0.5, 0.25, {"use_ema": True}),
            )
        ]
    )
    @pytest.mark.filterwarnings("ignore:convert_state left out")
    def test_of_each_setting(
        self, label: str, family: str, algorithm: str, name: str, ours: Any, theirs: Any, others: Any = ()
    ) -> None:
        def made(value: Any) -> Any:
            return optimizer(family, algorithm, **{name: value, **dict(others)})

        source, trained = trained_for(1, made(ours), family)
        same = ours if isinstance(ours, bool) else ours * (1 + 1e-9)
        for value, told in ((theirs, (f"{name}: {ours}, {theirs}",)), (same, ())):
            report = mpls.convert_state(source, made(value), like(family, trained), source_variables=trained)
            self.assertEqual(report.differences, told)

    @parameterized.expand([("source", True, False), ("target", False, True), ("neither", False, False)])
    @pytest.mark.filterwarnings("ignore:convert_state left out")
    def test_settings_of_averages_are_compared_where_one_averages(self, label: str, ours: bool, theirs: bool) -> None:
        made = functools.partial(optimizer, algorithm="SGD")
        source, trained = trained_for(1, made("new", use_ema=ours, ema_momentum=0.5, ema_overwrite_frequency=2), "new")
        target = made("keras3", use_ema=theirs, ema_momentum=0.25, ema_overwrite_frequency=3)
        report = mpls.convert_state(source, target, like("keras3", trained), source_variables=trained)
        told = (f"use_ema: {ours}, {theirs}", "ema_momentum: 0.5, 0.25", "ema_overwrite_frequency: 2, 3")
        self.assertEqual(report.differences, told if ours or theirs else ())

    def test_a_setting_that_the_target_cannot_have(self) -> None:
        for value, told in ((True, ("adaptive_epsilon: True, not there",)), (False, ())):
            source, trained = trained_for(1, optimizer("new", "Adam", adaptive_epsilon=value), "new")
            target = optimizer("keras3", "Adam")
            report = mpls.convert_state(source, target, like("keras3", trained), source_variables=trained)
            self.assertEqual(report.differences, told)

    def test_configs_of_users(self) -> None:
        class Own(tf_keras.optimizers.legacy.SGD):
            def get_config(self) -> Any:
                values = {"clipnorm": tf.constant(2.0), "clipvalue": np.array([1.0, 2.0]), "momentum": np.float32(0.5)}
                return {**super().get_config(), **values, "decay": lambda: 0.5}

        class Silent(tf_keras.optimizers.legacy.SGD):
            def get_config(self) -> Any:
                raise NotImplementedError

        known = {"learning_rate": 0.25, "decay": None, "momentum": 0.5, "nesterov": False}
        self.assertEqual(export(Own(0.25)).hyperparameters, {**known, "clipnorm": 2.0, "clipvalue": [1.0, 2.0]})
        self.assertEqual(export(Silent(0.25)).hyperparameters, {})

    def test_schedules_of_equal_numbers(self) -> None:
        source, trained = trained_for(1, optimizer("keras3", "SGD", schedule("keras3")), "keras3")
        for other, told in (("ExponentialDecay", 0), ("InverseTimeDecay", 1)):
            rate = getattr(keras.optimizers.schedules, other)(0.1, 2, 0.5, name="another")
            target = optimizer("keras3", "SGD", rate)
            report = mpls.convert_state(source, target, like("keras3", trained), source_variables=trained)
            self.assertEqual(len(report.differences), told)

    def test_a_key_is_for_files(self) -> None:
        source, _ = trained_for(1, optimizer("new", "Adam"), "new")
        with self.assertRaisesRegex(ValueError, "convert_state: key must be left out where the source is an optimizer"):
            mpls.convert_state(source, optimizer("keras3", "Adam"), variables("keras3"), key="optimizer")
