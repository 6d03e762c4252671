"""Hyperparameters: the target's stay, or become those of the source."""

from __future__ import annotations

import json
import pathlib
import tempfile
import unittest
from typing import Any

import keras
import numpy as np
import pytest
import tf_keras
from parameterized import parameterized

import mpls
from mpls.errors import SavedStateError
from tests.transfer.training import MODULES, PAIRS, SETTINGS, assert_close, like, optimizer, train, variables

SOME: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD": ("SGD", {"momentum": 0.75, "nesterov": True}),
    "Adam": ("Adam", {"beta_1": 0.75, "beta_2": 0.5, "epsilon": 0.25, "amsgrad": True}),
    "RMSprop": ("RMSprop", {"rho": 0.5, "momentum": 0.25, "epsilon": 0.125, "centered": True}),
    "Adagrad": ("Adagrad", {"epsilon": 1e-10, "initial_accumulator_value": 0.5}),
    "Adadelta": ("Adadelta", {"rho": 0.5, "epsilon": 0.125}),
    "Adamax": ("Adamax", {"beta_1": 0.75, "beta_2": 0.5, "epsilon": 0.25}),
    "Nadam": ("Nadam", {"beta_1": 0.75, "beta_2": 0.5, "epsilon": 0.25}),
    "Ftrl": (
        "Ftrl",
        {
            "learning_rate_power": -0.25,
            "l1_regularization_strength": 0.125,
            "l2_regularization_strength": 0.25,
            "l2_shrinkage_regularization_strength": 0.5,
            "beta": 0.5,
        },
    ),
}


def schedule(family: str) -> Any:
    module: Any = keras if family == "keras3" else tf_keras
    return module.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)


class SetTest(unittest.TestCase):
    @parameterized.expand([(f"{name}_{a}_to_{b}", name, a, b) for name in SOME for a, b in PAIRS])
    @pytest.mark.default_run("each value", by=lambda label, name, a, b: (name, (a, b)))
    def test_all_of_them(self, label: str, name: str, a: str, b: str) -> None:
        algorithm, settings = SOME[name]
        source, trained = optimizer(a, algorithm, 0.125, **settings), variables(a)
        train(source, trained, 0, 3)
        target, others = optimizer(b, algorithm), like(b, trained)
        report = mpls.convert_state(source, target, others, source_variables=trained, hyperparameters=True)
        for one in ("learning_rate", *settings):
            self.assertTrue(any(each.startswith(f"set: {one}: ") for each in report.differences), (one, report))
        left = [each for each in report.differences if not each.startswith("set: ")]
        is_another = algorithm == "Adagrad" and "legacy" in (a, b) and a != b
        self.assertEqual([each[:9] for each in left], ["epsilon: "] if is_another else [])
        train(source, trained, 3, 6)
        train(target, others, 3, 6)
        assert_close(others, trained)

    @parameterized.expand([(f"{a}_to_{b}", a, b) for a, b in PAIRS])
    def test_schedules(self, label: str, a: str, b: str) -> None:
        source, trained = optimizer(a, "SGD", schedule(a), momentum=0.9), variables(a)
        train(source, trained, 0, 3)
        target, others = optimizer(b, "SGD"), like(b, trained)
        report = mpls.convert_state(source, target, others, source_variables=trained, hyperparameters=True)
        self.assertIn("set: learning_rate: ExponentialDecay(initial_learning_rate=0.1", report.differences[0])
        train(source, trained, 3, 6)
        train(target, others, 3, 6)
        assert_close(others, trained)

    @parameterized.expand([(family, family) for family in MODULES])
    def test_what_cannot_be_set(self, label: str, family: str) -> None:
        own = type("Own", (tf_keras.optimizers.schedules.LearningRateSchedule,), {"__call__": lambda _, step: 0.5})
        own.get_config = lambda _: {}  # type: ignore[attr-defined]
        source, trained = optimizer("new", "SGD", own(), momentum=0.9, clipnorm=1.0), variables("new")
        train(source, trained, 0, 3)
        target, others = optimizer(family, "SGD", momentum=0.9), like(family, trained)
        report = mpls.convert_state(source, target, others, source_variables=trained, hyperparameters=True)
        self.assertIn("learning_rate: Own(), 0.05", report.differences)
        # A number does not go into the place of a schedule, except in legacy optimizers.
        source, target = optimizer("new", "SGD", 0.25), optimizer(family, "SGD", schedule(family))
        train(source, trained, 0, 3)
        report = mpls.convert_state(source, target, others, source_variables=trained, hyperparameters=True)
        is_set = [each.startswith("set: ") for each in report.differences if "learning_rate" in each]
        self.assertEqual(is_set, [family == "legacy"])

    @parameterized.expand([(family, family) for family in MODULES])
    def test_a_built_target_keeps_settings_that_make_slots(self, label: str, family: str) -> None:
        source, trained = optimizer("legacy", "Adam", beta_1=0.5), variables("legacy")
        train(source, trained, 0, 3)
        target, others = optimizer(family, "Adam", amsgrad=False), like(family, trained)
        train(target, others, 0, 1)
        source.amsgrad = True
        report = mpls.convert_state(source, target, others, source_variables=trained, hyperparameters=True)
        self.assertEqual([each[:14] for each in report.differences], ["set: beta_1: 0", "amsgrad: True,"])
        self.assertFalse(target.amsgrad)

    @parameterized.expand([(f"{a}_to_{b}", a, b) for a, b in PAIRS])
    @pytest.mark.default_run("one case")
    def test_none_is_set_unasked(self, label: str, a: str, b: str) -> None:
        for algorithm, settings in SOME.values():
            source, trained = optimizer(a, algorithm, 0.125, **settings), variables(a)
            target, others = optimizer(b, algorithm, **{**settings, **_other(settings)}), like(b, trained)
            train(source, trained, 0, 1)
            before = target.get_config()
            report = mpls.convert_state(source, target, others, source_variables=trained)
            # Legacy optimizers show their settings as float32 once they have made variables of them.
            after = {name: _float32(value) for name, value in target.get_config().items()}
            self.assertEqual(after, {name: _float32(value) for name, value in before.items()})
            self.assertIn("learning_rate: 0.125, 0.05", report.differences)


def _float32(value: Any) -> Any:
    return np.float32(value) if isinstance(value, float | np.floating) else value


def _other(settings: dict[str, Any]) -> dict[str, Any]:
    return {"epsilon": 0.5} if "epsilon" in settings else {}


class EveryAlgorithmTest(unittest.TestCase):
    def test_equal_settings_are_no_difference(self) -> None:
        for name, (algorithm, settings) in SETTINGS.items():
            for family in MODULES:
                with self.subTest(name=name, family=family):
                    source, trained = optimizer(family, algorithm, **settings), variables(family)
                    train(source, trained, 0, 1)
                    target = optimizer(family, algorithm, **settings)
                    report = mpls.convert_state(source, target, like(family, trained), source_variables=trained)
                    self.assertEqual(report.differences, ())

    @parameterized.expand([("legacy", "legacy", 0.004), ("new", "new", 0.004), ("keras3", "keras3", 0.004)])
    def test_a_decay_of_weights_that_only_the_target_has(self, label: str, family: str, decay: float) -> None:
        source, trained = optimizer(family, "Adam"), variables(family)
        train(source, trained, 0, 1)
        target, others = keras.optimizers.AdamW(0.1, weight_decay=decay), variables("keras3")
        report = mpls.convert_state(source, target, others, source_variables=trained)
        self.assertEqual([each for each in report.differences if "decay" in each], [f"weight_decay: None, {decay:g}"])

    def test_a_key_is_for_files(self) -> None:
        source, trained = optimizer("new", "Adam"), variables("new")
        train(source, trained, 0, 1)
        with self.assertRaisesRegex(ValueError, "convert_state: key must be left out where the source is an optimizer"):
            mpls.convert_state(source, optimizer("keras3", "Adam"), variables("keras3"), key="optimizer")


def _decay(**settings: Any) -> dict[str, Any]:
    return {"class_name": "ExponentialDecay", "config": settings}


# A setting in a file, and the value that no optimizer takes.
REFUSED: dict[str, tuple[str, Any]] = {
    "huge": ("learning_rate", 10**400),
    "schedule_without_settings": ("learning_rate", _decay()),
    "schedule_of_another_release": (
        "learning_rate",
        _decay(initial_learning_rate=0.1, decay_steps=1, decay_rate=0.5, staircases=1),
    ),
    "schedule_of_texts": ("learning_rate", _decay(initial_learning_rate="x", decay_steps=1, decay_rate=0.5)),
    "schedule_of_other_lengths": (
        "learning_rate",
        {"class_name": "PiecewiseConstantDecay", "config": {"boundaries": [1, 2], "values": [1.0]}},
    ),
    "text": ("momentum", "0.5"),
    "list": ("momentum", [0.5]),
    "none": ("momentum", None),
    "clipping": ("clipnorm", "x"),
    "range": ("momentum", 2.0),
}


# Settings that the SGD of a family does not have, so that it can refuse none.
UNKNOWN = {("clipping", "legacy")}


class RefusedTest(unittest.TestCase):
    @parameterized.expand([(f"{name}_{family}", name, family) for name in REFUSED for family in MODULES])
    def test_a_setting_that_the_target_refuses(self, label: str, name: str, family: str) -> None:
        setting, value = REFUSED[name]
        target, trained = optimizer(family, "SGD", momentum=0.0), variables(family)
        before = target.get_config()
        if (name, family) in UNKNOWN:
            self.assertNotIn(setting, before)
            return
        source = {"class_name": "SGD", "config": {**optimizer(family, "SGD").get_config(), setting: value}}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "config.json"
            path.write_text(json.dumps(source, default=float))
            refused = f"config: {setting} must be what .*optimizers.*SGD takes; got "
            with self.assertRaisesRegex(SavedStateError, refused):
                mpls.convert_state(path, target, trained, hyperparameters=True)
            self.assertEqual(target.get_config(), before)
            self.assertFalse(target.weights[1:] if family == "legacy" else target.variables[2:])
            # Without hyperparameters, nobody reads it, except for the report.
            if setting != "momentum":
                self.assertTrue(mpls.convert_state(path, target, trained).differences)

    def test_settings_that_exclude_each_other(self) -> None:
        source, trained = optimizer("legacy", "SGD", clipnorm=1.0, clipvalue=2.0), variables("legacy")
        train(source, trained, 0, 1)
        target, others = optimizer("keras3", "SGD"), like("keras3", trained)
        with self.assertRaisesRegex(SavedStateError, r"clipnorm, clipvalue must be what .*; got '1\.0, 2\.0 \(ValueE"):
            mpls.convert_state(source, target, others, source_variables=trained, hyperparameters=True)
        self.assertIsNone(target.clipnorm)

    def test_an_integer_in_the_place_of_a_float(self) -> None:
        source, trained = optimizer("new", "SGD", 1, momentum=1), variables("new")
        train(source, trained, 0, 1)
        target, others = optimizer("keras3", "SGD", momentum=0.5), like("keras3", trained)
        mpls.convert_state(source, target, others, source_variables=trained, hyperparameters=True)
        self.assertEqual((float(target.learning_rate), target.momentum), (1.0, 1.0))

    def test_a_decay_of_weights_that_only_the_source_lacks(self) -> None:
        source, trained = optimizer("new", "Adam"), variables("new")
        train(source, trained, 0, 1)
        target, others = keras.optimizers.AdamW(0.1, weight_decay=0.5), like("keras3", trained)
        mpls.convert_state(source, target, others, source_variables=trained, hyperparameters=True)
        self.assertIsNone(target.weight_decay)
