"""Private parts of TensorFlow: whether it behaves as TF 1 or TF 2, graphs, ops, tensors and loss scales."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from mpls.upstream import table
from mpls.upstream.table import look_up


def is_v2_behavior_on() -> bool:
    """Return whether TensorFlow behaves as TF 2 in this process, in code that is in no graph.

    A program of TF 1 that has enabled eager execution does not: `disable_v2_behavior` disables `tf2` (TF 1.15 to 2.21).
    """
    is_tf2 = table.IS_TF2.load()
    return (is_tf2 is None or bool(is_tf2())) and is_eager_by_default()


def is_eager_by_default() -> bool:
    """Return whether threads that begin now run eagerly, whatever this one does (TF 1.7 to 2.21)."""
    mode, eager = table.MODE.load(), table.EAGER_MODE.load()
    if None in (mode, eager):
        return bool(tf.compat.v1.executing_eagerly_outside_functions())
    return bool(mode == eager)


@functools.cache
def eager_tensor_class() -> Any:
    """Return the class of tensors in eager mode."""
    found: Any = table.EAGER_TENSOR.of(look_up(tf, "__internal__"))
    if found is None:
        with tf.init_scope():
            found = type(tf.constant(0))
    return found


def native_v1_class(name: str) -> Any:
    """Return TensorFlow's own class of a name, as a base class for isinstance checks.

    Every release up to 2.21 still has `tf.compat.v1.mixed_precision`; one that drops it leaves None.
    """
    return getattr(getattr(tf.compat.v1, "mixed_precision", None), name, None)


def graph_key() -> str | None:
    """Return the key of the current outermost graph; None in eager mode.

    Seen from inside a `tf.function` or a branch it is the key of the outermost graph, where variables live.
    """
    if tf.executing_eagerly():
        return None
    with tf.init_scope():
        if tf.executing_eagerly():
            return None
        return key_of_graph(tf.compat.v1.get_default_graph())


def key_of_graph(graph: Any) -> str:
    """Return the key that identifies a v1 graph (TensorFlow 1.9 to 2.21)."""
    key = table.GRAPH_KEY.of(graph)
    if key is None:
        # The id of a freed graph may be used again.
        key = getattr(graph, "_mpls_key", None) or f"mpls-{next(_keys)}"
        graph._mpls_key = key
    return str(key)


_keys = itertools.count()


def is_compiled_by_xla() -> bool:
    """Return whether the graph that is being built will be compiled by XLA, or is part of one that will be.

    TensorFlow marks such graphs by their control-flow contexts (TensorFlow 1.14 to 2.21).
    """
    if tf.executing_eagerly():
        return False
    is_in_context = table.XLA_CONTEXT.load()
    return is_in_context is None or bool(is_in_context(tf.compat.v1.get_default_graph()))


def caller_of_xla() -> Any:
    """Return the graph of the function that calls what XLA compiles; None if no function does.

    Where a graph that XLA compiles is being built, TensorFlow marks its caller too (TensorFlow 1.14 to 2.21).
    """
    is_in_context, graph, caller = table.XLA_CONTEXT.load(), tf.compat.v1.get_default_graph(), None
    while graph is not None and is_in_context is not None:
        caller = graph if is_in_context(graph) else caller
        graph = getattr(graph, "outer_graph", None)
    return caller if hasattr(caller, "outer_graph") else None


def is_recorded() -> bool:
    """Return whether a gradient tape or a forward accumulator watches the ops of this thread (TF 2.13 to 2.21)."""
    is_recording = table.IS_RECORDING.load()
    return is_recording is None or bool(is_recording())


def elements_of(tensor: Any) -> int:
    """Return the number of elements of an eager tensor, without making an object of its shape (TF 2.0 to 2.21)."""
    try:
        elements: int = tensor._num_elements()
    except AttributeError:
        # Every step calls this, so the attribute is not looked up beforehand.
        table.ELEMENTS.warn_that_it_is_gone()
        elements = tensor.shape.num_elements()
    return elements


def kinds_of(tensors: list[Any], varying: Sequence[int] = ()) -> tuple[tuple[int, tuple[int, ...] | None], ...]:
    """Return a cache key for functions of eager tensors: their dtypes and shapes.

    The public attributes make objects of them, which takes longer than an op on the tensor (TF 2.0 to 2.21).

    Args:
        tensors: the tensors.
        varying: places of tensors whose shapes do not matter.
    """
    try:
        kinds: list[Any] = [(tensor._datatype_enum(), tensor._shape_tuple()) for tensor in tensors]
    except AttributeError as error:
        (table.DATATYPE if error.name == table.DATATYPE.name else table.SHAPE).warn_that_it_is_gone()
        kinds = [(tensor.dtype.as_datatype_enum, tuple(tensor.shape)) for tensor in tensors]
    for place in varying:
        kinds[place] = kinds[place][0], None
    return tuple(kinds)


def quick_call(function: Any) -> Callable[[list[Any]], list[Any]]:
    """Return a fast call of a concrete function with eager tensors, without support for tapes and names."""
    outputs = [tensor.dtype for tensor in function.outputs]
    return lambda tensors: list(tf.raw_ops.PartitionedCall(args=tensors, Tout=outputs, f=function))


def captured(tensors: list[Any]) -> list[Any]:
    """Capture tensors in the graph that is being built, if it belongs to a function or a branch."""
    graph = tf.compat.v1.get_default_graph()
    return [graph.capture(tensor) for tensor in tensors] if hasattr(graph, "capture") else list(tensors)


def hidden_from_xla(tensor: Any) -> Any:
    """Return a tensor behind an XLA optimization barrier, for graphs that XLA compiles (TF 2.12 to 2.21)."""
    barrier = table.BARRIER.load()
    return tensor if barrier is None else barrier([tensor])[0]


def strategy_needs_no_merge_call() -> bool:
    """Return whether the current strategy aggregates in replica context and forbids `merge_call`.

    TensorFlow 2.5 introduced it for XLA-compiled replica functions on GPUs.
    """
    needs_none = table.NO_MERGE_CALL.of(look_up(look_up(tf, "__internal__"), "distribute"))
    return needs_none is not None and bool(needs_none())


def fixed_value_of(loss_scale: Any) -> Any:
    """Return the value of a fixed loss scale, of mpls or of TensorFlow itself."""
    value = table.FIXED_VALUE.of(loss_scale)
    return loss_scale.get_config()["loss_scale_value"] if value is None else value


def weights_of(loss_scale: Any) -> list[Any]:
    """Return the variables of a loss scale, of mpls or of TensorFlow itself."""
    return list(table.SCALE_WEIGHTS.of(loss_scale, {}).values())


def id_of_variable(variable: Any) -> Any:
    """Return the unique id of a variable in eager mode; None if it has none."""
    is_plain = isinstance(variable, tf.Variable) and not isinstance(variable, tf.distribute.DistributedValues)
    if is_plain and hasattr(variable, "handle"):
        return table.VARIABLE_ID.of(variable)
    # Copies on several devices, and reference variables, need not have it.
    return getattr(variable, table.VARIABLE_ID.name, None)
