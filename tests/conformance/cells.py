"""Which cells of family x mode x devices there are, and why the others are not."""

from __future__ import annotations

import dataclasses
import itertools
from fnmatch import fnmatch

from .devices import DEVICES
from .hosts import HOSTS
from .scenarios import OPTION_SCENARIOS, SCENARIOS, Scenario
from .setups import SETUPS
from .stages import MODES

TWO_OPTIMIZERS = "two_optimizers"


@dataclasses.dataclass(frozen=True)
class Cell:
    """One family in one mode on one setting of devices."""

    family: str
    mode: str
    devices: str

    @property
    def name(self) -> str:
        return f"{self.family}_{self.mode}_{self.devices}"


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """What is not run in some cells, because it cannot exist or cannot be compared, or because another shows it.

    Attributes:
        cells: patterns for names of cells.
        setups: names of setups, or `TWO_OPTIMIZERS` for the test of that name; none for the whole cell.
        reason: why.
    """

    cells: tuple[str, ...]
    setups: tuple[str, ...]
    reason: str

    def covers(self, cell: Cell, setup: str) -> bool:
        return any(fnmatch(cell.name, cells) for cells in self.cells) and (not self.setups or setup in self.setups)


LEFT_OUT: tuple[LeftOut, ...] = (
    LeftOut(
        ("*_graph_*_nomerge", "*_eager_nomerge"),
        (),
        "merge_call is forbidden only in functions that XLA compiles, for which functions stand here",
    ),
    LeftOut(
        ("*_mirrored1",),
        (*(name for name in SETUPS if name != "minimize"), TWO_OPTIMIZERS),
        "with one replica, a strategy decides where variables are and which context a step is in, not what is "
        "computed; optimizers, dtypes and sparse gradients are tried without one",
    ),
    LeftOut(
        tuple(f"keras3_apply_*_{devices}" for devices in ("nomerge", "central2", "mirrored1")),
        (),
        "this family differs from keras3 in the calls of a step",
    ),
    LeftOut(
        ("*_graph_*_two", "*_eager_two"),
        ("bfloat16", "float64"),
        "with two replicas float16 stands for the dtypes, since it is TensorFlow that adds them up",
    ),
    LeftOut(
        ("keras3_apply_*",),
        ("unscaled_is_checked", "together"),
        "apply() unscales by itself what it applies, so that a program cannot hide what overflows",
    ),
    LeftOut(
        ("v1_*_nomerge", "keras3*_nomerge"),
        (),
        "v1 optimizers apply gradients in a merge_call, and those of Keras 3 count steps in one",
    ),
    LeftOut(("keras_*_central2",), (), "tf_keras does not scale losses under this strategy"),
    LeftOut(
        ("*_new_graph_*", "keras3*_graph_*"),
        (),
        "what new tf_keras and Keras 3 optimizers return in a v1 graph is no op that updates a variable",
    ),
    LeftOut(("keras3*_central2",), (), "the scaled step of Keras 3 fails where replicas share their variables"),
    LeftOut(
        ("*_xla_two", "*_xla_nomerge"),
        (),
        "a function that XLA compiles is one device's, and cannot reach the variables of another replica",
    ),
    LeftOut(
        ("v1_xla_*", "*_legacy_xla_*"),
        ("sparse",),
        "XLA has no kernel of the momentum optimizer for sparse gradients",
    ),
    LeftOut(
        ("v1_function_central2", "v1_xla_central2"),
        (TWO_OPTIMIZERS,),
        "TensorFlow cannot group what two v1 optimizers with step counters return",
    ),
    LeftOut(("v1_*", "keras3_*"), ("unaggregated",), "these optimizers always sum gradients over replicas"),
    LeftOut(("keras*",), ("by_four",), "Keras wrappers only double and halve"),
)


def runs(cell: Cell, setup: str) -> bool:
    """Return whether a setup is run in a cell."""
    return not any(each.covers(cell, setup) for each in LEFT_OUT)


_ALL_CELLS = tuple(itertools.starmap(Cell, itertools.product(HOSTS, MODES, DEVICES)))
CELLS: tuple[Cell, ...] = tuple(cell for cell in _ALL_CELLS if runs(cell, "minimize"))


def scenarios(cell: Cell) -> list[Scenario]:
    """Return what is run in a cell."""
    replicas = DEVICES[cell.devices].replicas
    return [scenario for scenario in SCENARIOS if runs(cell, scenario.setup) and scenario.runs_on(replicas)]


def option_scenarios(cell: Cell) -> list[Scenario]:
    """Return what is run with options in a cell."""
    return [scenario for scenario in OPTION_SCENARIOS if runs(cell, scenario.setup)]
