"""What the tests of a cell do: the steps of a scenario, beside a control without loss scaling."""

from __future__ import annotations

import pathlib
import tempfile
import unittest
from typing import Any, ClassVar

import numpy as np

from .cells import Cell
from .checks import (
    Pair,
    assert_changed,
    assert_equal,
    assert_replicas_agree,
    assert_same_training,
    assert_scalar,
    close_all,
    stage_of,
)
from .hosts import HOSTS
from .scenarios import Scenario
from .setups import GIVEN_UP, SETUPS, Setup
from .training import Training


def _overflows(scenario: Scenario, taken: list[bool]) -> dict[str, tuple[int, int]]:
    """Return the overflows of each variable, and the last step with one, as the steps of a scenario make them."""
    bad = [number for number, is_applied in enumerate(taken, start=1) if not is_applied]
    terms = scenario.at or tuple(SETUPS[scenario.setup].terms[:1])
    return {term: (len(bad), bad[-1]) for term in terms} if bad else {}


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
            if index in scenario.changes:
                scaled.change(scenario.changes[index])
            factors = scenario.factors(index, scaled.stage.replicas)
            scaled.step(factors)
            is_applied = control.follow(factors, scenario.is_applied(index), scaled.advances_on_skip)
            count += is_applied or scaled.advances_on_skip

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
            self.check_options_after(scaled, scenario, index)
            before = expected
        has_nan = any(np.isnan(part).any() for parts in before.weights.values() for part in parts)
        self.assertEqual(has_nan, "n" in scenario.steps and not scaled.setup.scaling.skips)

    def check_options_after(self, scaled: Training, scenario: Scenario, index: int) -> None:
        """Require what options show after a step to be what the steps of a scenario make of it."""
        what = f"after step {index} ({scenario.steps[index]!r})"
        options = scaled.setup.scaling.options
        taken = [scenario.is_applied(number) for number in range(index + 1)]
        if scaled.opt._options.needs_record:
            extras = scaled.state().extras
            counts = {
                "applied_steps": sum(taken),
                "skipped_steps": len(taken) - sum(taken),
                "consecutive_skips": taken[::-1].index(True) if any(taken) else len(taken),
            }
            for name, count in counts.items():
                assert_scalar({name: extras[name]}, count, f"{what}: {name}")
        if options.get("track_overflows"):
            self.assertEqual(scaled.overflows(), _overflows(scenario, taken), what)
        if index == len(scenario.steps) - 1 and "max_consecutive_skips" in options:
            self.check_giving_up(scaled, scenario, counts["consecutive_skips"])

    def check_giving_up(self, scaled: Training, scenario: Scenario, in_a_row: int) -> None:
        GIVEN_UP.clear()
        scaled.check_skips()
        self.assertEqual([stuck.consecutive_skips for stuck in GIVEN_UP], [in_a_row] if scenario.gives_up else [])
        for stuck in GIVEN_UP:
            variables = [name.rpartition("/")[2] for name in stuck.variables]
            self.assertEqual(variables, list(scenario.at or scaled.setup.terms[:1]))
            self.assertEqual(len(stuck.recent_scales), in_a_row)

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

    def check_restoration(self, setup: str, before: str, after: str) -> None:
        """Save after some steps, and take the others with what was restored too."""
        scenario = Scenario("checkpoint", before + after, [], [], setup=setup)
        saved, restored = self.scaled(setup), self.build(SETUPS[setup])
        self.addCleanup(restored.stage.close)
        factors = scenario.all_factors(saved.stage.replicas)
        saved.reset(*((8.0, 0) if saved.is_dynamic else ()))
        with tempfile.TemporaryDirectory() as directory:
            for numbers in factors[: len(before)]:
                saved.step(numbers)
            restored.restore(saved.save(str(pathlib.Path(directory) / "model")))
            for numbers in factors[len(before) :]:
                saved.step(numbers)
                restored.step(numbers)
                expected, state = saved.state(), restored.state()
                assert_same_training(state, expected, "after the restoration", saved.stage.ulps)
                for kind in "scale", "good_steps", "extras":
                    assert_equal(getattr(state, kind), getattr(expected, kind), kind)
            restored.assert_restored()
        if saved.setup.scaling.options.get("track_overflows"):
            self.assertEqual(restored.overflows(), saved.overflows())

    def check_two_optimizers(self) -> None:
        pair = Pair(self.cell)
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
            control.follow(numbers, scenario.is_applied(index), control.advances_on_skip)
        return control
