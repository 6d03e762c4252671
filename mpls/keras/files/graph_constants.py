"""How large the constants of a SavedModel are: one number and a shape in the file are a whole array in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from mpls.formats.file_kinds import SAVED_MODEL
from mpls.keras.files.graph_calls import Calls, described, refused
from mpls.saved.errors import broken
from mpls.saved.memory_limits import unpacked_limit


def refuse_large_constants(path: str, graph: Any, calls: Calls) -> None:
    """Refuse more numbers than the file can hold, in constants that TensorFlow makes while it loads the file.

    Those are the ones that objects have, and those of functions that the loader runs. What a function that the model
    calls has is made when it is called.

    Args:
        path: the SavedModel's folder.
        graph: its only graph.
        calls: the calls in it.

    Raises:
        SavedStateError: they are larger, or of a dtype that there is not.
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
    # Of a string, NumPy has a pointer.
    each = 8 if dtype == tf.string else max(dtype.size or 0, 1)
    return each * math.prod(abs(dim.size) for dim in tensor.tensor_shape.dim)
