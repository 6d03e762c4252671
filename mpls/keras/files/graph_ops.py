"""Graph ops of a SavedModel that could do harm, refused before anything is loaded.

TensorFlow's loader runs functions of the file: those that make a table, fill it, and save and restore an object. The
model's calls run others, re-saving and the end of the process those that destroy tables.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from mpls.formats.file_kinds import SAVED_MODEL
from mpls.keras.files.graph_assets import Assets, check_files
from mpls.keras.files.graph_calls import Calls, calls_of, described, refused
from mpls.keras.files.graph_constants import refuse_large_constants
from mpls.keras.files.graph_parts import LIMIT, has_too_many_parts
from mpls.keras.files.op_types import ALLOWED, AT_LOAD, SAVERS, TABLE_FROM_FILE
from mpls.saved.errors import broken, reading_foreign_bytes
from mpls.saved.files import read_bytes
from mpls.upstream import table

_IN_FUNCTIONS = ALLOWED | SAVERS | {TABLE_FROM_FILE}


def refuse_graph_ops(path: str) -> None:
    """Refuse a SavedModel with ops that reach out of it: into files, the network, Python, or another machine.

    Every function in the file is looked at, whoever calls it, and allowed are the ops of `op_types.py` only.

    Args:
        path: the SavedModel's folder.

    Raises:
        SavedStateError: there is such an op, or one that mpls does not know; or a file that TensorFlow's loader reads
            is a link out of the folder.
    """
    check_files(path)
    graph = _only_graph(path)
    calls, assets = calls_of(path, graph), Assets(path, graph)
    _refuse_nodes(path, "the main graph", graph.graph_def.node, ALLOWED)
    allowed = _IN_FUNCTIONS | calls.functions
    for function in graph.graph_def.library.function:
        name = function.signature.name
        _refuse_nodes(path, f"function {described(name)}", function.node_def, allowed)
        _refuse_files(path, function, calls, assets)
        if name in calls.at_load:
            _refuse_other_work(path, function)
    refuse_large_constants(path, graph, calls)


def _only_graph(path: str) -> Any:
    name, message = SAVED_MODEL, table.SAVED_MODEL.needed()
    content = read_bytes(os.path.join(path, name), path)
    with reading_foreign_bytes(path, name, "be whole"):
        if has_too_many_parts(content):
            raise refused(path, name, f"have at most {LIMIT} parts", "more")
    try:
        graphs = message.FromString(content).meta_graphs
    except Exception as error:
        # DecodeError, of a package that is TensorFlow's own dependency.
        raise broken(path, name, "be whole", f"{type(error).__name__}: {error}") from error
    # Else TensorFlow takes it for one of TF 1, whose main graph has ops that run when it is loaded.
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
    """Refuse what could keep the loader busy in a function that it runs: loops, and calls that never return."""
    for node in function.node_def:
        if node.op not in AT_LOAD and node.op != TABLE_FROM_FILE:
            key = f"function {described(function.signature.name)}, node {described(node.name)}"
            raise refused(path, key, "do nothing but fill tables, as it runs when the model is loaded", node.op)


def _refuse_files(path: str, function: Any, calls: Calls, assets: Assets) -> None:
    """Refuse ops that open files in a function that anyone calls, but for a table that is filled from an asset."""
    name = function.signature.name
    opening = [node for node in function.node_def if node.op in SAVERS or node.op == TABLE_FROM_FILE]
    for number, node in enumerate(opening):
        key = f"function {described(name)}, node {described(node.name)}"
        # Functions with the attribute take each other's place when they run.
        if name in calls.from_functions or "api_implements" in function.attr:
            raise refused(path, key, "not open files in a function that others call", node.op)
        if node.op == TABLE_FROM_FILE and not number:
            assets.require(key, function, node)
        elif node.op == TABLE_FROM_FILE:
            raise refused(path, key, "be the only one in its function that opens a file", node.op)
        elif name in calls.from_objects:
            raise refused(path, key, "not open files in a function that an object has", node.op)
