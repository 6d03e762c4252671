"""Which cells of family x mode x devices there are, and why the others are not."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from fnmatch import fnmatch

from .hosts import HOSTS
from .setups import SETUPS
from .stages import DEVICES, MODES


@dataclasses.dataclass(frozen=True)
class Cell:
    """One family in one mode on one or two devices."""

    family: str
    mode: str
    devices: str

    @property
    def name(self) -> str:
        return f"{self.family}_{self.mode}_{self.devices}"


@dataclasses.dataclass(frozen=True)
class Exclusion:
    """Cells, or setups in them, that cannot exist.

    Attributes:
        cells: patterns for names of cells.
        setups: name of a setup, or `*` for all.
        reason: why; a control without loss scaling must fail to train, with a message in which this is found.
        evidence: what is found in the message, a regular expression.
    """

    cells: tuple[str, ...]
    setups: str
    reason: str
    evidence: str

    def covers(self, cell: Cell, setup: str = "*") -> bool:
        return any(fnmatch(cell.name, cells) for cells in self.cells) and self.setups in ("*", setup)


CELLS: tuple[Cell, ...] = tuple(itertools.starmap(Cell, itertools.product(HOSTS, MODES, DEVICES)))

# Nothing else is left out, and nothing is skipped.
EXCLUSIONS: tuple[Exclusion, ...] = (
    Exclusion(
        ("*_new_graph_*",),
        "*",
        "the op that a new tf_keras optimizer returns in a v1 graph updates no variable",
        "no weight has changed",
    ),
    Exclusion(
        ("*_xla_two",),
        "*",
        "a function that XLA compiles is one device's, and cannot reach the variables of another replica",
        "from device",
    ),
    Exclusion(
        ("v1_xla_one", "*_legacy_xla_one"),
        "sparse",
        "XLA has no kernel of the momentum optimizer for sparse gradients",
        "ResourceSparseApply(Keras)?Momentum",
    ),
    Exclusion(
        ("v1_*",),
        "unaggregated",
        "v1 optimizers always sum gradients over replicas",
        "unexpected keyword argument 'experimental_aggregate_gradients'",
    ),
)


def exclusion(cell: Cell, setup: str = "*") -> Exclusion | None:
    """Return why a cell does not exist, or a setup in it; None if it does."""
    return next((excluded for excluded in EXCLUSIONS if excluded.covers(cell, setup)), None)


def exclusions() -> Iterator[tuple[Cell, str, Exclusion]]:
    """Yield every cell, and every setup in a cell, that cannot exist; `*` stands for all setups."""
    for cell in CELLS:
        whole = exclusion(cell)
        if whole is not None:
            yield cell, "*", whole
            continue
        for setup in SETUPS:
            part = exclusion(cell, setup)
            if part is not None:
                yield cell, setup, part


def table() -> str:
    """Return what runs where, with the number of the reason where something does not."""
    columns = list(itertools.product(MODES, DEVICES))
    lines = [_line("", [f"{mode} {devices}" for mode, devices in columns])]
    for family in HOSTS:
        lines.append(_line(family, [_entry(Cell(family, mode, devices)) for mode, devices in columns]))
    for number, entry in enumerate(EXCLUSIONS, start=1):
        what = "" if entry.setups == "*" else f"no {entry.setups}: "
        lines.append(f"({number}) {what}{entry.reason}")
    return "\n".join(lines)


def _entry(cell: Cell) -> str:
    found = sorted({EXCLUSIONS.index(entry) + 1 for other, _, entry in exclusions() if other == cell})
    numbers = "".join(f"({number})" for number in found)
    return f"no {numbers}" if exclusion(cell) else f"yes {numbers}".strip()


def _line(head: str, entries: list[str]) -> str:
    return f"{head:20}" + "".join(f"{entry:15}" for entry in entries).rstrip()
