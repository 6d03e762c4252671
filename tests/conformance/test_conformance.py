"""One suite for every family, mode and setting of devices, each case beside a control without loss scaling.

A class is a cell: `pytest -k keras_legacy_function_two` runs one, `pytest -k growth_stops` runs one scenario in all.
"""

from __future__ import annotations

import dataclasses
import pathlib
import tempfile
import unittest
from typing import Any, ClassVar
from unittest import mock

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from parameterized import parameterized
from tensorflow.python.distribute import mirrored_strategy

from mpls.errors import MplsError

from .cells import (
    CELLS,
    EXCLUSIONS,
    TWO_OPTIMIZERS,
    Cell,
    Evidence,
    Exclusion,
    exclusion,
    exclusions,
    runs,
    runs_two_optimizers,
    scenarios,
)
from .devices import DEVICES
from .hosts import HOSTS
from .scenarios import Scenario
from .setups import SETUPS, Scaling, Setup
from .stages import MODES, Factors, Stage
from .training import State, Training, Values

# Keras 3 says so of the variable that the loss does not depend on.
pytestmark = pytest.mark.filterwarnings("ignore:Gradients do not exist:UserWarning")


def stage_of(cell: Cell) -> Stage:
    return MODES[cell.mode](DEVICES[cell.devices])


def by_name(function: Any, index: int, call: Any) -> str:
    del index
    return f"{function.__name__}_{call.args[0]}"


def assert_equal(actual: Values, expected: Values, what: str, ulps: int = 0) -> None:
    """Require the same numbers, to the last bit or but for a few, on every replica."""
    assert actual.keys() == expected.keys(), f"{what}: {sorted(actual)} is not {sorted(expected)}"
    for name, parts in actual.items():
        for replica, (part, wanted) in enumerate(zip(parts, expected[name], strict=True)):
            assert part.dtype == wanted.dtype, f"{what}: {name} is {part.dtype}"
            is_same = part.tobytes() == wanted.tobytes() or is_within(ulps, part, wanted)
            assert is_same, f"{what}: {name} on replica {replica}: {part!r} is not {wanted!r}"


def is_within(ulps: int, actual: np.ndarray, expected: np.ndarray) -> bool:
    """Return whether arrays differ by a few last bits of the largest element; sums that cancel lose those of theirs."""
    if not ulps:
        return False
    allowed = ulps * float(ml_dtypes.finfo(expected.dtype).eps) * np.max(np.abs(expected))
    return bool(np.allclose(actual.astype(np.float64), expected.astype(np.float64), rtol=0.0, atol=float(allowed)))


def assert_changed(after: Values, before: Values, names: list[str], what: str) -> None:
    for name in names:
        for part, old in zip(after[name], before[name], strict=True):
            assert part.tobytes() != old.tobytes(), f"{what}: {name}: no weight has changed"


def assert_same_training(actual: State, expected: State, what: str, ulps: int = 0) -> None:
    assert_equal(actual.weights, expected.weights, f"{what}: weights", ulps)
    assert_equal(actual.slots, expected.slots, f"{what}: slots", ulps)
    assert_equal(actual.counter, expected.counter, f"{what}: step counter")


def assert_scalar(values: Values, expected: Any, what: str) -> None:
    """Require a scalar to have a value on every replica."""
    for parts in values.values():
        assert [part.item() for part in parts] == [expected] * len(parts), f"{what}: {parts!r} is not {expected!r}"


def assert_replicas_agree(state: State, what: str) -> None:
    for kind in dataclasses.fields(state):
        values = getattr(state, kind.name)
        assert_equal(values, {name: parts[:1] * len(parts) for name, parts in values.items()}, f"{what}: {kind.name}")


def close_all(trainings: dict[Any, Training]) -> None:
    for training in trainings.values():
        training.stage.close()
    trainings.clear()


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


class Pair:
    """Two trainings with an optimizer each, that take their steps together."""

    setup = "float16"

    def __init__(self, cell: Cell, is_scaled: bool) -> None:
        self.stage = stage_of(cell)
        host, setup = HOSTS[cell.family], SETUPS[self.setup]
        self.one = Training(host, self.stage, setup, is_scaled, prefix="one_")
        other_setup = dataclasses.replace(setup, scaling=Scaling(64.0, 3))
        self.other = Training(host, self.stage, other_setup, is_scaled, prefix="other_")
        terms = len(setup.terms)

        def step_both(factors: Any) -> Any:
            results = self.one.replica_step(factors[:terms]), self.other.replica_step(factors[terms:])
            return tf.group([op for op in results if isinstance(op, tf.Operation)])

        with self.stage.scope():
            self._step = self.stage.step(step_both, 2 * terms)

    def step(self, factors: Factors, others: Factors) -> None:
        self._step([[*numbers, *more] for numbers, more in zip(factors, others, strict=True)])


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
    def test_control_fails(self, name: str, cell: Cell, setup: str, entry: Exclusion) -> None:
        with self.assertRaisesRegex(self.ERRORS, entry.evidence):
            self.take_one_step(cell, setup, is_scaled=False)

    @parameterized.expand(excluded(Evidence.CONTROL), name_func=by_name)
    def test_scaled_raises(self, name: str, cell: Cell, setup: str, entry: Exclusion) -> None:
        with self.assertRaises((MplsError, TypeError, RuntimeError, tf.errors.InvalidArgumentError)):
            self.take_one_step(cell, setup, is_scaled=True)

    @parameterized.expand(excluded(Evidence.NO_CONTROL), name_func=by_name)
    def test_scaled_trains_without_a_control(self, name: str, cell: Cell, setup: str, entry: Exclusion) -> None:
        take_one_step(self.training(cell, setup, is_scaled=True))

    @parameterized.expand(excluded(Evidence.ORIGINAL), name_func=by_name)
    def test_original_fails(self, name: str, cell: Cell, setup: str, entry: Exclusion) -> None:
        with self.assertRaisesRegex((TypeError, ValueError), entry.evidence):
            take_one_step(self.original(cell, setup))

    @parameterized.expand(excluded(Evidence.ORIGINAL), name_func=by_name)
    def test_scaled_refuses_before_the_first_step(self, name: str, cell: Cell, setup: str, entry: Exclusion) -> None:
        with self.assertRaisesRegex((MplsError, TypeError), "Use tf.distribute.Mirrored|multiplier"):
            self.training(cell, setup, is_scaled=True)

    @parameterized.expand(excluded(Evidence.TENSORFLOW), name_func=by_name)
    def test_tensorflow_merges(self, name: str, cell: Cell, setup: str, entry: Exclusion) -> None:
        self.assertEqual(ways_of_meeting(cell.mode), {entry.evidence})

    def test_tensorflow_does_not_merge_in_functions_that_xla_compiles(self) -> None:
        self.assertEqual(ways_of_meeting("xla"), {"uses collective ops"})

    def test_control_and_original_train_elsewhere(self) -> None:
        take_one_step(self.training(Cell("v1", "eager", "one"), "adam_clipped", is_scaled=False))
        for family in ("keras_legacy", "keras_new", "keras3_apply"):
            take_one_step(self.original(Cell(family, "eager", "two"), "adam_clipped"))

    def test_every_entry_excludes_something(self) -> None:
        used = {entry for _, _, entry in exclusions()}
        self.assertEqual(used, set(EXCLUSIONS))


def ways_of_meeting(mode: str) -> set[str]:
    """Return how the replicas of a MirroredStrategy, whose devices are taken for GPUs, meet in a mode."""
    ways = set()
    stage = MODES[mode](DEVICES["two"])

    def look(factors: Any) -> Any:
        ways.add("merges" if stage.strategy.extended._use_merge_call() else "uses collective ops")
        return None if tf.executing_eagerly() else tf.no_op()

    with stage.scope(), mock.patch.object(mirrored_strategy, "_is_gpu_device", return_value=True):
        stage.step(look, 1)([[1.0], [1.0]])
    stage.close()
    return ways
