"""What the table leaves out cannot be, and the tests that show it."""

from __future__ import annotations

import unittest
from typing import ClassVar

import pytest
import tensorflow as tf
from parameterized import parameterized

from mpls.errors import MplsError

from .cells import EXCLUSIONS, TWO_OPTIMIZERS, Cell, Evidence, Exclusion, exclusions
from .checks import Pair, assert_changed, by_name, stage_of
from .hosts import HOSTS
from .setups import SETUPS
from .stages import Factors
from .training import Training

# Keras 3 says so of the variable that the loss does not depend on.
pytestmark = pytest.mark.filterwarnings("ignore:Gradients do not exist:UserWarning")


def take_one_step(training: Training) -> None:
    """Train, or say why it cannot be done."""
    factors: Factors = [[1.0] * len(training.setup.terms)] * training.stage.replicas
    before = training.initial_weights()
    training.compile()
    training.step(factors)
    assert_changed(training.weights(), before, training.setup.terms, "after a step")


def excluded(*kinds: Evidence) -> list[tuple[str, Cell, str, Exclusion]]:
    """Return what is shown by evidence of these kinds, with a setup to show it on."""
    return [
        (f"{cell.name}_{setup.replace('*', 'all')}", cell, setup.replace("*", "adam_clipped"), entry)
        for cell, setup, entry in exclusions()
        if entry.shown_by in kinds
    ]


class TestExclusions(unittest.TestCase):
    """What is left out works nowhere else either, and is not taken for a success with loss scaling."""

    ERRORS: ClassVar = (TypeError, ValueError, RuntimeError, tf.errors.InvalidArgumentError, AssertionError)

    def take_one_step(self, cell: Cell, setup: str, is_scaled: bool) -> None:
        if setup == TWO_OPTIMIZERS:
            pair = Pair(cell, is_scaled)
            self.addCleanup(pair.stage.close)
            pair.step([[1.0]] * pair.stage.replicas, [[1.0]] * pair.stage.replicas)
        else:
            take_one_step(self.training(cell, setup, is_scaled))

    def training(self, cell: Cell, setup: str, is_scaled: bool) -> Training:
        stage = stage_of(cell)
        self.addCleanup(stage.close)
        return Training(HOSTS[cell.family], stage, SETUPS[setup], is_scaled)

    def original(self, cell: Cell, setup: str) -> Training:
        stage = stage_of(cell)
        self.addCleanup(stage.close)
        return Training(HOSTS[cell.family].native_host, stage, SETUPS[setup], is_scaled=True, is_native=True)

    @parameterized.expand(excluded(Evidence.CONTROL, Evidence.NO_CONTROL), name_func=by_name)
    @pytest.mark.default_run("each value", by=lambda name, cell, setup, entry: (entry.reason,))
    def test_control_fails(self, name: str, cell: Cell, setup: str, entry: Exclusion) -> None:
        with self.assertRaisesRegex(self.ERRORS, entry.evidence):
            self.take_one_step(cell, setup, is_scaled=False)

    @parameterized.expand(excluded(Evidence.CONTROL), name_func=by_name)
    @pytest.mark.default_run("each value", by=lambda name, cell, setup, entry: (entry.reason,))
    def test_scaled_raises(self, name: str, cell: Cell, setup: str, entry: Exclusion) -> None:
        with self.assertRaises((MplsError, TypeError, RuntimeError, tf.errors.InvalidArgumentError)):
            self.take_one_step(cell, setup, is_scaled=True)

    @parameterized.expand(excluded(Evidence.NO_CONTROL), name_func=by_name)
    @pytest.mark.default_run("each value", by=lambda name, cell, setup, entry: (entry.reason,))
    def test_scaled_trains_without_a_control(self, name: str, cell: Cell, setup: str, entry: Exclusion) -> None:
        take_one_step(self.training(cell, setup, is_scaled=True))

    @parameterized.expand(excluded(Evidence.ORIGINAL), name_func=by_name)
    @pytest.mark.default_run("each value", by=lambda name, cell, setup, entry: (entry.reason,))
    def test_original_fails(self, name: str, cell: Cell, setup: str, entry: Exclusion) -> None:
        with self.assertRaisesRegex((TypeError, ValueError), entry.evidence):
            take_one_step(self.original(cell, setup))

    @parameterized.expand(excluded(Evidence.ORIGINAL), name_func=by_name)
    def test_scaled_refuses_before_the_first_step(self, name: str, cell: Cell, setup: str, entry: Exclusion) -> None:
        with self.assertRaisesRegex((MplsError, TypeError), "Use tf.distribute.Mirrored|multiplier"):
            self.training(cell, setup, is_scaled=True)

    def test_control_and_original_train_elsewhere(self) -> None:
        take_one_step(self.training(Cell("v1", "eager", "one"), "adam_clipped", is_scaled=False))
        for family in ("keras_legacy", "keras_new", "keras3_apply"):
            take_one_step(self.original(Cell(family, "eager", "two"), "adam_clipped"))

    def test_every_entry_excludes_something(self) -> None:
        used = {entry for _, _, entry in exclusions()}
        self.assertEqual(used, set(EXCLUSIONS))
