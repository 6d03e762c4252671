"""Which variables' gradients were not finite, how often and when; written in steps that are skipped only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from mpls.core.fast.branches import group
from mpls.core.persistence.state_dict import read_values
from mpls.core.weights import Lock, Stateful, Weights
from mpls.upstream.trackables import Trackable

__all__ = ["Overflow", "OverflowReport", "Overflows"]

_COUNTS, _STEPS = "overflow_counts", "overflow_steps"

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
    """Counts for each variable of an optimizer; a list of variables that differs from those before has its own.

    The name of the counts, which is their key in checkpoints, has the length of the list: counts of a list of another
    length are not restored into them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._variables = Weights()
        self._lock = Lock()
        # In each graph, the names of variables by the end of the names of their counts.
        self._lists = Weights()

    def _initial_weights(self) -> dict[str, tuple[Any, Any]]:
        return {
            name: (np.zeros(len(names), np.int64), tf.int64)
            for end, names in self._lists.here().items()
            for name in (_COUNTS + end, _STEPS + end)
        }

    def create(self, names: Sequence[str]) -> None:
        """Create the counts of variables, if they do not exist yet; before the branch that writes them."""
        self._created_weight(_COUNTS + self._end(names))

    def _end(self, names: Sequence[str]) -> str:
        """Return how the names of the counts of a list of variables end, in the current graph."""
        with self._lock:
            lists = self._lists.here()
            for end, known in lists.items():
                if known == tuple(names):
                    return end
            alike = sum(len(known) == len(names) for known in lists.values())
            end = f"_{len(names)}" + (f"_{alike}" if alike else "")
            lists[end] = tuple(names)
            return end

    def note(self, names: Sequence[str], are_finite: Any, step: Any) -> Any:
        """Count a skipped step, in cross-replica context; return an op, or None in eager mode.

        Args:
            names: the names of the variables.
            are_finite: boolean tensor, whether the gradient of each was finite.
            step: scalar int64 tensor, the number of the step.
        """
        counts, steps = (self._created_weight(kind + self._end(names)) for kind in (_COUNTS, _STEPS))
        last = tf.where(are_finite, tf.convert_to_tensor(steps), step)
        return group(counts.assign_add(tf.cast(tf.logical_not(are_finite), tf.int64)), steps.assign(last))

    def report(self, session: Any) -> OverflowReport:
        """Return which gradients were not finite; `session` is as in `state_dict`."""
        values = read_values({name: self._created_weight(name) for name in self._initial_weights()}, session)
        found = [
            Overflow(name, int(count), int(step))
            for end, names in self._lists.here().items()
            for name, count, step in zip(names, values[_COUNTS + end], values[_STEPS + end], strict=True)
            if count
        ]
        return OverflowReport(sorted(found, key=lambda each: (-each.count, each.variable)))

    def _saved_numbers(self) -> list[tuple[Any, Any, Callable[[Any, str], Any]]]:
        """Return the variables, each with its initial value and a function that takes any value from a file."""
        weights = self._weights_here()
        return [
            (weights[name], initial, lambda value, _: value)
            for name, (initial, _) in self._initial_weights().items()
            if name in weights
        ]
