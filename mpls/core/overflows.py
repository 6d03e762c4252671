"""Which variables' gradients were not finite, how often and when; written only in skipped steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from mpls.core.fast.branches import group
from mpls.core.persistence.state_dict import read_values
from mpls.core.weights import Lock, Stateful, Weights
from mpls.formats.wrapper_state import OVERFLOW_KINDS, marks_of
from mpls.upstream.trackables import Trackable

__all__ = ["Overflow", "OverflowReport", "Overflows"]

_COUNTS, _, _NAMES = OVERFLOW_KINDS

if TYPE_CHECKING:
    _Base = object
else:
    _Base = Trackable


@dataclass(frozen=True)
class Overflow:
    """The overflows of one variable's gradient.

    Attributes:
        variable: the variable's name.
        count: the number of steps in which the gradient was not finite.
        last_step: the last of them, counted from 1; applied and skipped steps count.
    """

    variable: str
    count: int
    last_step: int


class OverflowReport(tuple[Overflow, ...]):
    """The variables whose gradients were not finite, the worst first; as a string, a table."""

    __slots__ = ()

    def __str__(self) -> str:
        if not self:
            return "No gradient was infinite or NaN."
        rows = [("variable", "overflows", "last in step")]
        rows += [(each.variable, str(each.count), str(each.last_step)) for each in self]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            f"{name:<{widths[0]}}  {count:>{widths[1]}}  {step:>{widths[2]}}" for name, count, step in rows
        )


class Overflows(Stateful, _Base):
    """Counts for each variable of an optimizer.

    A list of variables that is not part of a known one gets its own arrays.

    The name of the counts, which is their key in checkpoints, has the length of the list: counts of a list of another
    length are not restored into them. Beside the counts are numbers that stand for the variables' names, so that
    restored counts belong to the variable of the same name, and to no other.
    """

    def __init__(self) -> None:
        super().__init__()
        self._variables = Weights()
        self._lock = Lock()
        # In each graph, the names of variables by the end of the names of their counts.
        self._lists = Weights()

    def _initial_weights(self) -> dict[str, tuple[Any, Any]]:
        return {
            kind + end: (np.array(sorted(marks_of(names)), np.int64) if kind == _NAMES else _zeros(names), tf.int64)
            for end, names in self._lists.here().items()
            for kind in OVERFLOW_KINDS
        }

    def create(self, names: Sequence[str]) -> None:
        """Create the counts of variables, if they do not exist yet; before the branch that writes them."""
        self._created_weight(_COUNTS + self._end(names))

    def _end(self, names: Sequence[str]) -> str:
        """Return how the names of the counts of some variables end, in the current graph."""
        wanted = tuple(names)
        with self._lock:
            lists = self._lists.here()
            for end, known in lists.items():
                # A step in which some variables have no gradient uses the arrays of the whole list.
                if known == wanted or (len(known) > len(wanted) and _has_each(known, wanted)):
                    return end
            alike = sum(len(known) == len(names) for known in lists.values())
            end = f"_{len(names)}" + (f"_{alike}" if alike else "")
            lists[end] = wanted
            return end

    def note(self, names: Sequence[str], are_finite: Any, step: Any) -> Any:
        """Count a skipped step, in cross-replica context; return an op, or None in eager mode.

        Args:
            names: the names of the variables.
            are_finite: boolean tensor, whether the gradient of each was finite.
            step: scalar int64 tensor, the number of the step.
        """
        # In eager mode, a step of another thread must not come between reading and writing.
        with self._lock:
            return self._noted(names, are_finite, step)

    def _noted(self, names: Sequence[str], are_finite: Any, step: Any) -> Any:
        end = self._end(names)
        marks = sorted(marks_of(self._lists.here()[end]))
        # A variable without a gradient gets the appended True: it counts as finite.
        places = {mark: place for place, mark in enumerate(marks_of(names))}
        order = [places.get(mark, len(places)) for mark in marks]
        are_finite = tf.gather(tf.concat([are_finite, [True]], 0), order)
        variables = [self._created_weight(kind + end) for kind in OVERFLOW_KINDS]
        own = np.array(marks, np.int64)
        counts, steps = _of_names([tf.convert_to_tensor(variable) for variable in variables], own)
        counted = counts + tf.cast(tf.logical_not(are_finite), tf.int64)
        after = counted, tf.where(are_finite, steps, step), tf.constant(own)
        # A variable must not change before all have been read.
        with tf.control_dependencies([] if tf.executing_eagerly() else list(after)):
            return group(*(variable.assign(value) for variable, value in zip(variables, after, strict=True)))

    def in_step(self, names: Sequence[str], step: Any) -> tuple[list[str], Any]:
        """Return the names of a list of variables, and whether the gradient of each was not finite in a step.

        Args:
            names: the names of some of the variables.
            step: scalar int64 tensor, the number of the step.
        """
        end = self._end(names)
        known = self._lists.here()[end]
        ordered = [name for _, name in sorted(zip(marks_of(known), known, strict=True))]
        return ordered, tf.equal(tf.convert_to_tensor(self._created_weight(OVERFLOW_KINDS[1] + end)), step)

    def report(self, session: Any, call: str = "overflow_report") -> OverflowReport:
        """Return which gradients were not finite; `session` and `call` are as in `read_values`."""
        values = read_values({name: self._created_weight(name) for name in self._initial_weights()}, session, call)
        found = []
        for end, names in self._lists.here().items():
            counts, steps, marks = (values[kind + end].tolist() for kind in OVERFLOW_KINDS)
            of_marks = dict(zip(marks, zip(counts, steps, strict=True), strict=True))
            rows = ((name, *of_marks.get(mark, (0, 0))) for name, mark in zip(names, marks_of(names), strict=True))
            found += [Overflow(*row) for row in rows if row[1]]
        return OverflowReport(sorted(found, key=lambda each: (-each.count, each.variable)))

    def load(self, overflows: Mapping[str, tuple[int, int]]) -> list[str]:
        """Set the counts and last steps of variables by name, in eager mode; return the names that are known.

        The counts of other variables stay as they are.
        """
        found = []
        for end, names in self._lists.here().items():
            variables = [self._created_weight(kind + end) for kind in OVERFLOW_KINDS[:2]]
            marks = sorted(marks_of(names))
            places = {name: marks.index(mark) for name, mark in zip(names, marks_of(names), strict=True)}
            for column, variable in enumerate(variables):
                numbers = variable.numpy()
                for name in overflows.keys() & places.keys():
                    numbers[places[name]] = overflows[name][column]
                variable.assign(numbers)
            self._created_weight(_NAMES + end).assign(marks)
            found += [name for name in overflows if name in places]
        return list(dict.fromkeys(found))

    def _saved_numbers(self) -> list[tuple[Any, Any, Callable[[Any, str], Any]]]:
        """Return the variables, each with its initial value and a function that takes any value from a file."""
        weights = self._weights_here()
        return [
            (weights[name], initial, lambda value, _: value)
            for name, (initial, _) in self._initial_weights().items()
            if name in weights
        ]


def _has_each(known: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether all names are known; False if either list has a name twice."""
    return len(set(known)) == len(known) and len(set(names)) == len(names) and set(names) <= set(known)


def _zeros(names: Sequence[str]) -> Any:
    return np.zeros(len(names), np.int64)


def _of_names(values: list[Any], marks: Any) -> tuple[Any, Any]:
    """Return the counts and the last steps of variables, 0 for those that are not among the values.

    Args:
        values: counts, last steps, and ascending marks of variables' names, which a checkpoint may have brought.
        marks: the ascending marks of the variables.
    """
    counts, steps, known = values
    places = tf.minimum(tf.searchsorted(known, marks), len(marks) - 1)
    is_known = tf.equal(tf.gather(known, places), marks)
    taken = (tf.where(is_known, tf.gather(each, places), 0) for each in (counts, steps))
    return next(taken), next(taken)
