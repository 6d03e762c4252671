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
class Exclusion:
    """Cells, or setups in them, that cannot exist or cannot be compared.

    Attributes:
        cells: patterns for names of cells.
        setups: name of a setup, or `TWO_OPTIMIZERS` for the test of that name, or `*` for all.
        reason: why.
    """

    cells: tuple[str, ...]
    setups: str
    reason: str

    def covers(self, cell: Cell, setup: str = "*") -> bool:
        return any(fnmatch(cell.name, cells) for cells in self.cells) and self.setups in ("*", setup)


def _all_setups_but(*names: str) -> tuple[str, ...]:
    return tuple(name for name in SETUPS if name not in names)


@dataclasses.dataclass(frozen=True)
class Subset:
    """Cells that exist, and in which less is run than would be possible.

    Attributes:
        cells: patterns for names of cells.
        setups: names of the setups that run; none if the cells are not run at all.
        why: why that is enough.
    """

    cells: tuple[str, ...]
    setups: tuple[str, ...]
    why: str

    def covers(self, cell: Cell) -> bool:
        return any(fnmatch(cell.name, cells) for cells in self.cells)


SUBSETS: tuple[Subset, ...] = (
    Subset(
        ("*_graph_*_nomerge", "*_eager_nomerge"),
        (),
        "merge_call is forbidden only in functions that XLA compiles, for which functions stand here",
    ),
    Subset(
        ("*_mirrored1",),
        ("minimize",),
        "with one replica, a strategy decides where variables are and which context a step is in, not what is "
        "computed; optimizers, dtypes and sparse gradients are tried without one",
    ),
    Subset(
        tuple(f"keras3_apply_*_{devices}" for devices in ("nomerge", "central2", "mirrored1")),
        (),
        "this family differs from keras3 in the calls of a step",
    ),
    Subset(
        ("*_graph_*_two", "*_eager_two"),
        _all_setups_but("bfloat16", "float64"),
        "with two replicas float16 stands for the dtypes, since it is TensorFlow that adds them up",
    ),
    Subset(
        ("keras3_apply_*",),
        _all_setups_but("unscaled_is_checked", "together"),
        "apply() unscales by itself what it applies, so that a program cannot hide what overflows",
    ),
)


def runs(cell: Cell, setup: str) -> bool:
    """Return whether a setup is run in a cell, if it can be."""
    return all(setup in subset.setups for subset in SUBSETS if subset.covers(cell))


ALL_CELLS: tuple[Cell, ...] = tuple(itertools.starmap(Cell, itertools.product(HOSTS, MODES, DEVICES)))
CELLS: tuple[Cell, ...] = tuple(cell for cell in ALL_CELLS if runs(cell, "minimize"))

# Of what is run, nothing else is left out, and nothing is skipped. The first that covers a cell is the one shown.
EXCLUSIONS: tuple[Exclusion, ...] = (
    Exclusion(
        ("v1_*_nomerge", "keras3*_nomerge"),
        "*",
        "v1 optimizers apply gradients in a merge_call, and those of Keras 3 count steps in one",
    ),
    Exclusion(("keras_*_central2",), "*", "tf_keras does not scale losses under this strategy"),
    Exclusion(
        ("*_new_graph_*", "keras3*_graph_*"),
        "*",
        "what new tf_keras and Keras 3 optimizers return in a v1 graph is no op that updates a variable",
    ),
    Exclusion(("keras3*_central2",), "*", "the scaled step of Keras 3 fails where replicas share their variables"),
    Exclusion(
        ("*_xla_two", "*_xla_nomerge"),
        "*",
        "a function that XLA compiles is one device's, and cannot reach the variables of another replica",
    ),
    Exclusion(
        ("v1_xla_*", "*_legacy_xla_*"),
        "sparse",
        "XLA has no kernel of the momentum optimizer for sparse gradients",
    ),
    Exclusion(
        ("v1_function_central2", "v1_xla_central2"),
        TWO_OPTIMIZERS,
        "TensorFlow cannot group what two v1 optimizers with step counters return",
    ),
    Exclusion(("v1_*", "keras3_*"), "unaggregated", "these optimizers always sum gradients over replicas"),
    Exclusion(("keras*",), "by_four", "Keras wrappers only double and halve"),
)


def exclusion(cell: Cell, setup: str = "*") -> Exclusion | None:
    """Return why a cell does not exist, or a setup in it; None if it does."""
    return next((excluded for excluded in EXCLUSIONS if excluded.covers(cell, setup)), None)


def scenarios(cell: Cell) -> list[Scenario]:
    """Return what is run in a cell, if it can be."""
    replicas = DEVICES[cell.devices].replicas
    return [scenario for scenario in SCENARIOS if runs(cell, scenario.setup) and scenario.runs_on(replicas)]


def option_scenarios(cell: Cell) -> list[Scenario]:
    """Return what is run with options in a cell that exists."""
    return [scenario for scenario in OPTION_SCENARIOS if runs(cell, scenario.setup)]


def runs_two_optimizers(cell: Cell) -> bool:
    """Return whether two optimizers are tried side by side in a cell, if they can be; it needs their setup."""
    return runs(cell, "float16")
