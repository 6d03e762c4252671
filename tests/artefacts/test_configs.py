"""Every config that a release has emitted, and those that nobody should have."""

from __future__ import annotations

import copy
import json
import unittest
import warnings
from typing import Any

import keras
import tf_keras
from parameterized import parameterized

import mpls
import mpls.experimental
import mpls.keras
from mpls.errors import MplsError, SavedStateError
from mpls.saved.optimizer_configs import read_optimizer
from tests.artefacts.replay import SUBJECTS
from tests.keras.families import OPTIMIZERS
from tests.saved.artefacts import CONFIGS

Ours: Any = mpls.keras.LossScaleOptimizer
Experimental: Any = mpls.experimental.LossScaleOptimizer
RECORDED = [(path.stem, json.loads(path.read_text())) for path in CONFIGS]

# By the first part of their names: dynamic, scale, growth steps, algorithm, learning rate, momentum.
SETTINGS: dict[str, Any] = {
    "config_default": (True, 32768.0, 2000, "SGD", 0.5, 0.0),
    "config_dynamic": (True, 64.0, 5, "SGD", 0.25, 0.5),
    "config_fixed": (False, 32.0, None, "Adam", 0.25, None),
}


class RecordedConfigsTest(unittest.TestCase):
    def check(self, optimizer: Any, name: str, cls: Any = Ours) -> None:
        dynamic, scale, growth_steps, algorithm, rate, momentum = SETTINGS[name.partition(".")[0]]
        self.assertIn(cls, type(optimizer).__mro__)
        inner, family = optimizer.inner_optimizer, SUBJECTS[name.rpartition(".")[2]].family
        self.assertIs(type(inner), getattr(OPTIMIZERS[family], algorithm))
        self.assertEqual(
            (optimizer.dynamic, optimizer.initial_scale, optimizer.dynamic_growth_steps), (dynamic, scale, growth_steps)
        )
        self.assertEqual(float(optimizer.loss_scale), scale)
        self.assertEqual(float(inner.learning_rate), rate)
        if momentum is not None:
            self.assertEqual(float(inner.get_config()["momentum"]), momentum)

    @parameterized.expand(RECORDED)
    def test_from_config(self, name: str, recorded: Any) -> None:
        config = recorded["get_config"]
        before = copy.deepcopy(config)
        for cls in (Ours, Experimental):
            with warnings.catch_warnings():
                # No call of the user's is deprecated here.
                warnings.simplefilter("error", mpls.errors.MplsDeprecationWarning)
                self.check(cls.from_config(config), name, cls)
        self.assertEqual(config, before)

    @parameterized.expand([each for each in RECORDED if each[1]["serialized"] is not None])
    def test_deserialize_of_the_framework(self, name: str, recorded: Any) -> None:
        framework = keras if name.endswith(".k3") else tf_keras
        optimizer = framework.optimizers.deserialize(copy.deepcopy(recorded["serialized"]))
        # The native wrapper, as where mpls is not; it counts as one of ours.
        self.assertEqual(type(optimizer).__module__.partition(".")[0], framework.__name__)
        self.assertIsInstance(optimizer, Ours)
        if framework is keras:
            self.check(Ours.from_config(optimizer.get_config()), name)
            return
        with mpls.install():
            self.check(framework.optimizers.deserialize(copy.deepcopy(recorded["serialized"])), name)

    @parameterized.expand([each for each in RECORDED if each[1]["serialized"] is not None and each[0].endswith("exp")])
    def test_as_of_the_release_that_had_loss_scale_objects(self, name: str, recorded: Any) -> None:
        with mpls.install(as_of="2.3"):
            optimizer = tf_keras.optimizers.deserialize(copy.deepcopy(recorded["serialized"]))
            self.assertIn(Experimental, type(optimizer).__mro__)
            scale = optimizer.loss_scale
            is_dynamic = isinstance(scale, mpls.experimental.DynamicLossScale)
            found = is_dynamic, float(scale()), scale.increment_period if is_dynamic else None
            self.assertEqual(found, SETTINGS[name.partition(".")[0]][:3])


SGD = {"class_name": "SGD", "config": {"learning_rate": 0.25, "momentum": 0.5, "decay": 0.0, "name": "SGD"}}
NEW = {"inner_optimizer": SGD, "dynamic": True, "initial_scale": 64.0, "dynamic_growth_steps": 5}
DYNAMIC: Any = {
    "class_name": "DynamicLossScale",
    "config": {"initial_loss_scale": 64.0, "increment_period": 5},
}
OLD = {"optimizer": SGD, "loss_scale": DYNAMIC}
K3 = {
    "name": "lso",
    "inner_optimizer": {"module": "keras.optimizers", "class_name": "SGD", "config": {}, "registered_name": None},
    "initial_scale": 64.0,
    "dynamic_growth_steps": 5,
}


def with_inner(base: Any = NEW, **changes: Any) -> Any:
    return {**base, "inner_optimizer": {**base["inner_optimizer"], **changes}}


def nested(depth: int) -> Any:
    config: Any = NEW
    for _ in range(depth):
        config = {**NEW, "inner_optimizer": {"class_name": "LossScaleOptimizer", "config": config}}
    return config


# The config, what its error is, and what that names.
WRONG: list[tuple[str, Any, type[Exception], str]] = [
    ("unknown_key", {**NEW, "growth": 1}, TypeError, "from_config: growth must be left out"),
    ("unknown_key_of_old", {**OLD, "growth": 1}, TypeError, "from_config: growth must be left out"),
    ("unknown_key_of_keras_3", {**K3, "growth": 1}, TypeError, "from_config: growth must be left out"),
    ("both_formats", {**NEW, **OLD}, TypeError, "from_config: inner_optimizer must be left out"),
    ("no_dict", [NEW], TypeError, "config must be a dict"),
    ("nothing", None, TypeError, "config must be a dict"),
    ("empty", {}, KeyError, "must have the key 'inner_optimizer'"),
    ("no_optimizer", {"dynamic": True}, KeyError, "must have the key 'inner_optimizer'"),
    ("dynamic_text", {**NEW, "dynamic": "yes"}, TypeError, "dynamic must be a bool"),
    ("fixed_that_grows", {**NEW, "dynamic": False}, ValueError, "dynamic_growth_steps must be None"),
    ("scale_nan", {**NEW, "initial_scale": float("nan")}, ValueError, "initial_scale must be positive and finite"),
    ("growth_text", {**NEW, "dynamic_growth_steps": "x"}, ValueError, "dynamic_growth_steps must be a whole number"),
    ("growth_inf", {**NEW, "dynamic_growth_steps": float("inf")}, OverflowError, "dynamic_growth_steps must be"),
    ("inner_none", {**NEW, "inner_optimizer": None}, TypeError, "inner_optimizer must be an optimizer"),
    ("inner_text", {**NEW, "inner_optimizer": "sgd"}, TypeError, "inner_optimizer must be an optimizer"),
    ("inner_list", {**NEW, "inner_optimizer": [SGD]}, TypeError, "inner_optimizer must be an optimizer"),
    ("inner_empty", {**NEW, "inner_optimizer": {}}, TypeError, "inner_optimizer must have a 'class_name'"),
    ("inner_name_number", with_inner(class_name=5), TypeError, "inner_optimizer must have a 'class_name'"),
    ("inner_settings_none", with_inner(config=None), TypeError, "'config', a dict"),
    ("inner_settings_list", with_inner(config=[]), TypeError, "'config', a dict"),
    ("wrapper_in_wrapper", nested(1), TypeError, "inner_optimizer must not be a wrapper itself"),
    ("wrappers_without_end", nested(5000), TypeError, "inner_optimizer must not be a wrapper itself"),
    ("scale_is_an_optimizer", {**OLD, "loss_scale": SGD}, ValueError, "class_name must be one of"),
    (
        "scale_of_no_class",
        {**OLD, "loss_scale": {"class_name": "Nope", "config": {}}},
        ValueError,
        "class_name must be",
    ),
    ("scale_class_list", {**OLD, "loss_scale": {"class_name": ["x"], "config": {}}}, ValueError, "with 'class_name'"),
    ("scale_number", {**OLD, "loss_scale": 8.0}, ValueError, "must be a dict with 'class_name'"),
    ("scale_none", {**OLD, "loss_scale": None}, ValueError, "loss_scale must be a FixedLossScale"),
    (
        "scale_unknown_setting",
        {**OLD, "loss_scale": {"class_name": "DynamicLossScale", "config": {"growth": 2}}},
        TypeError,
        "DynamicLossScale: a keyword must be the name of an argument; got growth=2",
    ),
    (
        "multiplier",
        {**OLD, "loss_scale": {**DYNAMIC, "config": {**DYNAMIC["config"], "multiplier": 4.0}}},
        ValueError,
        "have a multiplier of 2",
    ),
    ("clipping_wrapper", {**K3, "clipnorm": 1.0}, ValueError, "clipnorm must be a setting of the inner"),
    (
        "state_that_none_can_have",
        with_inner(loss_scale_state={"scale": 0.0, "good_steps": 0}),
        SavedStateError,
        "loss_scale_state: scale must be",
    ),
    (
        "state_of_a_fixed_scale",
        {
            **with_inner(loss_scale_state={"scale": 8.0, "good_steps": 0}),
            "dynamic": False,
            "dynamic_growth_steps": None,
        },
        SavedStateError,
        "loss_scale_state must be",
    ),
]


class WrongConfigsTest(unittest.TestCase):
    @parameterized.expand(WRONG)
    def test_is_refused(self, name: str, config: Any, error: type[Exception], named: str) -> None:
        for cls in (Ours, Experimental):
            with self.assertRaisesRegex(error, named) as caught:
                cls.from_config(config)
            self.assertIsInstance(caught.exception, MplsError)

    def test_the_control(self) -> None:
        """What the others were made of is read."""
        for config in (NEW, OLD, K3, with_inner(loss_scale_state={"scale": 8.0, "good_steps": 5})):
            for cls in (Ours, Experimental):
                optimizer = cls.from_config(config)
                self.assertEqual(optimizer.dynamic_growth_steps, 5)
        optimizer = Ours.from_config(with_inner(loss_scale_state={"scale": 8.0, "good_steps": 5}))
        self.assertEqual((float(optimizer.loss_scale), int(optimizer.dynamic_counter)), (8.0, 5))
        self.assertEqual(optimizer.initial_scale, 64.0)

    def test_schedules(self) -> None:
        schedule = {
            "class_name": "ExponentialDecay",
            "config": {"initial_learning_rate": 0.5, "decay_steps": 2, "decay_rate": 0.5},
        }
        optimizer = Ours.from_config(with_inner(config={**SGD["config"], "learning_rate": schedule}))
        self.assertIsInstance(
            optimizer.inner_optimizer.learning_rate, tf_keras.optimizers.schedules.LearningRateSchedule
        )


class FixedKeras3Test(unittest.TestCase):
    """Fixed scales over optimizers of Keras 3, which itself knows none."""

    def setUp(self) -> None:
        # No power of two: what is divided by it is rounded.
        self.optimizer = Ours(keras.optimizers.SGD(), dynamic=False, initial_scale=12.0)
        self.written = keras.optimizers.serialize(self.optimizer)

    def test_users_see_their_settings(self) -> None:
        config = self.optimizer.get_config()
        self.assertEqual((config["dynamic"], config["dynamic_growth_steps"]), (False, None))
        self.assertEqual(self.written["config"]["inner_optimizer"]["loss_scale_state"], {"dynamic": False})
        again = type(self.optimizer).from_config(self.written["config"])
        for each in (keras.optimizers.deserialize(self.written), again):
            self.assertEqual(each.get_config(), config)
            self.assertEqual(len(each.variables), len(self.optimizer.variables))

    @parameterized.expand([("growth", {"dynamic_growth_steps": 5}), ("dynamic", {"dynamic": True})])
    def test_a_mark_that_contradicts_the_settings(self, name: str, settings: dict[str, Any]) -> None:
        config = {**self.written["config"], **settings}
        with self.assertRaisesRegex(SavedStateError, "loss_scale_state"):
            Ours.from_config(dict(config))
        with self.assertRaisesRegex(SavedStateError, "dynamic_growth_steps must be"):
            read_optimizer("config.json", "", config)
