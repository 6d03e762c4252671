"""Variables of an object that is used in eager mode and in several graphs, and has its own ones in each."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import tensorflow as tf

from mpls.errors import GraphStateError
from mpls.upstream.tensorflow import graph_key, key_of_graph

__all__ = ["Lock", "Weights"]

_ATTRIBUTE = "_mpls_weights"


class Lock:
    """A reentrant lock for objects that can be copied and pickled: each copy gets a new lock."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> Any:
        return Lock, ()


class Weights:
    """Variables by name. Eager ones are stored here, those of a graph on the graph object.

    A variable keeps its graph alive, so no object that outlives the graph may hold it.
    """

    def __init__(self) -> None:
        self._eager: dict[str, Any] = {}
        self._graphs: weakref.WeakSet[Any] = weakref.WeakSet()

    def here(self) -> dict[str, Any]:
        """Return the dict of the current outermost graph, or of eager mode; callers add variables to it."""
        if tf.executing_eagerly():
            return self._eager
        with tf.init_scope():
            return self._eager if tf.executing_eagerly() else self.of(tf.compat.v1.get_default_graph())

    def of(self, graph: Any) -> dict[str, Any]:
        """Return the dict of a graph; callers add variables to it."""
        stores = getattr(graph, _ATTRIBUTE, None)
        if stores is None:
            stores = weakref.WeakKeyDictionary()
            setattr(graph, _ATTRIBUTE, stores)
        self._graphs.add(graph)
        found: dict[str, Any] = stores.setdefault(self, {})
        return found

    def everywhere(self) -> dict[tuple[str, str | None], Any]:
        """Return all variables of graphs that are alive, by name and graph key; None is the key of eager mode."""
        found: dict[tuple[str, str | None], Any] = {(name, None): each for name, each in self._eager.items()}
        for graph in list(self._graphs):
            found.update({(name, key_of_graph(graph)): each for name, each in self.of(graph).items()})
        return found

    def __getstate__(self) -> dict[str, Any]:
        if graph_key() is not None and self.here():
            raise GraphStateError(
                "LossScale: what is copied or pickled must have no variables of a v1 graph, whose values are in "
                f"sessions; got {sorted(self.here())} (list). Take loss_scale.state_dict(session). "
                "See MIGRATION.md#files-of-ones-own"
            )
        return {"_eager": self._eager}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
        self._eager = state["_eager"]
