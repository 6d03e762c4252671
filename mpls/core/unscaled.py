"""Whether gradients were finite when they were unscaled, before a program clips them, and their norm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from mpls.core.fast.branches import value_of
from mpls.core.finite import all_finite
from mpls.core.gradients import values_of
from mpls.core.graph_local import GraphLocal
from mpls.core.step_losses import replica_here

__all__ = ["UnscaledGradients"]

# Eager mode keeps fewer notes than this; more become one.
_MOST = 16


@dataclass(frozen=True)
class _Note:
    """A note of the gradients that one call has unscaled.

    Attributes:
        flags: for each gradient that is not None a scalar float32, which is 0 if it is finite and else NaN.
        values: in a graph, their tensors, by which the gradients that are applied are recognised.
    """

    flags: list[Any]
    values: list[Any]


@dataclass
class _Here:
    """What one replica has unscaled in a graph or, in eager mode, in a thread.

    Attributes:
        notes: of a graph, all notes; in eager mode, those of the step that goes on.
        norm: the global norm of the gradients unscaled last.
        unscaled: how many losses' gradients the step has unscaled.
        applied: in eager mode, how often the step has applied gradients to each variable, by its `id`.
    """

    notes: list[_Note] = field(default_factory=list)
    norm: Any = None
    unscaled: int = 0
    applied: Counter[int] = field(default_factory=Counter)

    def add(self, note: _Note, norm: Any) -> None:
        """Add the note of a call, which begins a step if gradients were applied since the last one."""
        if self.applied:
            # A program may apply the gradients of one loss in several calls, each to other variables.
            self.begin_step()
        self.notes.append(note)
        self.unscaled += 1
        self.norm = norm

    def begin_step(self) -> None:
        """Drop the notes."""
        self.notes, self.unscaled, self.applied = [], 0, Counter()


class UnscaledGradients(GraphLocal):
    """Remembers unscaled gradients in each graph and, in eager mode, in each thread; for each replica."""

    def note(self, grads: Iterable[Any]) -> None:
        """Remember whether gradients are finite, and their global norm.

        Args:
            grads: unscaled gradients; None is left out.
        """
        values = [values_of(grad) for grad in grads if grad is not None]
        if not values:
            return
        squares = [tf.reduce_sum(tf.square(tf.cast(value, tf.float32))) for value in values]
        total = tf.add_n(squares)
        # A square may leave float32 where the gradient does not, so look again if the sum is not finite.
        flags = value_of(
            tf.math.is_finite(total),
            lambda: tf.zeros([len(values)]),
            lambda: tf.where(tf.stack([all_finite(value) for value in values]), 0.0, float("nan")),
            "unscaled_check",
        )
        here = self._here()
        note = _Note(tf.unstack(flags, num=len(values)), [] if tf.executing_eagerly() else values)
        here.add(note, tf.sqrt(total))
        if tf.executing_eagerly() and len(notes := here.notes) == _MOST:
            # Gradients may never be applied.
            notes[:] = [_Note(_combined(notes) or [tf.add_n([flag for each in notes for flag in each.flags])], [])]

    def flags(self, grads: list[Any], variables: list[Any]) -> list[Any]:
        """Return the flags of the gradients of a step, which `note` has made in the same graph or thread.

        In eager mode these are all flags of the step: it ends when the next gradients are unscaled, or when gradients
        are applied to a variable more often than gradients were unscaled. In a graph they are the flags of those
        unscaled gradients that these gradients are computed from, so that several steps can be built in any order.

        Args:
            grads: the gradients that are applied, without None.
            variables: those that they are applied to.

        Returns:
            A flag for each gradient, a scalar float32: 0 if all unscaled gradients that it combines were finite, else
            NaN. If the numbers differ, a flag for each unscaled gradient. An empty list if nothing is known.
        """
        here = self._here()
        if tf.executing_eagerly():
            here.applied.update(map(id, variables))
            if max(here.applied.values(), default=0) > here.unscaled:
                here.begin_step()
            found = here.notes
        else:
            found = _reached([values_of(grad) for grad in grads], here.notes)
        if any(len(note.flags) != len(grads) for note in found):
            return [flag for note in found for flag in note.flags]
        return _combined(found)

    def forget(self) -> None:
        """Drop the flags of a step that is applied whatever its gradients."""
        self._here().begin_step()

    def norm(self) -> Any:
        """Return the global norm of the gradients unscaled last in this graph or thread; None if there were none."""
        return self._here().norm

    def _here(self) -> _Here:
        replicas: dict[Any, _Here] = self._store().setdefault("replicas", {})
        return replicas.setdefault(replica_here(), _Here())


def _combined(notes: list[_Note]) -> list[Any]:
    """Return the flags of gradients that add up those of all notes; an empty list if their numbers differ."""
    if len({len(note.flags) for note in notes}) > 1:
        return []
    return [tf.add_n(flags) for flags in zip(*(note.flags for note in notes), strict=True)]


def _reached(tensors: list[Any], notes: list[_Note]) -> list[_Note]:
    """Return the notes of unscaled gradients from which tensors of a graph are computed."""
    wanted = {value.name: note for note in notes for value in note.values}
    found: set[int] = set()
    seen: set[str] = set()
    waiting = list(tensors)
    while waiting and wanted:
        tensor = waiting.pop()
        if tensor.name in wanted:
            found.add(id(wanted[tensor.name]))
        elif tensor.op.name not in seen:
            seen.add(tensor.op.name)
            waiting.extend(tensor.op.inputs)
    return [note for note in notes if id(note) in found]
