"""The course of a training: its loss scale, its skipped steps and its loss, over steps or epochs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mpls.errors import MplsError
from mpls.formats.training_history import LOSS, SCALE, SKIPPED

__all__ = ["SHOWN", "Course", "Points", "UnreadableCourseError", "course_of_columns"]

Points = list[tuple[float, float]]
# What is drawn, by the names in histories.
SHOWN = (SCALE, SKIPPED, LOSS)
# Scales and losses are float32. Axes overflow near the limits of float64.
_INFINITE = 2.0**128
_LARGEST_STEP = 2.0**63


class UnreadableCourseError(MplsError, ValueError):
    """A file holds no course of a training, or is broken."""


@dataclass
class Course:
    """What was recorded, in order.

    Attributes:
        title: where it is from.
        unit: what the points are numbered by, `'step'` or `'epoch'`; `'reading'` where there are several of one.
        scale: the loss scale.
        skipped: the number of skipped steps so far; empty if it was not recorded.
        loss: the loss where it was finite; empty if it was not recorded.
        bad_loss: where the loss was not finite, steps or epochs.
        within: the first and the last step or epoch, in words, where the points are numbered by readings.
    """

    title: str
    unit: str
    scale: Points
    skipped: Points = field(default_factory=list)
    loss: Points = field(default_factory=list)
    bad_loss: list[float] = field(default_factory=list)
    within: str = ""

    @property
    def label(self) -> str:
        """What the axis of steps is called."""
        return f"{self.unit} ({self.within})" if self.within else self.unit

    def marks(self) -> tuple[Points, str]:
        """Return where steps were skipped, each with the scale there, and what the marks are called."""
        scales = dict(self.scale)
        if self.skipped:
            first = [(0.0, 0.0), *self.skipped][:-1]
            steps = [step for (_, before), (step, now) in zip(first, self.skipped, strict=True) if now > before]
            return [(step, scales[step]) for step in steps if step in scales], "steps were skipped"
        falls = [now for before, now in itertools.pairwise(self.scale) if now[1] < before[1]]
        return falls, "scale came down: steps were skipped"

    def summary(self) -> str:
        """Return what there is to see, in words."""
        scales = [value for _, value in self.scale]
        skipped = f", skipped steps: {self.skipped[-1][1]:.12g}" if self.skipped else ""
        places = f"{self.unit} {self.scale[0][0]:.12g} to {self.scale[-1][0]:.12g}"
        places += f" ({self.within})" if self.within else ""
        return f"{places}: loss scale {min(scales):.12g} to {max(scales):.12g}{skipped}"


def course_of_columns(title: str, unit: str, rows: Iterable[tuple[Any, Mapping[str, Any]]], missing: str) -> Course:
    """Return the course that rows tell.

    Args:
        title: where they are from.
        unit: what they are numbered by.
        rows: each with its step or epoch.
        missing: the error if none has a loss scale.

    Raises:
        UnreadableCourseError: there is no loss scale.
    """
    series = {name: _Series() for name in SHOWN}
    for place, row in rows:
        step = _as_number(place)
        for name in SHOWN:
            if step is not None and abs(step) <= _LARGEST_STEP and name in row:
                # `save` writes null for a number that is not finite.
                series[name].add(step, math.nan if row[name] is None else _as_number(row[name]))
    values = {name: each.by_place() for name, each in series.items()}
    places = sorted({place for found in values.values() for place in found})
    numbers, within = {place: place[0] for place in places}, ""
    if any(again for _, again in places):
        numbers = {place: float(number) for number, place in enumerate(places, 1)}
        unit, within = "reading", f"{unit} {places[0][0]:.12g} to {places[-1][0]:.12g}"
    points = {name: {numbers[place]: value for place, value in found.items()} for name, found in values.items()}
    scale, skipped, loss = (_finite(points[name]) for name in SHOWN)
    if not any(value > 0 for _, value in scale):
        raise UnreadableCourseError(missing)
    bad_loss = sorted(step for step, value in points[LOSS].items() if not _is_finite(value))
    return Course(title, unit, scale, skipped, loss, bad_loss, within)


class _Series:
    """The values of one name, as they are read one after the other."""

    def __init__(self) -> None:
        self._values: dict[float, list[float | None]] = {}
        self._step: float | None = None

    def add(self, step: float, value: float | None) -> None:
        """Add what was read next; None if it was no number.

        Steps do not always advance: each reading counts. A training that was resumed goes back, and has some steps
        twice: the later counts.
        """
        if step == self._step:
            self._values[step].append(value)
        else:
            self._values[step] = [value]
        self._step = step

    def by_place(self) -> dict[tuple[float, int], float]:
        """Return the values, each by its step and the number of readings of that step before it."""
        return {
            (step, again): value
            for step, values in self._values.items()
            for again, value in enumerate(values)
            if value is not None
        }


def _finite(points: Mapping[float, float]) -> Points:
    return sorted((step, value) for step, value in points.items() if _is_finite(value))


def _is_finite(value: float) -> bool:
    return abs(value) < _INFINITE


def _as_number(value: Any) -> float | None:
    """Return a number, or None for what is none, such as the `NA` of `CSVLogger`."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None
