"""One suite for every family, mode and setting of devices, each case beside a control without loss scaling.

A class is a cell: `pytest -k keras_legacy_function_two` runs one, `pytest -k growth_stops` runs one scenario in all.
"""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Any

import pytest
from parameterized import parameterized

from .cases import CellCase
from .cells import CELLS, TWO_OPTIMIZERS, Cell, runs, scenarios
from .checks import by_name, close_all
from .scenarios import Scenario
from .setups import PLAIN_SETUPS

# Tests whose names do not begin with the setup that they build.
BUILT_FOR = {
    "first_step_ever_overflows_momentum": "minimize",
    "first_step_ever_overflows_adam": "adam_clipped",
    "no_gradients_are_refused": "minimize",
}


def values_of(item: pytest.Item) -> tuple[Any, ...]:
    """Return the family, mode and devices of a test, and what is built for it."""
    assert isinstance(item, pytest.Function)
    cell: Cell = item.cls.cell
    name = item.name.removeprefix("test_")
    built = next((each for each in PLAIN_SETUPS if name.startswith(each)), BUILT_FOR.get(name, name))
    return (cell.family, cell.mode), cell.devices, built


# Cells in which building costs next to nothing, and those of planted faults that only two replicas show.
ALWAYS = (
    *("*::Test_[kv]*_eager_one::*", "*::Test_v1_graph_cf1_one::*", "*::Test_v1_eager_two::test_minimize_*"),
    *("*::Test_v1_graph_cf2_two::test_minimize_*", "*::Test_keras_*_eager_two::test_unaggregated_*"),
)


def is_always_run(item: pytest.Item) -> bool:
    return any(fnmatch(item.nodeid, pattern) for pattern in ALWAYS)


pytestmark = [
    # Keras 3 says so of the variable that the loss does not depend on.
    pytest.mark.filterwarnings("ignore:Gradients do not exist:UserWarning"),
    pytest.mark.default_run("each value", of=values_of, always=is_always_run),
]


def case_of(cell: Cell) -> type[CellCase]:
    first_steps = [("momentum", "minimize"), ("adam", "adam_clipped")]
    rows = [(f"{scenario.setup}_{scenario.name}", scenario) for scenario in scenarios(cell)]

    class Case(CellCase):
        @parameterized.expand(rows, name_func=by_name)
        def test(self, name: str, scenario: Scenario) -> None:
            self.run_scenario(scenario)

        @parameterized.expand([row for row in first_steps if runs(cell, row[1])], name_func=by_name)
        def test_first_step_ever_overflows(self, name: str, setup: str) -> None:
            self.check_first_step(setup)

        def test_no_gradients_are_refused(self) -> None:
            self.check_refusal_of_no_gradients()

        def test_restored_in_the_middle_goes_on_the_same(self) -> None:
            # Neither the scale nor the count is where it started, and the first step afterwards is a bad one.
            self.check_restoration("adam_clipped" if runs(cell, "adam_clipped") else "minimize", ".+.", "+....")

        if runs(cell, TWO_OPTIMIZERS):

            def test_two_optimizers_do_not_disturb_each_other(self) -> None:
                self.check_two_optimizers()

    Case.cell = cell
    Case.__name__ = Case.__qualname__ = f"Test_{cell.name}"
    return Case


# pytest finds the classes by these names.
globals().update({f"Test_{cell.name}": case_of(cell) for cell in CELLS})


def tearDownModule() -> None:
    close_all(CellCase.controls)
