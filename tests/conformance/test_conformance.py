"""One suite for every family, mode and setting of devices, each case beside a control without loss scaling.

A class is a cell: `pytest -k keras_legacy_function_two` runs one, `pytest -k growth_stops` runs one scenario in all.
"""

from __future__ import annotations

import pathlib
import tempfile
import unittest
from fnmatch import fnmatch
from typing import Any, ClassVar

import numpy as np
import pytest
from parameterized import parameterized

from .cells import (
    CELLS,
    TWO_OPTIMIZERS,
    Cell,
    exclusion,
    runs,
    runs_two_optimizers,
    scenarios,
)
from .checks import (
    Pair,
    assert_changed,
    assert_equal,
    assert_replicas_agree,
    assert_same_training,
    assert_scalar,
    by_name,
    close_all,
    stage_of,
)
from .hosts import HOSTS
from .scenarios import Scenario
from .setups import SETUPS, Setup
from .training import Training


def values_of(item: pytest.Item) -> tuple[str, ...] | None:
    """Return the family, mode and devices of a test, and what is built for it."""
    assert isinstance(item, pytest.Function)
    cell: Cell = item.cls.cell
    name = item.name.removeprefix("test_")
    # These wrappers differ from the others in the constructor alone.
    if cell.family.startswith("experimental_"):
        return None
    return cell.family, cell.mode, cell.devices, next((each for each in SETUPS if name.startswith(each)), name)


# Cells in which building costs next to nothing, and those of planted faults that only two replicas show.
ALWAYS = (
    *("*_eager_one::*", "*::Test_v1_graph_cf1_one::*", "*::Test_v1_eager_two::test_minimize_*"),
    *("*::Test_v1_graph_cf2_two::test_minimize_*", "*::Test_keras_*_eager_two::test_unaggregated_*"),
)


def is_always_run(item: pytest.Item) -> bool:
    return any(fnmatch(item.nodeid, pattern) for pattern in ALWAYS)


pytestmark = [
    # Keras 3 says so of the variable that the loss does not depend on.
    pytest.mark.filterwarnings("ignore:Gradients do not exist:UserWarning"),
    pytest.mark.pairwise(of=values_of, always=is_always_run),
]


class CellCase(unittest.TestCase):
    """The tests of one cell; they share what they train, since building costs more than training."""

    cell: Cell
    trainings: dict[str, Training]
    # Controls are shared between cells, where nothing but the scaling differs.
    controls: ClassVar[dict[tuple[Any, ...], Training]] = {}

    @classmethod
    def setUpClass(cls) -> None:
        cls.trainings = {}

    @classmethod
    def tearDownClass(cls) -> None:
        close_all(cls.trainings)

    def build(self, setup: Setup, is_scaled: bool = True) -> Training:
        return Training(HOSTS[self.cell.family], stage_of(self.cell), setup, is_scaled)

    def scaled(self, setup: str) -> Training:
        """Return the training of this cell; its variables are as the last test left them."""
        if setup not in self.trainings:
            training = self.build(SETUPS[setup])
            training.compile()
            if training.is_dynamic:
                # The very first step, in which an optimizer creates its variables, overflows.
                training.step([[np.inf] * len(training.setup.terms)] * training.stage.replicas)
                training.after_first_step = training.state()
            self.trainings[setup] = training
        return self.trainings[setup]

    def control(self, setup: str) -> Training:
        """Return the same training without loss scaling, put back to its start."""
        bare = SETUPS[setup].without_scaling()
        key = (HOSTS[self.cell.family].bare_name, self.cell.mode, self.cell.devices, bare)
        if key not in self.controls:
            control = self.build(bare, is_scaled=False)
            control.compile()
            # It creates its variables, so that all can be put back.
            control.step([[1.0] * len(bare.terms)] * control.stage.replicas)
            self.controls[key] = control
        self.controls[key].reset()
        return self.controls[key]

    def run_scenario(self, scenario: Scenario) -> None:
        scaled, control = self.scaled(scenario.setup), self.control(scenario.setup)
        scaled.reset(*(scenario.start if scaled.is_dynamic else ()))
        before, count = control.state(), 0
        for index, letter in enumerate(scenario.steps):
            what = f"after step {index} ({letter!r})"
            factors = scenario.factors(index, scaled.stage.replicas)
            scaled.step(factors)
            is_applied = control.follow(factors, scenario.is_applied(index))
            count += is_applied or scaled.host.advances_on_skip

            state, expected = scaled.state(), control.state()
            assert_same_training(state, expected, what, scaled.stage.ulps)
            assert_scalar(state.counter, count, f"{what}: step counter")
            assert_scalar(state.scale, scenario.scales[index], f"{what}: scale")
            if scaled.is_dynamic:
                assert_scalar(state.good_steps, scenario.good_steps[index], f"{what}: good steps")
            if scaled.setup.aggregate:
                assert_replicas_agree(state, what)
            if letter == "." and np.isfinite(before.weights[scaled.setup.terms[0]]).all():
                assert_changed(expected.weights, before.weights, scaled.setup.terms, what)
            before = expected
        has_nan = any(np.isnan(part).any() for parts in before.weights.values() for part in parts)
        self.assertEqual(has_nan, "n" in scenario.steps and not scaled.is_dynamic)

    def check_first_step(self, setup: str) -> None:
        scaled, new = self.scaled(setup), self.control(setup).state()
        state = scaled.after_first_step
        assert_scalar(state.scale, scaled.setup.scaling.initial / 2, "scale")
        assert_scalar(state.good_steps, 0, "good steps")
        assert_scalar(state.counter, int(scaled.host.advances_on_skip), "step counter")
        assert_equal(state.weights, new.weights, "weights")
        assert_equal(state.slots, new.slots, "slots")

    def check_refusal_of_no_gradients(self) -> None:
        training = self.scaled("minimize")
        training.reset(8.0, 1)
        before = training.state()

        def apply_nothing(factors: Any) -> Any:
            pairs = [(None, variable) for variable in training.variables.values()]
            return training.host.apply(training.opt, pairs, training.counter)

        with self.assertRaises(ValueError), training.stage.scope():
            training.stage.step(apply_nothing, 1)([[1.0]] * training.stage.replicas)
        after = training.state()
        assert_same_training(after, before, "after the refusal")
        assert_equal(after.scale, before.scale, "scale")
        assert_equal(after.good_steps, before.good_steps, "good steps")

    def check_restoration(self, setup: str) -> None:
        scenario = Scenario("checkpoint", ".+..+...", [], [], setup=setup)
        saved, restored = self.scaled(setup), self.build(SETUPS[setup])
        self.addCleanup(restored.stage.close)
        factors = scenario.all_factors(saved.stage.replicas)
        saved.reset(8.0, 0)
        with tempfile.TemporaryDirectory() as directory:
            for numbers in factors[:3]:
                saved.step(numbers)
            # Neither the scale nor the count is where it started.
            assert_scalar(saved.state().scale, 4.0, "scale")
            assert_scalar(saved.state().good_steps, 1, "good steps")
            path = saved.save(str(pathlib.Path(directory) / "model"))
            restored.restore(path)
            for numbers in factors[3:]:
                saved.step(numbers)
                restored.step(numbers)
                expected, state = saved.state(), restored.state()
                assert_same_training(state, expected, "after the restoration")
                assert_equal(state.scale, expected.scale, "scale")
                assert_equal(state.good_steps, expected.good_steps, "good steps")
            restored.assert_restored()
        assert_scalar(state.scale, 8.0, "scale")
        assert_scalar(state.good_steps, 1, "good steps")

    def check_two_optimizers(self) -> None:
        pair = Pair(self.cell, is_scaled=True)
        self.addCleanup(pair.stage.close)
        scenarios = (
            Scenario("one", ".+...", [], [], setup=Pair.setup),
            Scenario("other", "...n.", [], [], setup=Pair.setup),
        )
        factors = [scenario.all_factors(pair.stage.replicas) for scenario in scenarios]
        for first, second in zip(*factors, strict=True):
            pair.step(first, second)
        # 8, 4, 4, 8, 8 and 64, 64, 128, 64, 64.
        for training, scenario, scale in (pair.one, scenarios[0], 8.0), (pair.other, scenarios[1], 64.0):
            state = training.state()
            assert_same_training(state, self.control_after(scenario).state(), scenario.name, pair.stage.ulps)
            assert_scalar(state.scale, scale, f"scale of {scenario.name}")
            assert_scalar(state.good_steps, 1, f"good steps of {scenario.name}")

    def control_after(self, scenario: Scenario) -> Training:
        control = self.control(scenario.setup)
        for index, numbers in enumerate(scenario.all_factors(control.stage.replicas)):
            control.follow(numbers, scenario.is_applied(index))
        return control


def rows(cell: Cell) -> list[tuple[str, Scenario]]:
    return [
        (f"{scenario.setup}_{scenario.name}", scenario)
        for scenario in scenarios(cell)
        if exclusion(cell, scenario.setup) is None
    ]


def case_of(cell: Cell) -> type[CellCase]:
    first_steps = [("momentum", "minimize"), ("adam", "adam_clipped")]

    class Case(CellCase):
        @parameterized.expand(rows(cell), name_func=by_name)
        def test(self, name: str, scenario: Scenario) -> None:
            self.run_scenario(scenario)

        @parameterized.expand([row for row in first_steps if runs(cell, row[1])], name_func=by_name)
        def test_first_step_ever_overflows(self, name: str, setup: str) -> None:
            self.check_first_step(setup)

        def test_no_gradients_are_refused(self) -> None:
            self.check_refusal_of_no_gradients()

        def test_restored_in_the_middle_goes_on_the_same(self) -> None:
            self.check_restoration("adam_clipped" if runs(cell, "adam_clipped") else "minimize")

        if runs_two_optimizers(cell) and exclusion(cell, TWO_OPTIMIZERS) is None:

            def test_two_optimizers_do_not_disturb_each_other(self) -> None:
                self.check_two_optimizers()

    Case.cell = cell
    Case.__name__ = Case.__qualname__ = f"Test_{cell.name}"
    return Case


# pytest finds the classes by these names.
globals().update({f"Test_{cell.name}": case_of(cell) for cell in CELLS if exclusion(cell) is None})


def tearDownModule() -> None:
    close_all(CellCase.controls)
