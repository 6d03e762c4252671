"""The limit of what TensorFlow computes from constants while it imports the functions of a SavedModel."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from mpls.formats.file_kinds import SAVED_MODEL
from mpls.keras.files.constants import ConstantShapes, CostlyShapes
from mpls.keras.files.graph_calls import described, refused
from mpls.keras.files.graph_rehearsal import Rehearsal
from mpls.keras.files.op_types import HARMLESS
from mpls.keras.files.shape_inputs import SHAPES
from mpls.upstream import table

__all__ = ["refuse_costly_shapes"]

# The most numbers in a small vector, such as the sizes in a shape.
_SMALL = 1_024
_DIMENSIONS = 254
# Units of work that TensorFlow may do for each node; importing the node takes longer than that.
_WORK_OF_A_NODE = 30_000
# Ops of vectors and scalars, by what bounds the length of their result: the longest input, the first, or all together.
_AS_LONGEST = (HARMLESS["elementwise"] - {"Bitcast"}) | {"Identity", "Relu", "StopGradient"}
_AS_LONGEST |= {"BroadcastArgs", "BroadcastGradientArgs", "ConcatOffset"}
_AS_FIRST = frozenset({"InvertPermutation", "ListDiff", "ReverseV2", "Slice", "SplitV", "Squeeze", "Unpack"})
_REDUCTIONS = frozenset({"All", "Any", "Max", "Mean", "Min", "Prod", "Sum"})
_AS_ALL = frozenset({"Concat", "ConcatV2"})


class _Most(NamedTuple):
    """The largest size that a tensor can have, as estimated without TensorFlow: dimensions, and numbers."""

    rank: int
    numbers: int


class _Size(NamedTuple):
    """The shape of a small tensor, as `work_of` asks for it."""

    rank: int
    numbers: int

    def __str__(self) -> str:
        return f"({self.numbers},)"

    def num_elements(self) -> int:
        return self.numbers


class _Large(Exception):
    """A tensor may be larger than a small vector."""


class _Tensor:
    """An output of an op that is to be imported; it has the attributes of TensorFlow's symbolic tensors.

    Args:
        op: the op.
        name: the name of the output, or of the list that it is in.
        number: its place in the list.
    """

    __slots__ = ("name", "number", "op")

    def __init__(self, op: _Op, name: str, number: int) -> None:
        self.op, self.name, self.number = op, name, number

    @property
    def value_index(self) -> int:
        return self.op.starts[self.name] + self.number

    @property
    def dtype(self) -> tf.DType:
        return self.op.dtypes[self.value_index]

    @property
    def shape(self) -> _Size:
        if self.op.most is None:
            raise _Large
        return _Size(1, self.op.most.numbers)

    def ref(self) -> Any:
        return self.op, self.name, self.number


class _Op:
    """An op that is to be imported; it has the attributes of TensorFlow's ops.

    Attributes:
        inputs: its inputs, set once all ops are there.
        is_constant: whether TensorFlow can compute it ahead; set once that is known.
        most: the largest output that it can have, None if that may be more than a small vector; set once it is known.
    """

    __slots__ = ("__weakref__", "inputs", "is_constant", "most", "node", "op_def", "outputs_by_name", "type")

    def __init__(self, node: Any, op_def: Any) -> None:
        self.type, self.node, self.op_def = node.op, node, op_def
        self.inputs: list[_Tensor] = []
        self.is_constant = False
        self.most: _Most | None = None
        self.outputs_by_name: tuple[dict[str, int], list[tf.DType]] | None = None

    @property
    def starts(self) -> dict[str, int]:
        """The number of the first output of each name."""
        return self._found_outputs()[0]

    @property
    def dtypes(self) -> list[tf.DType]:
        """The dtype of each output."""
        return self._found_outputs()[1]

    @property
    def outputs(self) -> list[_Tensor]:
        """The outputs."""
        starts, ends = self.starts, [*self.starts.values(), len(self.dtypes)][1:]
        return [
            _Tensor(self, name, number)
            for (name, start), end in zip(starts.items(), ends, strict=True)
            for number in range(end - start)
        ]

    def _found_outputs(self) -> tuple[dict[str, int], list[tf.DType]]:
        if self.outputs_by_name is None:
            starts, dtypes = dict[str, int](), list[tf.DType]()
            for each in self.op_def.output_arg:
                starts[each.name] = len(dtypes)
                dtypes += self._dtypes_of(each)
            self.outputs_by_name = starts, dtypes
        return self.outputs_by_name

    def _dtypes_of(self, argument: Any) -> list[tf.DType]:
        if argument.type_list_attr:
            return [tf.dtypes.as_dtype(each) for each in self.attribute(argument.type_list_attr).list.type]
        dtype = self.attribute(argument.type_attr).type if argument.type_attr else argument.type
        number = self.attribute(argument.number_attr).i if argument.number_attr else 1
        return [tf.dtypes.as_dtype(dtype)] * number

    def attribute(self, name: str) -> Any:
        """Return the value of an attribute, also of one that was left out because it is the default."""
        if name in self.node.attr:
            return self.node.attr[name]
        return next((each.default_value for each in self.op_def.attr if each.name == name), tf.compat.v1.AttrValue())

    def find_most(self) -> None:
        """Set `most` by that of the inputs."""
        most = _most_of(self)
        if most is not None and most.numbers <= _SMALL and (most.rank <= 1 or self.type == "Const"):
            self.most = most


def _most_of(op: _Op) -> _Most | None:
    if op.type == "Const":
        sizes = [abs(each.size) for each in _value(op).tensor_shape.dim]
        return _Most(len(sizes), math.prod(sizes))
    if op.type in SHAPES:
        return _Most(1, _DIMENSIONS) if op.type in ("Shape", "ShapeN") else _Most(0, 1)
    inputs = [each.op.most for each in op.inputs]
    known = [each for each in inputs if each is not None]
    if not known or len(known) < len(inputs) or (op.type == "StridedSlice" and op.attribute("new_axis_mask").i):
        return None
    return _most_from(op, known)


def _most_from(op: _Op, inputs: list[_Most]) -> _Most | None:
    rank, total = max(each.rank for each in inputs), sum(each.numbers for each in inputs)
    if rank > 1:
        return None
    if op.type in _AS_LONGEST:
        return _Most(rank, max(each.numbers for each in inputs))
    if op.type in _AS_FIRST:
        return inputs[0]
    if op.type in _AS_ALL:
        return _Most(1, total)
    if op.type == "Pack":
        return _Most(rank + 1, total)
    if op.type == "ExpandDims":
        return _Most(inputs[0].rank + 1, inputs[0].numbers)
    if op.type in ("Gather", "GatherV2"):
        return inputs[1]
    return _most_by_value(op, inputs)


def _most_by_value(op: _Op, inputs: list[_Most]) -> _Most | None:
    """Return the largest output of an op whose size depends on values of inputs or attributes."""
    if op.type == "StridedSlice":
        return _Most(0, 1) if op.attribute("shrink_axis_mask").i & 1 else inputs[0]
    if op.type in _REDUCTIONS:
        goes_over_all = _constant(op.inputs[1]) is not None and inputs[1].numbers > 0
        return _Most(0, 1) if goes_over_all and not op.attribute("keep_dims").b else inputs[0]
    if op.type == "Reshape" and inputs[1].numbers <= 1:
        return _Most(0 if _constant(op.inputs[1]) is not None and not inputs[1].numbers else 1, inputs[0].numbers)
    if op.type == "Range":
        start, limit, delta = (_constant(each) for each in op.inputs)
        limit = _DIMENSIONS if op.inputs[1].op.type == "Rank" else limit
        if None not in (start, limit, delta) and delta:
            return _Most(1, max(math.ceil((limit - start) / delta), 0))
    return None


def _constant(tensor: _Tensor) -> Any:
    """Return the first number of a constant; 0 if it is empty, None if it is no known constant."""
    if tensor.op.type != "Const" or tensor.op.most is None:
        return None
    value = tf.make_ndarray(_value(tensor.op)).reshape(-1)
    return value[0].item() if len(value) else 0


def _value(op: _Op) -> Any:
    return op.attribute("value").tensor


class _Estimate(ConstantShapes):
    """Counts what TensorFlow computes if all tensors are small."""

    def _is_told_by_shapes(self, op: Any) -> bool:
        # TensorFlow may know the shape of a tensor that is no constant.
        return not any(each.op.is_constant for each in op.inputs)

    def _from_sources(self, op: Any) -> Any:
        facts = super()._from_sources(op)
        op.is_constant = facts.is_constant
        return facts


def refuse_costly_shapes(path: str, graph: Any) -> None:
    """Refuse functions whose ops have shapes that TensorFlow computes from constants with much work.

    Args:
        path: the SavedModel's folder.
        graph: its only MetaGraphDef.

    Raises:
        SavedStateError: there are such functions.
    """
    more = _WORK_OF_A_NODE * sum(len(each.node_def) for each in graph.graph_def.library.function)
    estimate, rehearsal = _Estimate(more), Rehearsal(path, more)
    find = functools.cache(table.OP_DEFS.needed())
    for function in graph.graph_def.library.function:
        ops, done = list[_Op](), 0
        try:
            ops = _ops_of(function, find)
            for op in ops:
                estimate.note(op.type, op.inputs)
                op.find_most()
                done += 1
        except _Large:
            rehearsal.add(function, ops)
        except (CostlyShapes, LookupError, OverflowError, TypeError, ValueError) as error:
            place = f"{SAVED_MODEL}: function {described(function.signature.name)}"
            if ops:
                place += f", node {described(ops[done].node.name)}"
            got = f"{type(error).__name__}: {error}"
            if isinstance(error, CostlyShapes):
                raise refused(path, place, error.constraint, error.got) from error
            raise refused(path, place, "have ops as TensorFlow writes them", got) from error


def _ops_of(function: Any, find: Callable[[str], Any]) -> list[_Op]:
    """Return the ops of a function and of its arguments, connected, each after those of its inputs."""
    ops: dict[str, _Op] = {}
    for argument in function.signature.input_arg:
        node = tf.compat.v1.NodeDef(name=argument.name, op="Placeholder")
        node.attr["dtype"].type = argument.type
        ops[argument.name] = _Op(node, find(node.op))
    arguments = frozenset(ops)
    for node in function.node_def:
        # An unknown op is a call of a function, which TensorFlow does not compute ahead.
        ops[node.name] = _Op(node, find(node.op) or find("NoOp"))
    for op in ops.values():
        for text in op.node.input:
            name, *output = text.split(":")
            if name in arguments:
                op.inputs.append(_Tensor(ops[name], "output", 0))
            elif not name.startswith("^"):
                output_name, number = output
                op.inputs.append(_Tensor(ops[name], output_name, int(number)))
    return _in_order(list(ops.values()))


def _in_order(ops: list[_Op]) -> list[_Op]:
    """Return each op after those of its inputs, except those that wait for themselves outside of loops."""
    waits = {op: 0 if op.type == "Merge" else len(op.inputs) for op in ops}
    users: dict[_Op, list[_Op]] = {}
    for op in ops:
        for each in op.inputs if waits[op] else ():
            users.setdefault(each.op, []).append(op)
    ordered = [op for op in ops if not waits[op]]
    for op in ordered:
        for user in users.get(op, ()):
            waits[user] -= 1
            if not waits[user]:
                ordered.append(user)
    return ordered
