"""The loss of a step, from where it is scaled to where its gradients are applied."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from mpls.core.finite import all_finite
from mpls.core.graph_local import GraphLocal
from mpls.core.replicas import in_replica_context

__all__ = ["StepLosses"]


class StepLosses(GraphLocal):
    """Remembers whether the losses of a step are finite, in each graph and, in eager mode, thread; for each replica."""

    def noted(self, loss: Any) -> Any:
        """Record a loss and return it; for a callable, return one that records its result."""
        if callable(loss):

            def noting() -> Any:
                return self.noted(loss())

            return noting
        if tf.is_tensor(loss):
            losses, replica = self._losses(), replica_here()
            # Several losses become one flag, so that memory does not grow if the program takes no step.
            losses[replica] = _flag_of([losses[replica], loss]) if replica in losses else loss
        return loss

    def taken(self) -> list[Any]:
        """Return the losses recorded since the last call in the same graph or thread: a list of at most one tensor.

        The tensor is finite if all losses were.
        """
        found = self._losses().pop(replica_here(), None)
        return [] if found is None else [found]

    def _losses(self) -> dict[Any, Any]:
        losses: dict[Any, Any] = self._store().setdefault("losses", {})
        return losses


def _flag_of(losses: list[Any]) -> Any:
    return tf.where(all_finite(losses), 0.0, float("nan"))


def replica_here() -> Any:
    """Return the number of the replica in whose context the caller is; None in no replica context."""
    if not in_replica_context():
        return None
    return int(tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group))
