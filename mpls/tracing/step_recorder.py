"""Which steps are recorded, and what a trace says of each."""

from __future__ import annotations

import fnmatch
import os
import threading
import weakref
from typing import Any

from mpls.tracing.measures import Measured
from mpls.tracing.trace_writer import TraceWriter, plain_number

__all__ = ["APPLIES_ALL", "BY_GRADIENTS", "BY_STATE", "Reading", "Series", "StepRecorder", "was_applied"]

# By default, the first 100 steps are recorded, and then every 100th.
SPARSE = 100
# How it is told whether a step was applied.
APPLIES_ALL, BY_STATE, BY_GRADIENTS = "all", "state", "gradients"


def was_applied(rule: str, before: Any, after: Any, nonfinite: int) -> bool:
    """Return whether a step was applied.

    Args:
        rule: `APPLIES_ALL` for a scale that never skips, `BY_STATE` for a dynamic one, `BY_GRADIENTS` for one that only
            gradients tell of.
        before: scale and count of good steps, before the step.
        after: the same, after it.
        nonfinite: the number of elements of gradients that are not finite.
    """
    if rule == APPLIES_ALL:
        return True
    if rule == BY_STATE:
        if after[0] < before[0]:
            return False
        if after[0] > before[0] or after[1] > before[1]:
            return True
    # The scale is at its floor or its ceiling.
    return nonfinite == 0


class Series:
    """The steps of one wrapper with one list of variables.

    Attributes:
        number: from 0, in the order of their first steps.
        step: the number of steps so far.
        has_counter: whether functions have a counter of its steps.
        measured: the positions of the variables that are measured.
        told: what is known of them.
        about: what the trace says of them.
    """

    def __init__(self, number: int, about: Any, pattern: Any) -> None:
        self.number = number
        self.has_counter = False
        self.step = 0
        self.offset = self.last_count = 0
        names = [each["name"] for each in about["variables"]]
        self.measured: list[int] = [
            at for at, name in enumerate(names) if pattern is None or fnmatch.fnmatchcase(name, pattern)
        ]
        self.told = about
        self.about: dict[str, Any] = dict(about, variables=[about["variables"][at] for at in self.measured])


class Reading:
    """What was read around a step.

    Attributes:
        rule: how it is told whether it was applied.
        before: scale and count before it; the count is negative if there is none.
        after: the same after it.
        loss: the loss, or None.
        nonfinite: the number of elements of gradients that are not finite on all replicas; None for one replica.
    """

    def __init__(self, rule: str, before: Any, after: Any, loss: Any, nonfinite: Any) -> None:
        self.rule = rule
        self.before = before
        self.after = after
        self.loss = loss
        self.nonfinite = nonfinite


class StepRecorder:
    """Keeps count of steps, and writes those that are due.

    Args:
        writer: writes the trace.
        every: from one recorded step to the next; None for each of the first 100, and then every 100th.
        steps: how many steps of each wrapper are looked at; None for all.
        pattern: which variables are measured, as in shells; None for all.
    """

    def __init__(self, writer: TraceWriter, every: Any = None, steps: Any = None, pattern: Any = None) -> None:
        self._every = every or SPARSE
        self._first = 0 if every else SPARSE
        self._steps = steps
        self._writer = writer
        self._pattern = pattern
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._known: dict[Any, Any] = {}
        self.series: list[Series] = []

    @property
    def is_on(self) -> bool:
        """Whether steps are recorded: in the process that began it, not in its forks."""
        return os.getpid() == self._process

    def series_of(self, wrapper: Any, variables: list[Any], about: Any) -> Series:
        """Return the series of a wrapper.

        Args:
            wrapper: the optimizer.
            variables: its variables.
            about: returns what the trace says of it and them.
        """
        key = (id(wrapper), tuple(map(id, variables)))
        with self._lock:
            # Another object may have the number of one that is gone.
            found, series = self._known.get(key, (None, None))
            if found is not None and found() is wrapper:
                return series  # type: ignore[no-any-return]
            told = about()
            for found, series in self._known.values():
                if found() is wrapper and series.told == told:
                    break
            else:
                series = Series(len(self.series), told, self._pattern)
                self.series.append(series)
            self._known[key] = (weakref.ref(wrapper), series)
            return series  # type: ignore[no-any-return]

    @property
    def is_always_due(self) -> bool:
        """Whether every step is recorded."""
        return bool(self._every == 1 and self._steps is None)

    def is_due(self, count: int) -> bool:
        """Return whether to record the step that has `count` steps before it."""
        is_wanted = self._steps is None or count < self._steps
        return bool(is_wanted and (count < self._first or count % self._every == 0))

    def due(self, tf: Any, count: Any) -> Any:
        """Return the same for a tensor, as a scalar boolean tensor."""
        due = tf.equal(tf.floormod(count, self._every), 0)
        if self._first:
            due = tf.logical_or(due, count < self._first)
        return due if self._steps is None else tf.logical_and(due, count < self._steps)

    def count(self, series: Series) -> bool:
        """Count a step, and return whether it is recorded."""
        with self._lock:
            series.step += 1
            return self.is_due(series.step - 1)

    def counted(self, series: Series, count: int) -> None:
        """Note the number of steps before this one, which a graph has counted; another session begins anew."""
        with self._lock:
            if count < series.last_count:
                series.offset = series.step
            series.last_count = count + 1
            series.step = series.offset + count + 1

    def note(self, series: Series, reading: Reading, gradients: Measured, variables: Measured) -> None:
        """Write a step.

        Args:
            series: whose it is.
            reading: what was read around it.
            gradients: what was measured of all gradients.
            variables: the same of the variables that are measured, after the step.
        """
        nonfinite = gradients.nonfinite if reading.nonfinite is None else int(reading.nonfinite)
        row = {
            "wrapper": series.number,
            "step": series.step,
            "scale": plain_number(reading.before[0]),
            "counter": int(reading.before[1]) if reading.before[1] >= 0 else None,
            "applied": was_applied(reading.rule, reading.before, reading.after, nonfinite),
            "nonfinite": nonfinite,
            "loss": None if reading.loss is None else plain_number(reading.loss),
            "gradient_norms": [plain_number(gradients.norms[at]) for at in series.measured],
            "gradients_digest": gradients.digest,
            "variable_norms": [plain_number(each) for each in variables.norms],
            "variables_digest": variables.digest,
            "scale_after": plain_number(reading.after[0]),
            "counter_after": int(reading.after[1]) if reading.after[1] >= 0 else None,
        }
        with self._lock:
            self._writer.add(row)
