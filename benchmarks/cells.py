"""The grid: which training steps are measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

FAMILIES = ("v1", "legacy", "new", "keras3")
VARIABLES = (1, 10, 100, 300, 1000)
ELEMENTS = (100, 10_000, 1_000_000, 10_000_000)
# One small, several middle ones, of few and of many variables, and a large one.
QUICK_SIZES = ((1, 100), (100, 100), (10, 10_000), (100, 10_000), (4, 1_000_000))
DTYPES = ("float32", "float16", "bfloat16")
# A machine with 16 GB holds variables, slots, coefficients and gradients of so many, for three candidates.
MOST_ELEMENTS = 100_000_000


@dataclass(frozen=True)
class Cell:
    """A kind of training step.

    Attributes:
        family: `v1` for `tf.compat.v1.train`, `legacy` and `new` for tf_keras, `keras3` for Keras 3.
        mode: `eager`, `session`, `function`, or `xla` for `tf.function(jit_compile=True)`.
        variables: their number.
        elements: the number of elements of each.
        dtype: of the variables, and so of the gradients.
        is_dynamic: whether the scale adapts.
        is_sparse: whether the variables are embeddings with a million rows each, of which one in a hundred is read.
        replicas: their number.
    """

    family: str
    mode: str
    variables: int
    elements: int
    dtype: str = "float32"
    is_dynamic: bool = True
    is_sparse: bool = False
    replicas: int = 1

    @property
    def name(self) -> str:
        """A name that no other cell has: `v1/function/100x10000/float32/dynamic`."""
        parts = [self.family, self.mode, f"{self.variables}x{self.elements}", self.dtype]
        parts.append("dynamic" if self.is_dynamic else "fixed")
        parts += ["sparse"] * self.is_sparse + [f"{self.replicas} replicas"] * (self.replicas > 1)
        return "/".join(parts)


def modes_of(family: str) -> tuple[str, ...]:
    """Return the modes in which optimizers of a family work."""
    return ("eager", "session", "function", "xla") if family in ("v1", "legacy") else ("eager", "function", "xla")


def sizes() -> Iterator[tuple[int, int]]:
    """Yield the numbers of variables and of elements that fit."""
    for variables in VARIABLES:
        for elements in ELEMENTS:
            if variables * elements <= MOST_ELEMENTS:
                yield variables, elements


def grid(kind: str) -> list[Cell]:
    """Return the cells to measure.

    Args:
        kind: `quick` for a few sizes in each family and mode; `usual` for every size in float32 with a dynamic scale,
            and the other dtypes, fixed scales, sparse gradients and replicas at some; `full` for all that there are.
    """
    cells: dict[Cell, None] = {}
    for family in FAMILIES:
        for mode in modes_of(family):
            if kind == "quick":
                cells.update(dict.fromkeys(Cell(family, mode, *size) for size in QUICK_SIZES))
                continue
            for size in sizes():
                cells.update(dict.fromkeys(_cells_of(family, mode, size, is_full=kind == "full")))
            for is_dynamic in (True, False):
                cells[Cell(family, mode, 1, 16_000_000, is_dynamic=is_dynamic, is_sparse=True)] = None
    return list(cells)


def counted(kind: str) -> list[Cell]:
    """Return the cells for which ops, first steps and peaks are counted: many small gradients, and few large ones."""
    sizes = ((100, 100),) if kind == "quick" else ((100, 100), (4, 5_000_000))
    return [Cell(family, mode, *size) for family in FAMILIES for mode in modes_of(family) for size in sizes]


_SOME_SIZES = ((1, 100), (100, 100), (100, 10_000), (10, 1_000_000))
_REPLICATED = ((100, 100), (10, 1_000_000))


def _cells_of(family: str, mode: str, size: tuple[int, int], *, is_full: bool) -> Iterator[Cell]:
    for is_dynamic in (True, False):
        if not is_dynamic and family == "keras3":
            # Keras 3 has no fixed scale.
            continue
        for dtype in DTYPES:
            if is_full or size in _SOME_SIZES or (is_dynamic and dtype == "float32"):
                yield Cell(family, mode, *size, dtype, is_dynamic)
        # XLA compiles no program for several devices.
        if mode != "xla" and (is_full or size in _REPLICATED):
            yield Cell(family, mode, *size, is_dynamic=is_dynamic, replicas=2)
