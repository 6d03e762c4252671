"""How many parts a SavedModel's graph has, counted before it is parsed: empty ones take 50 times the room in memory."""

from __future__ import annotations

from collections.abc import Iterator

from mpls.saved.wire import as_bytes, fields

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
    return any(number >= LIMIT for number, _ in enumerate(_parts(memoryview(content), _REPEATED)))


def _parts(message: memoryview, inner: _Tree) -> Iterator[None]:
    for number, value in fields(message):
        yield None
        if inner.get(number):
            yield from _parts(as_bytes(value), inner[number])
