"""The loss of a step, from where it is scaled to where its gradients are applied."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from mpls.core.finite import all_finite
from mpls.core.gradients import values_of
from mpls.core.graph_local import GraphLocal
from mpls.core.replicas import in_replica_context

__all__ = ["StepLosses"]


class StepLosses(GraphLocal):
    """Remembers the losses of a step, and the gradients that are unscaled in it, for the report about skipped steps.

    It does in each graph and, in eager mode, in each thread; for each replica.
    """

    def noted(self, loss: Any) -> Any:
        """Record a loss and return it; for a callable, return one that records its result."""
        if callable(loss):

            def noting() -> Any:
                return self.noted(loss())

            return noting
        if tf.is_tensor(loss):
            self._of_replica().note_loss(loss)
        return loss

    def noted_gradients(self, grads: list[Any]) -> None:
        """Record unscaled gradients: a loss that is scaled after them may be computed from them."""
        self._of_replica().note_gradients([values_of(grad) for grad in grads if grad is not None])

    def taken(self) -> tuple[list[Any], list[Any]]:
        """Return the losses and gradients recorded since the last call in the same graph or thread.

        Returns:
            A list of at most two tensors. The first is finite if all losses were, without those that the second stands
            for. That one is finite if all losses were that were scaled after gradients that were not finite. And a list
            of the gradients that were unscaled last.
        """
        step = self._steps().pop(replica_here(), None)
        return ([], []) if step is None else (step.losses, step.grads)

    def _of_replica(self) -> _Step:
        step: _Step = self._steps().setdefault(replica_here(), _Step())
        return step

    def _steps(self) -> dict[Any, Any]:
        steps: dict[Any, Any] = self._store().setdefault("steps", {})
        return steps


class _Step:
    """What is known of one step.

    Attributes:
        losses: as `StepLosses.taken` returns them.
        grads: the gradients that were unscaled last.
        are_finite: whether those that were unscaled before were finite, a scalar boolean tensor; None for none.
    """

    def __init__(self) -> None:
        self.losses: list[Any] = []
        self.grads: list[Any] = []
        self.are_finite: Any = None

    def note_loss(self, loss: Any) -> None:
        if not self.losses:
            self.losses = [loss]
            # Gradients of an earlier step, which was not applied, are not the origin of this loss.
            self.grads, self.are_finite = [], None
            return
        # Several losses become flags, so that memory does not grow if the program takes no step.
        first, *later = self.losses
        grads_finite = self._grads_finite()
        if grads_finite is None:
            self.losses = [_flag_of([first, loss]), *later]
            return
        is_fine = all_finite(loss)
        follows = later[0] if later else 0.0
        self.losses = [
            _flag_of([first, tf.where(is_fine | ~grads_finite, 0.0, float("nan"))]),
            _flag_of([follows, tf.where(is_fine | grads_finite, 0.0, float("nan"))]),
        ]

    def note_gradients(self, grads: list[Any]) -> None:
        # Those of several calls become one flag, for the same reason.
        self.are_finite = self._grads_finite()
        self.grads = grads

    def _grads_finite(self) -> Any:
        """Return whether all gradients so far were finite, a scalar boolean tensor; None if there were none."""
        if not self.grads:
            return self.are_finite
        last = all_finite(self.grads)
        return last if self.are_finite is None else self.are_finite & last


def _flag_of(losses: list[Any]) -> Any:
    return tf.where(all_finite(losses), 0.0, float("nan"))


def replica_here() -> Any:
    """Return the number of the replica in whose context the caller is; None in no replica context."""
    if not in_replica_context():
        return None
    return int(tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group))
