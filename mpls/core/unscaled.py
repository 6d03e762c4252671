"""Whether gradients were finite when they were unscaled, before a program clips them, and their norm."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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
        notes, norms = self._stores()
        note = _Note(tf.unstack(flags, num=len(values)), [] if tf.executing_eagerly() else values)
        here = notes.setdefault(replica_here(), [])
        here.append(note)
        if tf.executing_eagerly() and len(here) == _MOST:
            # Gradients may never be applied.
            here[:] = [_Note(_combined(here) or [tf.add_n([flag for each in here for flag in each.flags])], [])]
        norms[replica_here()] = tf.sqrt(total)

    def taken(self, grads: list[Any]) -> list[Any]:
        """Return the flags of the gradients of a step, which `note` has made in the same graph or thread.

        In eager mode these are all flags since the last call. In a graph they are the flags of those unscaled gradients
        that these gradients are computed from, so that several steps can be built in any order.

        Args:
            grads: the gradients that are applied, without None.

        Returns:
            A flag for each gradient, a scalar float32: 0 if all unscaled gradients that it combines were finite, else
            NaN. If the numbers differ, a flag for each unscaled gradient. An empty list if nothing is known.
        """
        notes, _ = self._stores()
        if tf.executing_eagerly():
            found = notes.pop(replica_here(), [])
        else:
            found = _reached([values_of(grad) for grad in grads], notes.get(replica_here(), []))
        if any(len(note.flags) != len(grads) for note in found):
            return [flag for note in found for flag in note.flags]
        return _combined(found)

    def forget(self) -> None:
        """Drop the flags of a step that is applied whatever its gradients."""
        self._stores()[0].pop(replica_here(), None)

    def norm(self) -> Any:
        """Return the global norm of the gradients unscaled last in this graph or thread; None if there were none."""
        return self._stores()[1].get(replica_here())

    def _stores(self) -> tuple[dict[Any, list[_Note]], dict[Any, Any]]:
        stores = self._store()
        return stores.setdefault("notes", {}), stores.setdefault("norms", {})


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
