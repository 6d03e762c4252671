"""What each quick way saves of a whole training step: with all of them and without one, alternating in one process."""

from __future__ import annotations

import contextlib
import fnmatch
import gc
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf

from benchmarks.models import ModelStep
from benchmarks.steps import MPLS
from benchmarks.timing import Samples, measure, pooled
from mpls.core import dynamic, fast, gradients, step

FULL = "all ways"
HEADER = ["", "without", "all ways, ms", "saved, %", "90 % of it", "saved CPU, %", "90 % of it"]

Replacement = tuple[Any, str, Any]


@dataclass(frozen=True)
class ModelCell:
    """A kind of training step of a model.

    Attributes:
        model: its name in `benchmarks.models`.
        family: of the optimizer, as in `benchmarks.cells`.
        mode: as there.
        replicas: their number, one or two.
        is_dynamic: whether the scale adapts.
    """

    model: str
    family: str
    mode: str
    replicas: int = 1
    is_dynamic: bool = True

    @property
    def name(self) -> str:
        """A name that no other cell has: `v1/session/perceptron`."""
        parts = [self.family, self.mode, self.model]
        return "/".join([*parts, *["2 replicas"] * (self.replicas > 1), *["fixed"] * (not self.is_dynamic)])


@dataclass(frozen=True)
class Way:
    """A quick way, and where it is meant to help.

    Attributes:
        replacements: what switches it off: objects, names of attributes, and what they are replaced by.
        cells: where it is measured.
    """

    replacements: tuple[Replacement, ...]
    cells: tuple[ModelCell, ...]


def _never(*_: Any) -> bool:
    return False


def _second_branch(*arguments: Any) -> Any:
    return arguments[2]()


def _cells(modes: str, models: str, families: str = "v1 legacy new keras3", **options: Any) -> tuple[ModelCell, ...]:
    """Return cells for each of several modes, models, of which names have _ for spaces, and families."""
    return tuple(
        ModelCell(model.replace("_", " "), family, mode, **options)
        for mode in modes.split()
        for model in models.split()
        for family in families.split()
        if (family, mode) not in (("new", "session"), ("keras3", "session"))
    )


_SMALL_MODELS = "regression controller deep_perceptron perceptron"
_EAGER = _cells("eager", _SMALL_MODELS)
_GRAPHS = _cells("session function", _SMALL_MODELS)

WAYS: dict[str, Way] = {
    "stacks": Way(((fast, "_FEWEST_TENSORS", 10**9),), _EAGER + _GRAPHS),
    "counting in a branch": Way(((dynamic, "one_of", _second_branch),), _GRAPHS),
    "seldom taken branches as calls": Way(
        ((fast, "_called", lambda build: build()),), _cells("session function", _SMALL_MODELS)
    ),
    "gates": Way(((fast, "_can_be_gated", _never),), _cells("session", _SMALL_MODELS)),
    "one call in eager mode": Way(((fast, "runs_as_one_op", _never),), _EAGER),
    "NumPy in eager mode": Way(((fast, "are_read_by_numpy", _never),), _EAGER),
    "half-precision reciprocals": Way(
        ((fast, "is_unscaled_by_reciprocal", _never),),
        _cells("eager session function", "half_perceptron wide_half_perceptron", "legacy new keras3")
        + _cells("eager function", "half_perceptron wide_half_perceptron", "legacy new", is_dynamic=False),
    ),
    "sums": Way(((fast, "is_read_by_sums", _never),), _cells("eager session function", "perceptron wide_perceptron")),
    "squares": Way(
        ((fast, "is_bounded_by_squares", _never),),
        _cells("eager function", "perceptron wide_perceptron", "v1 keras3", replicas=2),
    ),
    "products for XLA": Way(
        ((fast, "are_read_by_products", _never),), _cells("xla", "perceptron wide_perceptron half_perceptron")
    ),
    "barriers for XLA": Way(
        ((step, "hidden_from_xla", lambda tensor: tensor),), _cells("xla", "controller perceptron wide_perceptron")
    ),
}


class Candidate:
    """A training step without some ways; it has functions of its own for what eager mode calls as one op."""

    def __init__(self, cell: ModelCell, replacements: Sequence[Replacement]) -> None:
        functions = [(each, "_functions", OrderedDict()) for each in _ONE_OPS]
        self._replacements = [*replacements, *functions]
        with self.switched():
            self.model = ModelStep(
                cell.model, cell.family, MPLS, cell.mode, replicas=cell.replicas, is_dynamic=cell.is_dynamic
            )
            # Traces it, or comes to one call.
            for _ in range(4):
                self.model.step()

    @contextlib.contextmanager
    def switched(self) -> Iterator[None]:
        """Switch the ways off in a block; in eager mode, that is where steps have to be taken."""
        with contextlib.ExitStack() as stack:
            for owner, name, replacement in self._replacements:
                stack.enter_context(mock.patch.object(owner, name, replacement))
            yield


_ONE_OPS = (gradients._check, gradients._unscale_as_one_op)


def ways_in(names: Sequence[str], patterns: Sequence[str]) -> dict[ModelCell, list[str]]:
    """Return the ways to switch off in each cell.

    Args:
        names: the ways; all, if it is empty.
        patterns: of the names of cells, as `v1/session/*`.
    """
    found: dict[ModelCell, list[str]] = {}
    for name in names or WAYS:
        for cell in WAYS[name].cells:
            if any(fnmatch.fnmatch(cell.name, pattern) for pattern in patterns):
                found.setdefault(cell, []).append(name)
    return found


def ablate(cell: ModelCell, ways: Sequence[str], seconds: float, builds: int) -> list[dict[str, Any]]:
    """Measure a training step with all ways, and without each of some.

    Args:
        cell: the kind of step.
        ways: names of those to switch off, one at a time.
        seconds: how long to measure, for each candidate.
        builds: how often to build the candidates anew in that time.

    Returns:
        For each way a dict: `name` of the cell, `way`, `seconds` that a step takes with all ways, and `saved` and
        `saved_cpu`, the share of the step without it that it saves, in time and in time of processors: the median over
        the rounds, and the bounds of a 90 % interval.
    """
    samples = pooled([_measured(cell, ways, seconds * (len(ways) + 1) / builds, turn) for turn in range(builds)])
    return [
        {
            "name": cell.name,
            "way": way,
            "seconds": samples.median(FULL),
            "saved": saved(samples.seconds[FULL], samples.seconds[way]),
            "saved_cpu": saved(samples.cpu_seconds[FULL], samples.cpu_seconds[way]),
        }
        for way in ways
    ]


def _measured(cell: ModelCell, ways: Sequence[str], seconds: float, turn: int) -> Samples:
    names = [FULL, *ways]
    first = turn % len(names)
    candidates = {
        name: Candidate(cell, WAYS[name].replacements if name in WAYS else ()) for name in names[first:] + names[:first]
    }
    steps: dict[str, Callable[[], Any]] = {name: each.model.step for name, each in candidates.items()}
    samples = measure(steps, seconds, 400, {name: each.switched for name, each in candidates.items()})
    for each in candidates.values():
        each.model.close()
    candidates.clear()
    steps.clear()
    tf.keras.backend.clear_session()
    gc.collect()
    return samples


def saved(full: np.ndarray, without: np.ndarray) -> tuple[float, float, float]:
    """Return the share that is saved, the median over all rounds, and the bounds of a 90 % interval of it.

    Args:
        full: seconds with the way, a row for each build and a column for each round.
        without: seconds without it, of the same rounds.
    """
    shares = 1 - full / without
    builds, rounds = shares.shape
    random_numbers = np.random.default_rng(1)
    chosen = (
        random_numbers.integers(0, builds, (400, builds, 1)),
        random_numbers.integers(0, rounds, (400, builds, rounds)),
    )
    low, high = np.quantile(np.median(shares[chosen], axis=(1, 2)), (0.05, 0.95))
    return float(np.median(shares)), float(low), float(high)


def line_of(row: dict[str, Any]) -> list[str]:
    """Return a row as cells of a table."""
    cells = [row["name"], row["way"], f"{1e3 * row['seconds']:.3f}"]
    for median, low, high in (row["saved"], row["saved_cpu"]):
        cells += [f"{100 * median:.1f}", f"{100 * low:.1f} to {100 * high:.1f}"]
    return cells
