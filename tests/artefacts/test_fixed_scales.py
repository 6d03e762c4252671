"""Fixed scales over optimizers of Keras 3, which itself knows none: in configs, and in files of earlier releases."""

from __future__ import annotations

import unittest
from typing import Any

import keras
from parameterized import parameterized

import mpls.keras
from mpls.errors import SavedStateError
from mpls.saved.optimizer_configs import read_optimizer
from tests.artefacts.test_writing import state_of, trained_model

# No power of two: what is divided by it is rounded.
FIXED = {"dynamic": False, "initial_scale": 12.0}


class FixedScalesTest(unittest.TestCase):
    def test_users_see_their_settings(self) -> None:
        optimizer = mpls.keras.LossScaleOptimizer(keras.optimizers.SGD(), **FIXED)
        config = optimizer.get_config()
        self.assertEqual((config["dynamic"], config["dynamic_growth_steps"]), (False, None))
        written = keras.optimizers.serialize(optimizer)
        self.assertEqual(written["config"]["inner_optimizer"]["loss_scale_state"], {"dynamic": False})
        for again in (keras.optimizers.deserialize(written), type(optimizer).from_config(written["config"])):
            self.assertEqual(again.get_config(), config)
            self.assertEqual(len(again.variables), len(optimizer.variables))

    @parameterized.expand([("growth", {"dynamic_growth_steps": 5}), ("dynamic", {"dynamic": True})])
    def test_a_mark_that_contradicts_the_settings(self, name: str, settings: dict[str, Any]) -> None:
        optimizer = mpls.keras.LossScaleOptimizer(keras.optimizers.SGD(), **FIXED)
        config = {**keras.optimizers.serialize(optimizer)["config"], **settings}
        with self.assertRaisesRegex(SavedStateError, "loss_scale_state"):
            mpls.keras.LossScaleOptimizer.from_config(dict(config))
        with self.assertRaisesRegex(SavedStateError, "dynamic_growth_steps must be"):
            read_optimizer("config.json", "", config)

    def test_an_older_file_of_a_fixed_scale(self) -> None:
        model = trained_model("keras3", steps=2, **FIXED)
        inner = model.optimizer.inner_optimizer
        store = {str(i): v.numpy() for i, v in enumerate([*model.optimizer._variables, *inner.variables])}
        again = trained_model("keras3", steps=1, **FIXED)
        again.optimizer.load_own_variables(store)
        self.assertEqual(state_of(again.optimizer), state_of(model.optimizer))
