"""Each option of mpls in every family, mode and setting of devices, beside a control without loss scaling.

A class is a cell, as in the suite without options: `pytest -k "options and keras3_xla_one"` runs one.
"""

from __future__ import annotations

import pytest
from parameterized import parameterized

from .cases import CellCase
from .cells import CELLS, Cell, option_scenarios
from .checks import assert_scalar, by_name, close_all
from .scenarios import Scenario
from .setups import GIVEN_UP, OPTION_SETUPS, SETUPS
from .training import Training


def values_of(item: pytest.Item) -> tuple[str, ...]:
    """Return the family, mode and devices of a test, and the option that it is of."""
    assert isinstance(item, pytest.Function)
    cell: Cell = item.cls.cell
    name = item.name.removeprefix("test_").removeprefix("restored_")
    option = next(each for each in OPTION_SETUPS if name.startswith(each))
    return cell.family, cell.mode, cell.devices, option


def is_always_run(item: pytest.Item) -> bool:
    """Return whether a test is of a cell in which building costs next to nothing, which finds planted faults."""
    return item.cls.cell.name == "v1_eager_one" and not item.name.startswith("test_restored")


pytestmark = [
    # Keras 3 says so of the variable that the loss does not depend on.
    pytest.mark.filterwarnings("ignore:Gradients do not exist:UserWarning"),
    pytest.mark.default_run("each value", of=values_of, always=is_always_run),
]


class OptionCase(CellCase):
    """The tests of one cell, with what options show after each step."""

    def check_options_after(self, scaled: Training, scenario: Scenario, index: int) -> None:
        what = f"after step {index} ({scenario.steps[index]!r})"
        options = scaled.setup.scaling.options
        taken = [scenario.is_applied(number) for number in range(index + 1)]
        extras = scaled.state().extras
        if scaled.opt._options.needs_record:
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


def _overflows(scenario: Scenario, taken: list[bool]) -> dict[str, tuple[int, int]]:
    """Return the overflows of each variable, and the last step with one, as the steps of a scenario make them."""
    bad = [number for number, is_applied in enumerate(taken, start=1) if not is_applied]
    terms = scenario.at or tuple(SETUPS[scenario.setup].terms[:1])
    return {term: (len(bad), bad[-1]) for term in terms} if bad else {}


def case_of(cell: Cell) -> type[OptionCase]:
    rows = [(f"{scenario.setup}_{scenario.name}", scenario) for scenario in option_scenarios(cell)]
    setups = list(dict.fromkeys(scenario.setup for _, scenario in rows))

    class Case(OptionCase):
        @parameterized.expand(rows, name_func=by_name)
        def test(self, name: str, scenario: Scenario) -> None:
            self.run_scenario(scenario)

        @parameterized.expand([(name,) for name in setups], name_func=by_name)
        def test_restored(self, setup: str) -> None:
            self.check_restoration(setup, ".+..+", ".-.")

    Case.cell = cell
    Case.__name__ = Case.__qualname__ = f"TestOptions_{cell.name}"
    return Case


# pytest finds the classes by these names.
globals().update({f"TestOptions_{cell.name}": case_of(cell) for cell in CELLS if option_scenarios(cell)})


def tearDownModule() -> None:
    close_all(CellCase.controls)
