"""How many parts a SavedModel's graph has, counted before it is parsed: empty ones take 50 times the room in memory."""

from __future__ import annotations

from mpls.saved.memory_limits import Budget
from mpls.saved.protobuf import as_bytes, fields

# The largest applications of tf_keras have some 100 thousand.
LIMIT = 1_000_000

# Where messages repeat, by the numbers of their fields: graph_def.node, graph_def.library.function.node_def, and
# object_graph_def.nodes, each in meta_graphs.
_Tree = dict[int, "_Tree"]
_REPEATED: _Tree = {2: {2: {1: {}, 2: {1: {3: {}}}}, 7: {1: {}}}}


def has_too_many_parts(content: bytes) -> bool:
    """Return whether a SavedModel has more parts than `LIMIT`.

    Raises:
        ValueError: it is none.
    """
    budget = Budget(LIMIT, "parts")
    try:
        _count(memoryview(content), _REPEATED, budget)
    except ValueError:
        if budget.left < 0:
            return True
        raise
    return False


def _count(message: memoryview, inner: _Tree, budget: Budget) -> None:
    for number, value in fields(message, budget):
        if inner.get(number):
            _count(as_bytes(value), inner[number], budget)
