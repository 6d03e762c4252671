"""Replacements for functions of the frameworks while a model is made, which count what the functions make."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Protocol, SupportsIndex

import tensorflow as tf

from mpls.patches import Layer
from mpls.upstream.model_loaders import OpArguments

__all__ = [
    "current_load",
    "noting_attempts",
    "noting_calls",
    "noting_constants",
    "noting_indices",
    "noting_lookups",
    "noting_ops",
    "noting_orthogonal",
    "noting_repeats",
    "noting_shapes",
    "noting_tensors",
    "noting_values",
    "noting_variables",
]

# The number of slices of a tensor in a Python list that cost as much as an op.
_SLICES = 50

# The implementation of a locally connected layer with a list of the indices of its kernel.
_SPARSE = 3


# The ops that call functions.
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")


class _Load(Protocol):
    """The object that is told what is made; each method may refuse the file."""

    def note_variable(self, shape: Any) -> None: ...
    def note_constant(self, shape: Any) -> None: ...
    def note_indices(self, number: int) -> None: ...
    def note_orthogonal(self, shape: Any) -> None: ...
    def note_attempt(self) -> None: ...
    def note_ops(self, number: int) -> None: ...
    def in_a_call(self) -> AbstractContextManager[None]: ...
    def note_op(self, op_type: str, arguments: OpArguments) -> None: ...
    def note_tensor(self, shape: Any) -> None: ...
    def note_lookup(self, patterns: Collection[str]) -> None: ...
    def note_shape(self, tensor: Any) -> None: ...
    def note_value(self, tensor: Any) -> None: ...


# The load of this thread, None if there is none.
current_load: ContextVar[_Load | None] = ContextVar("current_load", default=None)


def noting_variables(layer: Layer) -> Any:
    """Return an `__init__` of variables of Keras 3 that notes their shapes."""

    def __init__(self: Any, initializer: Any, shape: Any = None, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        load = current_load.get()
        if load is not None and callable(initializer) and isinstance(shape, Iterable):
            load.note_variable(_integers_in(shape))
        layer.original(self, initializer, shape, *args, **kwargs)

    return __init__


def _integers_in(shape: Iterable[Any]) -> list[int]:
    """Return the sizes in a tuple, TensorShape or array; the frameworks refuse others."""
    return [abs(int(each)) for each in shape if isinstance(each, SupportsIndex) and not getattr(each, "shape", ())]


def noting_attempts(layer: Layer) -> Any:
    """Return a function that notes each call as an attempt to connect a layer."""

    def attempt(*args: Any, **kwargs: Any) -> Any:
        load = current_load.get()
        if load is not None:
            load.note_attempt()
        return layer.original(*args, **kwargs)

    return attempt


def noting_ops(layer: Layer) -> Any:
    """Return a method of graphs that notes each op."""

    def _create_op_internal(self: Any, op_type: str, *args: Any, **kwargs: Any) -> Any:
        load = current_load.get()
        if load is None:
            return layer.original(self, op_type, *args, **kwargs)
        arguments = OpArguments(layer.original, (self, op_type, *args), kwargs)
        load.note_op(op_type, arguments)
        return arguments.make_call() if op_type in _CALLS else arguments.make()

    return _create_op_internal


def noting_values(layer: Layer) -> Any:
    """Return a function that notes each tensor which it may compute from constants."""

    def constant_value(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        load = current_load.get()
        if load is not None and tf.is_symbolic_tensor(tensor):
            load.note_value(tensor)
        return layer.original(tensor, *args, **kwargs)

    return constant_value


def noting_shapes(layer: Layer) -> Any:
    """Return a function that notes each tensor of which it makes a shape."""

    def constant_value_as_shape(tensor: Any) -> Any:
        load = current_load.get()
        if load is not None and tf.is_symbolic_tensor(tensor):
            load.note_shape(tensor)
        return layer.original(tensor)

    return constant_value_as_shape


def noting_tensors(layer: Layer) -> Any:
    """Return an `__init__` of symbolic tensors that notes each."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        load = current_load.get()
        if load is not None:
            load.note_tensor(args[0] if args else kwargs.get("shape"))
        layer.original(self, *args, **kwargs)

    return __init__


def noting_calls(layer: Layer) -> Any:
    """Return a `__call__` of layers that notes each call as an op: models call the layers of models in them."""

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        load = current_load.get()
        if load is None:
            return layer.original(self, *args, **kwargs)
        load.note_ops(1)
        with load.in_a_call():
            return layer.original(self, *args, **kwargs)

    return __call__


def noting_constants(layer: Layer) -> Any:
    """Return a `build` of Normalization layers that notes their constants."""

    def build(self: Any, input_shape: Any, *args: Any, **kwargs: Any) -> Any:
        load = current_load.get()
        if load is not None and self.input_mean is not None:
            # Both Kerases refuse a dimension that is not known.
            load.note_constant(_integers_in(_kept_sizes(input_shape, self.axis)))
        return layer.original(self, input_shape, *args, **kwargs)

    return build


def _kept_sizes(shape: Any, axes: Any) -> list[Any]:
    dimensions = tf.TensorShape(shape).as_list()
    return [dimensions[axis] for axis in axes if -len(dimensions) <= axis < len(dimensions)]


def noting_indices(layer: Layer) -> Any:
    """Return a `build` of locally connected layers that notes the indices of a sparse kernel."""

    def build(self: Any, input_shape: Any, *args: Any, **kwargs: Any) -> Any:
        load = current_load.get()
        if load is not None and self.implementation == _SPARSE:
            outputs = _integers_in(self.compute_output_shape(input_shape)[1:])
            channels = input_shape[1 if self.data_format == "channels_first" else -1]
            load.note_indices(math.prod([*outputs, *self.kernel_size, channels or 0]))
        return layer.original(self, input_shape, *args, **kwargs)

    return build


def noting_orthogonal(layer: Layer) -> Any:
    """Return a `__call__` of orthogonal initializers that notes the shape of each matrix."""

    def __call__(self: Any, shape: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        load = current_load.get()
        if load is not None:
            load.note_orthogonal(_integers_in(shape) or [0])
        return layer.original(self, shape, *args, **kwargs)

    return __call__


def noting_lookups(layer: Layer) -> Any:
    """Return a `__getitem__` of maps of policies that notes each search."""

    def __getitem__(self: Any, key: str) -> Any:  # noqa: N807
        load = current_load.get()
        if load is not None and key not in self:
            load.note_lookup(tuple(self))
        return layer.original(self, key)

    return __getitem__


def noting_repeats(layer: Layer) -> Any:
    """Return a function that notes the slices into which it cuts a tensor."""

    def repeat_elements(x: Any, rep: Any, axis: Any) -> Any:
        load = current_load.get()
        if load is not None and isinstance(rep, int):
            load.note_ops((x.shape[axis] or 0) * rep // _SLICES)
        return layer.original(x, rep, axis)

    return repeat_elements
