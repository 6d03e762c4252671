"""The loss of a step, from where it is scaled to where its gradients are applied."""

from __future__ import annotations

import threading
from typing import Any

import tensorflow as tf

from mpls.core.replicas import in_replica_context
from mpls.core.weights import Weights

__all__ = ["StepLosses"]


class StepLosses:
    """Remembers the last loss in each graph and, in eager mode, in each thread; for each replica."""

    def __init__(self) -> None:
        self._threads = threading.local()
        self._graphs = Weights()

    def __reduce__(self) -> Any:
        return StepLosses, ()

    def noted(self, loss: Any) -> Any:
        """Return a loss, or a callable that returns one, which is noted once it is known."""
        if callable(loss):

            def noting() -> Any:
                return self.noted(loss())

            return noting
        if tf.is_tensor(loss):
            self._store()[replica_here()] = loss
        return loss

    def taken(self) -> list[Any]:
        """Return the loss that was noted since the last call in the same graph or thread, in a list; if any was."""
        found = self._store().pop(replica_here(), None)
        return [] if found is None else [found]

    def _store(self) -> dict[Any, Any]:
        if not tf.executing_eagerly():
            return self._graphs.of(tf.compat.v1.get_default_graph())
        losses: dict[Any, Any] = vars(self._threads).setdefault("losses", {})
        return losses


def replica_here() -> Any:
    """Return the number of the replica in whose context the caller is; None in no replica context."""
    if not in_replica_context():
        return None
    return int(tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group))
