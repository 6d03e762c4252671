"""The loss of a step, from where it is scaled to where its gradients are applied."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from mpls.core.here import Here
from mpls.core.replicas import in_replica_context

__all__ = ["StepLosses"]


class StepLosses(Here):
    """Remembers the last loss in each graph and, in eager mode, in each thread; for each replica."""

    def noted(self, loss: Any) -> Any:
        """Return a loss, or a callable that returns one, which is noted once it is known."""
        if callable(loss):

            def noting() -> Any:
                return self.noted(loss())

            return noting
        if tf.is_tensor(loss):
            self._losses()[replica_here()] = loss
        return loss

    def taken(self) -> list[Any]:
        """Return the loss that was noted since the last call in the same graph or thread, in a list; if any was."""
        found = self._losses().pop(replica_here(), None)
        return [] if found is None else [found]

    def _losses(self) -> dict[Any, Any]:
        losses: dict[Any, Any] = self._store().setdefault("losses", {})
        return losses


def replica_here() -> Any:
    """Return the number of the replica in whose context the caller is; None in no replica context."""
    if not in_replica_context():
        return None
    return int(tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group))
