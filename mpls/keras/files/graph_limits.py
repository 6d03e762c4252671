"""Limits of the memory that a SavedModel's graph takes: of its parsed messages, its constants, and lists of tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from mpls.formats.file_kinds import SAVED_MODEL
from mpls.keras.files.graph_calls import Calls, described, refused
from mpls.saved.errors import broken
from mpls.saved.memory_limits import Budget, unpacked_limit
from mpls.saved.protobuf import as_bytes, fields

# The most fields in the messages that hold nodes and objects, of which each is one field. The largest applications of
# tf_keras have some 100 thousand.
LIMIT = 1_000_000

# Ops in all functions, and more for each array: TensorFlow adds them to graphs before it knows that the file is whole.
# RNNs of tf_keras have some 500 for each array, other layers 20 to 100. A function costs as much as so many ops.
_NODES = 60_000
_NODES_OF_AN_ARRAY = 500
_NODES_OF_A_FUNCTION = 10

# The numbers of the fields on the way to nodes and objects. In each of meta_graphs, these are graph_def.node,
# graph_def.library.function.node_def and object_graph_def.nodes.
_Tree = dict[int, "_Tree"]
_REPEATED: _Tree = {2: {2: {1: {}, 2: {1: {3: {}}}}, 7: {1: {}}}}

# The attributes of ops that say how many tensors they take or make in a list. No other attribute has such a name.
_COUNTS = (
    *("N", "num", "num_split", "num_partitions", "top_paths", "num_params", "num_params_weights", "num_params_biases"),
    *("Nsparse", "Ndense", "num_sparse", "Ncontext_sparse", "Ncontext_dense", "Nfeature_list_sparse"),
    *("Nfeature_list_dense", "OUTPUT_RAGGED_RANK", "PARAMS_RAGGED_RANK", "output_ragged_rank", "RAGGED_RANK"),
    "num_row_partition_tensors",
)


def has_too_many_parts(content: bytes) -> bool:
    """Return whether a SavedModel has more parts than `LIMIT`; an empty one takes 50 times its size when it is parsed.

    Raises:
        ValueError: the bytes are not a SavedModel.
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


def refuse_many_tensors(path: str, graph: Any) -> None:
    """Refuse ops that take or make lists of tensors which are together longer than `LIMIT`.

    TensorFlow makes room for the whole list before it compares its length with anything.

    Args:
        path: the SavedModel's folder.
        graph: its only MetaGraphDef.

    Raises:
        SavedStateError: the lists are too long.
    """
    left = LIMIT
    for nodes in (graph.graph_def.node, *(each.node_def for each in graph.graph_def.library.function)):
        for node in nodes:
            left -= sum(max(node.attr[name].i, 0) for name in _COUNTS if name in node.attr)
            if left < 0:
                key = f"{SAVED_MODEL}: node {described(node.name)}"
                raise refused(path, key, f"leave all lists of tensors at most {LIMIT} long", node.op)


def refuse_many_nodes(path: str, graph: Any, arrays: int) -> None:
    """Refuse functions with more ops than a model with so many arrays has.

    Args:
        path: the SavedModel's folder.
        graph: its only MetaGraphDef.
        arrays: the number of arrays in its checkpoint.

    Raises:
        SavedStateError: there are too many functions or ops.
    """
    functions = graph.graph_def.library.function
    nodes = len(graph.graph_def.node) + sum(len(each.node_def) + _NODES_OF_A_FUNCTION for each in functions)
    most = _NODES + _NODES_OF_AN_ARRAY * arrays
    if nodes > most:
        constraint = f"have at most {most} ops, of which each function is {_NODES_OF_A_FUNCTION}"
        raise refused(path, SAVED_MODEL, constraint, f"{nodes}, with {arrays} arrays in the file")


def refuse_large_constants(path: str, graph: Any, calls: Calls) -> None:
    """Refuse constants that are larger than the file allows, if TensorFlow makes them while it loads the file.

    A constant may be one number and a shape in the file, and a whole array in memory. Counted are the constants of
    objects, and those in functions that the loader runs. Constants in other functions are made when the model calls
    them.

    Args:
        path: the SavedModel's folder.
        graph: its only MetaGraphDef.
        calls: the calls in it.

    Raises:
        SavedStateError: the constants are together too large, or one is of an unknown dtype.
    """
    left = unpacked_limit(graph.ByteSize())
    for key, tensor in _made_at_load(graph, calls):
        left -= _size(path, key, tensor)
        if left < 0:
            shape = [each.size for each in tensor.tensor_shape.dim]
            raise refused(
                path, f"{SAVED_MODEL}: {key}", "be no larger than what the file holds of it", f"shape {shape}"
            )


def _made_at_load(graph: Any, calls: Calls) -> Iterator[tuple[str, Any]]:
    main = {node.name: node for node in graph.graph_def.node}
    for number, each in enumerate(graph.object_graph_def.nodes):
        if each.HasField("constant") and each.constant.operation in main:
            node = main[each.constant.operation]
            yield f"object {number}, constant {described(node.name)}", node.attr["value"].tensor
    for function in graph.graph_def.library.function:
        if function.signature.name in calls.at_load:
            for node in function.node_def:
                if "value" in node.attr:
                    place = f"function {described(function.signature.name)}, node {described(node.name)}"
                    yield place, node.attr["value"].tensor


def _size(path: str, key: str, tensor: Any) -> int:
    try:
        dtype = tf.dtypes.as_dtype(tensor.dtype)
    except TypeError as error:
        raise broken(path, f"{SAVED_MODEL}: {key}", "be of a dtype of TensorFlow", tensor.dtype) from error
    # An array of strings has a pointer for each.
    each = 8 if dtype == tf.string else max(dtype.size or 0, 1)
    return each * math.prod(abs(dim.size) for dim in tensor.tensor_shape.dim)
