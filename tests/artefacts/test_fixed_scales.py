"""Fixed scales in files: what the frameworks read without mpls (Keras 3 knows none), and what mpls reads again."""

from __future__ import annotations

import unittest
import warnings
from typing import Any

import keras
import pytest
from parameterized import parameterized

import mpls.experimental
import mpls.keras
from mpls.errors import MplsDeprecationWarning, MplsWarning, SavedStateError
from mpls.saved.optimizer_configs import read_optimizer
from mpls.saved.reading import read
from tests.artefacts.test_writing import (
    CASES,
    FAMILIES,
    TemporaryFolderTestCase,
    quiet_about_h5,
    save,
    state_of,
    trained_model,
)

# No power of two: what is divided by it is rounded.
FIXED = {"dynamic": False, "initial_scale": 12.0}


class Mine(mpls.keras.LossScaleOptimizer):
    """Of a user, with a setting of its own."""

    def __init__(self, inner_optimizer: Any, factor: float = 1.0, **kwargs: Any) -> None:
        super().__init__(inner_optimizer, **kwargs)
        self.factor = factor

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "factor": self.factor}


def experimental(inner: Any, dynamic: bool, initial_scale: float) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MplsDeprecationWarning)
        return mpls.experimental.LossScaleOptimizer(inner, "dynamic" if dynamic else initial_scale)


KINDS = {"public": mpls.keras.LossScaleOptimizer, "experimental": experimental, "mine": Mine}


class FixedScalesTest(TemporaryFolderTestCase):
    @parameterized.expand(
        [(f"{name}_{kind}", family, suffix, kind) for name, family, suffix in CASES if suffix for kind in KINDS]
    )
    @pytest.mark.default_run("one case")
    def test_they_come_back(self, name: str, family: str, suffix: str, kind: str) -> None:
        model = trained_model(family, KINDS[kind], steps=2, **FIXED)
        for by_mpls in (False, True):
            path = self.folder / f"{by_mpls}{suffix}"
            with quiet_about_h5():
                mpls.keras.save_model(model, path) if by_mpls else model.save(path)
            for load in (FAMILIES[family][0].models.load_model, mpls.keras.load_model):
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", ".*does not hold the optimizer's iterations", MplsWarning)
                    loaded = load(path, custom_objects={each.__name__: each for each in (Mine,)})
                optimizer = loaded.optimizer
                self.assertEqual(optimizer.get_config(), model.optimizer.get_config())
                self.assertEqual((optimizer.dynamic, optimizer.dynamic_counter), (False, None))
                if kind == "mine":
                    self.assertIs(type(optimizer), type(model.optimizer))
                self.assertIn(mpls.keras.LossScaleOptimizer, type(optimizer).__mro__)
                if load is mpls.keras.load_model and (by_mpls or family != "legacy" or suffix == ".h5"):
                    self.assertEqual(state_of(optimizer), state_of(model.optimizer))

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

    @parameterized.expand([(".keras", ".keras"), (".h5", ".h5")])
    def test_readers_of_files_know_them(self, name: str, suffix: str) -> None:
        save(trained_model("keras3", steps=2, **FIXED), self.folder / f"model{suffix}")
        (optimizer,) = read(self.folder / f"model{suffix}").optimizers
        scale = optimizer.loss_scale
        assert scale is not None
        self.assertEqual((scale.dynamic, scale.scale, scale.good_steps), (False, 12.0, None))

    def test_an_older_file_of_a_fixed_scale(self) -> None:
        model = trained_model("keras3", steps=2, **FIXED)
        inner = model.optimizer.inner_optimizer
        store = {str(i): v.numpy() for i, v in enumerate([*model.optimizer._variables, *inner.variables])}
        again = trained_model("keras3", steps=1, **FIXED)
        again.optimizer.load_own_variables(store)
        self.assertEqual(state_of(again.optimizer), state_of(model.optimizer))


if __name__ == "__main__":
    unittest.main()
