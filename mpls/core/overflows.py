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
    """Counts for each variable of an optimizer; a list of variables that differs from those before has its own."""

    def __init__(self) -> None:
        super().__init__()
        self._variables = Weights()
        self._lock = Lock()
        self._lists: list[tuple[str, ...]] = []

    def _initial_weights(self) -> dict[str, tuple[Any, Any]]:
        zeros = {place: np.zeros(len(names), np.int64) for place, names in enumerate(self._lists)}
        return {
            name: (zeros[place], tf.int64)
            for place in zeros
            for name in (_name("counts", place), _name("steps", place))
        }

    def create(self, names: Sequence[str]) -> None:
        """Create the counts of variables, if they do not exist yet; before the branch that writes them."""
        if tuple(names) not in self._lists:
            self._lists.append(tuple(names))
        self._created_weight(_name("counts", self._lists.index(tuple(names))))

    def note(self, names: Sequence[str], are_finite: Any, step: Any) -> Any:
        """Count a skipped step, in cross-replica context; return an op, or None in eager mode.

        Args:
            names: the names of the variables.
            are_finite: boolean tensor, whether the gradient of each was finite.
            step: scalar int64 tensor, the number of the step.
        """
        place = self._lists.index(tuple(names))
        counts, steps = (self._created_weight(_name(kind, place)) for kind in ("counts", "steps"))
        last = tf.where(are_finite, tf.convert_to_tensor(steps), step)
        return group(counts.assign_add(tf.cast(tf.logical_not(are_finite), tf.int64)), steps.assign(last))

    def report(self, session: Any) -> OverflowReport:
        """Return which gradients were not finite; `session` is as in `state_dict`."""
        values = read_values({name: self._created_weight(name) for name in self._initial_weights()}, session)
        found = [
            Overflow(name, int(count), int(step))
            for place, names in enumerate(self._lists)
            for name, count, step in zip(
                names, values[_name("counts", place)], values[_name("steps", place)], strict=True
            )
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


def _name(kind: str, place: int) -> str:
    return f"overflow_{kind}" + (f"_{place}" if place else "")
