"""Each option of mpls in every family, mode and setting of devices, beside a control without loss scaling.

A class is a cell, as in the suite without options: `pytest -k "options and keras3_xla_one"` runs one.
"""

from __future__ import annotations

import pytest
from parameterized import parameterized

from .cases import CellCase
from .cells import CELLS, Cell, option_scenarios
from .checks import by_name, close_all
from .scenarios import Scenario
from .setups import OPTION_SETUPS


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


def case_of(cell: Cell) -> type[CellCase]:
    rows = [(f"{scenario.setup}_{scenario.name}", scenario) for scenario in option_scenarios(cell)]
    setups = list(dict.fromkeys(scenario.setup for _, scenario in rows))

    class Case(CellCase):
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
