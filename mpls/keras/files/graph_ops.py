"""The check of the graph ops in a SavedModel under `safe_mode`, before TensorFlow loads it.

TensorFlow's loader runs functions of the file: those that create and fill a lookup table, and that save and restore an
object. Calls of the model run other functions, and so does saving it again. Those that destroy tables run when the
model is deleted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from mpls.formats.file_kinds import SAVED_MODEL
from mpls.keras.files.graph_assets import Assets, check_files
from mpls.keras.files.graph_calls import Calls, calls_of, described, refused
from mpls.keras.files.graph_limits import (
    LIMIT,
    has_too_many_parts,
    refuse_large_constants,
    refuse_many_nodes,
    refuse_many_tensors,
)
from mpls.keras.files.graph_shapes import refuse_costly_shapes
from mpls.keras.files.op_types import ALLOWED, AT_LOAD, SAVERS, TABLE_FROM_FILE
from mpls.saved.errors import broken, reading_foreign_bytes
from mpls.saved.files import read_bytes
from mpls.upstream import table

_IN_FUNCTIONS = ALLOWED | SAVERS | {TABLE_FROM_FILE}


def refuse_graph_ops(path: str, arrays: int = 0) -> None:
    """Refuse a SavedModel with ops that may use files, the network, Python or another machine.

    All functions in the file are checked, whether they are called or not. Only the ops of `op_types.py` are allowed.

    Args:
        path: the SavedModel's folder.
        arrays: the number of arrays in its checkpoint.

    Raises:
        SavedStateError: it has such an op or an unknown op; it is broken or too large; or a file that TensorFlow's
            loader reads is a link out of the folder.
    """
    check_files(path)
    graph = _only_graph(path)
    refuse_many_nodes(path, graph, arrays)
    calls, assets = calls_of(path, graph), Assets(path, graph)
    _refuse_nodes(path, "the main graph", graph.graph_def.node, ALLOWED)
    allowed = _IN_FUNCTIONS | calls.functions
    for function in graph.graph_def.library.function:
        name = function.signature.name
        _refuse_nodes(path, f"function {described(name)}", function.node_def, allowed)
        _refuse_files(path, function, calls, assets)
        if name in calls.at_load:
            _refuse_other_work(path, function)
    assets.check_all()
    refuse_large_constants(path, graph, calls)
    refuse_many_tensors(path, graph)
    refuse_costly_shapes(path, graph)


def _only_graph(path: str) -> Any:
    name, message = SAVED_MODEL, table.SAVED_MODEL.needed()
    content = read_bytes(os.path.join(path, name), path)
    with reading_foreign_bytes(path, name, "be whole"):
        if has_too_many_parts(content):
            raise refused(path, name, f"have at most {LIMIT} parts", "more")
    try:
        graphs = message.FromString(content).meta_graphs
    except Exception as error:
        # `DecodeError` of protobuf, which is TensorFlow's dependency and not one of mpls.
        raise broken(path, name, "be whole", f"{type(error).__name__}: {error}") from error
    # Without an object graph, or with several graphs, TensorFlow loads it as a file of TF 1, and runs ops of its main
    # graph.
    if len(graphs) != 1 or not graphs[0].HasField("object_graph_def"):
        found = f"{len(graphs)} graphs"
        raise refused(path, name, "hold one graph with the objects in it", found)
    return graphs[0]


def _refuse_nodes(path: str, place: str, nodes: Iterable[Any], allowed: frozenset[str]) -> None:
    for node in nodes:
        if node.op not in allowed:
            key = f"{place}, node {described(node.name)}"
            raise refused(path, key, "have an op that is known to stay within the model", node.op)


def _refuse_other_work(path: str, function: Any) -> None:
    """Refuse ops that a function for the loader does not need, such as loops and calls, which may never end."""
    for node in function.node_def:
        if node.op not in AT_LOAD and node.op != TABLE_FROM_FILE:
            key = f"function {described(function.signature.name)}, node {described(node.name)}"
            raise refused(path, key, "do nothing but fill tables, as it runs when the model is loaded", node.op)


def _refuse_files(path: str, function: Any, calls: Calls, assets: Assets) -> None:
    """Refuse ops that open files in functions that can be called, except one that fills a table from an asset."""
    name = function.signature.name
    opening = [node for node in function.node_def if node.op in SAVERS or node.op == TABLE_FROM_FILE]
    for number, node in enumerate(opening):
        key = f"function {described(name)}, node {described(node.name)}"
        # TensorFlow may replace a function with this attribute by another one with it.
        if name in calls.from_functions or "api_implements" in function.attr:
            raise refused(path, key, "not open files in a function that others call", node.op)
        if node.op == TABLE_FROM_FILE and not number:
            assets.require(key, function, node)
        elif node.op == TABLE_FROM_FILE:
            raise refused(path, key, "be the only one in its function that opens a file", node.op)
        elif name in calls.from_objects:
            raise refused(path, key, "not open files in a function that an object has", node.op)
