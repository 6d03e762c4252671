"""Adds the ops of a SavedModel's function one by one to a graph that is never run, to see how large they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from mpls.formats.file_kinds import SAVED_MODEL
from mpls.keras.files.constants import ConstantShapes, CostlyShapes
from mpls.keras.files.graph_calls import described, refused

__all__ = ["Rehearsal"]

# The most ops over all functions; each takes some 150 us.
_OPS = 30_000


class Rehearsal:
    """Adds ops as TensorFlow does when it imports the functions, as long as that costs little.

    Args:
        path: the SavedModel's folder.
        more: units of work for constants besides those that any model may need.
    """

    def __init__(self, path: str, more: float) -> None:
        self._path = path
        self._place = ""
        self._constants = ConstantShapes(more)
        self._left = _OPS

    def add(self, function: Any, ops: Iterable[Any]) -> None:
        """Add the ops of a function to a graph of their own.

        Args:
            function: the function.
            ops: its arguments and nodes, each after those of its inputs.

        Raises:
            SavedStateError: TensorFlow would compute much from constants, or cannot add an op.
        """
        graph, made = tf.Graph(), dict[Any, Any]()
        arguments = {each.name: number for number, each in enumerate(function.signature.input_arg)}
        for op in ops:
            self._place = (
                f"{SAVED_MODEL}: function {described(function.signature.name)}, node {described(op.node.name)}"
            )
            self._left -= 1
            if self._left < 0:
                self._refuse("compute shapes from constants in small functions", f"functions of {_OPS} ops")
            attributes = {key: value for key, value in op.node.attr.items() if not key.startswith("_")}
            try:
                inputs = [made[each.op].outputs[each.value_index] for each in op.inputs]
                self._constants.note(op.type, inputs)
                with graph.as_default():
                    added = graph.create_op(op.type, inputs, attrs=attributes, op_def=op.op_def)
                # TensorFlow believes what the file says of shapes.
                for output, shape in zip(added.outputs, _told_shapes(function, op, arguments), strict=False):
                    output.set_shape(shape)
            except CostlyShapes as error:
                self._refuse(error.constraint, error.got)
            except Exception as error:
                # TensorFlow raises errors of many classes.
                self._refuse("be one that TensorFlow can add to a graph", f"{type(error).__name__}: {error}")
            made[op] = added

    def _refuse(self, constraint: str, got: str) -> None:
        raise refused(self._path, self._place, constraint, got)


def _told_shapes(function: Any, op: Any, arguments: Mapping[str, int]) -> list[tf.TensorShape]:
    """Return the shapes that a file gives for the outputs of an op, or for an argument of the function.

    Args:
        function: the function.
        op: the op.
        arguments: the number of each argument by its name.
    """
    attributes: Mapping[str, Any] = op.node.attr
    told: Sequence[Any] = ()
    number = arguments.get(op.node.name)
    if number is not None:
        if "_input_shapes" in function.attr:
            told = function.attr["_input_shapes"].list.shape[number : number + 1]
        attributes = function.arg_attr[number].attr if number in function.arg_attr else {}
    if "_output_shapes" in attributes:
        value = attributes["_output_shapes"]
        told = [value.shape] if value.WhichOneof("value") == "shape" else value.list.shape
    return [tf.TensorShape(each) for each in told]
