"""Limits of memory and time while a framework makes a model: a config of a few bytes can describe one of any size."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from mpls.errors import SavedStateError
from mpls.keras.files.constants import ConstantShapes, CostlyShapes
from mpls.keras.files.contents import ModelFile
from mpls.keras.files.hooked import hooked
from mpls.keras.files.model_hooks import current_load
from mpls.keras.files.network_sizes import ADVICE, built_layers, size_of_file, sizes_of_networks
from mpls.keras.files.shape_inputs import COMPUTED_IN_PYTHON
from mpls.patches import WhileNeeded
from mpls.saved.errors import broken
from mpls.upstream.model_loaders import OpArguments

__all__ = ["limited"]

# The variables of model and optimizer may have this many bytes for each byte of the file, and `_SLACK` more. A file may
# lack the optimizer's variables, which are up to three times as many as the model's, and may be of half precision.
_COPIES = 8
_SLACK = 1 << 26
_BYTES_OF_A_NUMBER = 4
# The memory of a number in a constant of a Normalization layer, in numbers of a variable: it is made of several arrays.
_COPIES_OF_A_CONSTANT = 8
# Pairs of indices of a sparse kernel, each a tuple of Python, besides those for which the file holds a number.
_INDICES = 250_000
# Multiplications for orthogonal matrices, besides twice those for the largest one that the file can hold.
_PRODUCTS = 2e10
# How often a loader may try to connect layers: with a small model, and at most.
_ATTEMPTS = 1000
_MOST_ATTEMPTS = 100_000
# Ops in all, and more for each layer. Layers with weights, such as RNNs that are not unrolled, make up to some hundred;
# most others a few.
_OPS = 10_000
_OPS_OF_A_LAYER = 300
_OPS_WITHOUT_WEIGHTS = 30
# An op in so many calls of layers costs twice as much as one in a layer, for its longer name and traceback.
_CALLS_IN_CALLS = 8
# Units of work, see `constant_work`, that TensorFlow may do for the shapes in a layer with weights.
_WORK_OF_A_LAYER = 1 << 22
# TensorFlow's limit. Each layer of Keras 3 goes through all sizes in a shape.
_DIMENSIONS = 254
# Ops that make as many tensors as an attribute says, or a list of sizes.
_LISTS = ("Split", "SplitV", "SparseSplit", "Unpack", "DynamicPartition", "CTCBeamSearchDecoder")
# Characters of regular expressions that Keras may compile, and how many expressions Python keeps compiled.
_CHARACTERS = 5_000_000
_KEPT = 400


class _Load:
    """What one load may still use of each limit.

    Args:
        file: the file.
        with_own: whether its configs name classes of the user, whose ops are not limited.

    Attributes:
        refusal: the error that was raised when a limit was reached; None before. Frameworks may replace or catch it.
    """

    def __init__(self, file: ModelFile, with_own: bool) -> None:
        self._path = file.path
        self.refusal: SavedStateError | None = None
        size = size_of_file(file)
        self._bytes_left = _COPIES * size + _SLACK
        self._indices_left = _INDICES + size // _BYTES_OF_A_NUMBER
        self._products_left = _PRODUCTS + 2 * (size // _BYTES_OF_A_NUMBER) ** 1.5
        sizes = sizes_of_networks(file)
        self._attempts_left = _ATTEMPTS + min(sizes.objects * sizes.calls, _MOST_ATTEMPTS)
        with_weights, others = built_layers(file, sizes)
        of_layers = _OPS_OF_A_LAYER * with_weights + _OPS_WITHOUT_WEIGHTS * others
        self._ops_left = math.inf if with_own else _OPS + of_layers
        self._depth = 0
        self._characters_left = _CHARACTERS
        self._patterns: set[str] = set()
        self._constants = ConstantShapes(_WORK_OF_A_LAYER * sizes.with_weights)

    def note_variable(self, shape: Any) -> None:
        """Count a variable that is about to be made.

        Raises:
            SavedStateError: the variables are together larger than the file allows.
        """
        self._bytes_left -= math.prod(shape) * _BYTES_OF_A_NUMBER
        if self._bytes_left < 0:
            self._refuse("describe variables no larger than those that it holds", f"one of shape {list(shape)}")

    def note_constant(self, shape: Any) -> None:
        """Count the constants of a layer that are about to be made, of a shape that the model's inputs have.

        Raises:
            SavedStateError: with the variables they are larger than the file allows.
        """
        self._bytes_left -= math.prod(shape) * _BYTES_OF_A_NUMBER * _COPIES_OF_A_CONSTANT
        if self._bytes_left < 0:
            self._refuse("describe constants in proportion to the file", f"one of shape {list(shape)}")

    def note_indices(self, number: int) -> None:
        """Count the indices of a layer's sparse kernel that are about to be listed.

        Raises:
            SavedStateError: there are more than the file can hold numbers for.
        """
        self._indices_left -= number
        if self._indices_left < 0:
            self._refuse("describe kernels no larger than those that it holds", f"one of {number} numbers")

    def note_orthogonal(self, shape: Any) -> None:
        """Count the work of an orthogonal matrix that is about to be made.

        Raises:
            SavedStateError: it is more than for the matrices that the file can hold.
        """
        columns, rows = shape[-1], math.prod(shape[:-1])
        self._products_left -= rows * columns * min(rows, columns)
        if self._products_left < 0:
            self._refuse("describe orthogonal matrices no larger than those that it holds", f"one of {list(shape)}")

    def note_attempt(self) -> None:
        """Count an attempt to connect a layer, which a loader repeats until the inputs of the layer are there.

        Raises:
            SavedStateError: there are more attempts than the model can need.
        """
        self._attempts_left -= 1
        if self._attempts_left < 0:
            self._refuse("connect its layers in some order", "layers that wait for each other")

    def note_ops(self, number: int) -> None:
        """Count ops, symbolic tensors, or calls of layers in tf_keras, that are about to be made.

        Raises:
            SavedStateError: there are more than the layers need, unless one is unrolled over a long sequence.
        """
        self._ops_left -= number * (1 + self._depth // _CALLS_IN_CALLS)
        if self._ops_left < 0:
            self._refuse("describe layers of some thousand ops at most", "more, as of a loop that is unrolled")

    @contextmanager
    def in_a_call(self) -> Iterator[None]:
        """Count what the block makes as made in the call of a layer, which may be nested in other calls."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def note_tensor(self, shape: Any) -> None:
        """Count a symbolic tensor that is about to be made; for tf_keras, `shape` is a type spec.

        Raises:
            SavedStateError: it has more dimensions than tensors can have, or there are too many.
        """
        if isinstance(shape, (list, tuple)) and len(shape) > _DIMENSIONS:
            self._refuse(f"describe tensors of at most {_DIMENSIONS} dimensions", f"one of {len(shape)}")
        self.note_ops(1)

    def note_op(self, op_type: str, arguments: OpArguments) -> None:
        """Count an op that is about to be made, the tensors in the list that it makes, and the work for its shapes.

        Raises:
            SavedStateError: there are more than the layers need, TensorFlow would abort the process, or it would
                compute much from constants to know the op's shape.
        """
        if op_type == "SplitV" and arguments.rank_of_input(1) not in (1, None):
            self._refuse("split tensors into a list of sizes", "nested lists")
        self.note_ops(arguments.number_of_outputs() if op_type in _LISTS else 1)
        with self._no_costly_shapes():
            self._constants.note(op_type, arguments.inputs())

    def note_value(self, tensor: Any) -> None:
        """Count a symbolic tensor whose value TensorFlow may compute at once, from constants.

        Raises:
            SavedStateError: that is much work.
        """
        # TensorFlow does not compute the outputs of other ops, except conditions.
        if tensor.op.type in COMPUTED_IN_PYTHON or (tensor.dtype.is_bool and tensor.op.type != "Const"):
            with self._no_costly_shapes():
                self._constants.compute(tensor)

    def note_shape(self, tensor: Any) -> None:
        """Count a symbolic tensor of which TensorFlow may make a shape.

        Raises:
            SavedStateError: it has more numbers than tensors have dimensions, or too many parts.
        """
        if tensor.shape.rank == 1 and (tensor.shape[0] or 0) > _DIMENSIONS:
            self._refuse(f"describe tensors of at most {_DIMENSIONS} dimensions", f"one of {tensor.shape[0]}")
        with self._no_costly_shapes():
            self._constants.look_into(tensor)

    @contextmanager
    def _no_costly_shapes(self) -> Iterator[None]:
        try:
            yield
        except CostlyShapes as error:
            self._refuse(error.constraint, error.got)

    def note_lookup(self, patterns: Collection[str]) -> None:
        """Count a search of the path of a layer among regular expressions.

        Raises:
            SavedStateError: there are too many to be compiled for each layer.
        """
        if len(self._patterns) <= _KEPT:
            self._patterns.update(patterns)
        is_kept = len(self._patterns) <= _KEPT
        self._characters_left -= len(patterns) if is_kept else sum(map(len, patterns))
        if self._characters_left < 0:
            self._refuse("have few patterns for the dtypes of its layers", f"{len(patterns)} patterns")

    def _refuse(self, constraint: str, got: str) -> None:
        self.refusal = broken(self._path, "the model's config", constraint, got, ADVICE)
        raise self.refusal


@contextmanager
def limited(file: ModelFile, *, with_own: bool) -> Iterator[None]:
    """Limit what a framework makes from a file, in a block and in this thread.

    Args:
        file: the file.
        with_own: whether its configs name classes of the user, whose ops are not limited.

    Raises:
        SavedStateError: the variables of model and optimizer are larger than the file allows, layers wait for each
            other, or they make more ops than layers do that are not unrolled.
    """
    load = _Load(file, with_own)
    _while_loading.hold_for(load)
    token = current_load.set(load)
    try:
        with tf.variable_creator_scope(_create_variable):
            yield
    except Exception as error:
        if load.refusal is None:
            raise
        # Raise the refusal itself, and not the exception that a framework has made of it.
        raise load.refusal from error
    else:
        if load.refusal is not None:
            raise load.refusal
    finally:
        current_load.reset(token)


def _create_variable(create: Callable[..., Any], **kwargs: Any) -> Any:
    load, shape = current_load.get(), tf.TensorShape(kwargs.get("shape"))
    if load is not None and shape.is_fully_defined():
        load.note_variable(shape.as_list())
    return create(**kwargs)


_while_loading = WhileNeeded(hooked)
