"""Notes on the current step, for each graph and, in eager mode, each thread."""

from __future__ import annotations

import threading
from typing import Any

import tensorflow as tf

from mpls.core.weights import Weights

__all__ = ["GraphLocal"]


class GraphLocal:
    """A dict of each graph, and of each thread in eager mode; copies begin with empty ones.

    A graph's dict lives as long as the graph.
    """

    def __init__(self) -> None:
        self._threads = threading.local()
        self._graphs = Weights()

    def __reduce__(self) -> Any:
        return type(self), ()

    def _store(self) -> dict[str, Any]:
        """Return the dict of the graph that is being built, or of the running thread."""
        if tf.executing_eagerly():
            return vars(self._threads)
        return self._graphs.of(tf.compat.v1.get_default_graph())
