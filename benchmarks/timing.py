"""Times of several candidates, measured alternately in one process."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import numpy as np

# Long enough for the clock; short enough for other work on the machine to slow down all candidates alike.
_SAMPLE_SECONDS = 0.004
_WARM_UP_CALLS = 5


@dataclass(frozen=True)
class Samples:
    """Seconds per call of each candidate.

    Attributes:
        seconds: by candidate, an array with a row for each time that the candidates were built and a column for each
            round; in a round every candidate has been measured, in an order of its own.
        cpu_seconds: the same, of the time that all processors together spent on it.
    """

    seconds: Mapping[str, np.ndarray]
    cpu_seconds: Mapping[str, np.ndarray] = field(default_factory=dict)

    def median(self, name: str) -> float:
        """Return the median time of a candidate, in seconds."""
        return float(np.median(self.seconds[name]))

    def quartiles(self, name: str) -> tuple[float, float]:
        """Return the first and the third quartile of a candidate's times, in seconds."""
        low, high = np.quantile(self.seconds[name], (0.25, 0.75))
        return float(low), float(high)

    def overhead(self, name: str, bare: str) -> float:
        """Return how much longer a candidate takes than another one, in seconds: the median over the rounds."""
        return float(np.median(self.seconds[name] - self.seconds[bare]))

    def cpu_overhead(self, name: str, bare: str) -> float:
        """Return how much more of the processors' time a candidate takes than another one, as a share of that."""
        bare_seconds = self.cpu_seconds[bare]
        return float(np.median(self.cpu_seconds[name] - bare_seconds) / np.median(bare_seconds))

    def ratio(self, name: str, other: str, bare: str) -> tuple[float, float, float]:
        """Return the overhead of a candidate as a share of another's, and the bounds of a 90 % interval.

        The interval is that of 400 resamplings, of the times that the candidates were built and of the rounds of each.
        """
        ours = self.seconds[name] - self.seconds[bare]
        theirs = self.seconds[other] - self.seconds[bare]
        builds, rounds = ours.shape
        random_numbers = np.random.default_rng(1)
        chosen = (
            random_numbers.integers(0, builds, (400, builds, 1)),
            random_numbers.integers(0, rounds, (400, builds, rounds)),
        )
        ratios = np.median(ours[chosen], axis=(1, 2)) / np.median(theirs[chosen], axis=(1, 2))
        low, high = np.quantile(ratios, (0.05, 0.95))
        return float(np.median(ours) / np.median(theirs)), float(low), float(high)


def measure(
    candidates: Mapping[str, Callable[[], object]],
    seconds: float,
    max_rounds: int = 60,
    contexts: Mapping[str, Callable[[], AbstractContextManager[None]]] | None = None,
) -> Samples:
    """Call the candidates alternately, in a new order each round.

    Args:
        candidates: what to call, by name; a call returns when its work is done.
        seconds: about how long to go on; there are at least five rounds.
        max_rounds: the largest number of rounds.
        contexts: by name, makes the context in which a candidate is called; to enter it counts for nobody.
    """
    made = contexts or dict.fromkeys(candidates, nullcontext)
    calls = {}
    expected = 0.0
    for name, candidate in candidates.items():
        with made[name]():
            _time(candidate, _WARM_UP_CALLS)
            once, _ = _time(candidate, 2)
        calls[name] = max(1, round(_SAMPLE_SECONDS / once))
        expected += once * calls[name]
    rounds = min(max_rounds, max(5, int(seconds / expected)))
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in candidates}
    order = list(candidates)
    shuffled = random.Random(1)
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            shuffled.shuffle(order)
            for name in order:
                with made[name]():
                    taken[name].append(_time(candidates[name], calls[name]))
    finally:
        gc.enable()
    return Samples(*({name: np.array([[each[clock] for each in taken[name]]]) for name in taken} for clock in (0, 1)))


def pooled(samples: Sequence[Samples]) -> Samples:
    """Return as one what was measured of the same candidates, built anew each time.

    Where its memory lies makes a build differ as much from the next as candidates differ.
    """
    clocks = []
    for clock in ("seconds", "cpu_seconds"):
        measured = [getattr(each, clock) for each in samples]
        rounds = min((each[name].shape[1] for each in measured for name in each), default=0)
        clocks.append({name: np.concatenate([each[name][:, :rounds] for each in measured]) for name in measured[0]})
    return Samples(*clocks)


def _time(candidate: Callable[[], object], calls: int) -> tuple[float, float]:
    """Return seconds for each call, by the clock and by that of all processors together."""
    start, cpu_start = time.perf_counter(), time.process_time()
    for _ in range(calls):
        candidate()
    cpu_end, end = time.process_time(), time.perf_counter()
    return (end - start) / calls, (cpu_end - cpu_start) / calls
