"""Limits of what making a model may cost, relative to its file: a config of a few bytes can ask for any amount."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import tensorflow as tf

from mpls.errors import SavedStateError
from mpls.keras.files.allowed_names import LAYERS, LAYERS_WITH_WEIGHTS
from mpls.keras.files.contents import ModelFile
from mpls.patches import Layer, Target, WhileNeeded
from mpls.saved.archives import KerasArchive
from mpls.saved.errors import broken
from mpls.saved.hdf5 import H5Model
from mpls.upstream.loading import (
    makers_of_networks,
    makers_of_ops,
    number_of_outputs,
    repeaters_of_tf_keras,
    variable_class_of_keras,
)

__all__ = ["limited", "refuse_too_many_layers"]

# A file holds the model's variables, but not always the optimizer's, which are up to three times as many; and they may
# be of half precision.
_COPIES = 8
_SLACK = 1 << 26
# Beyond this, a packed file is taken for one that was packed to seem small.
_PACKED = 4
_BYTES_OF_A_NUMBER = 4
_ADVICE = "Copy the file again, use an earlier one, or pass safe_mode=False if you trust whoever wrote it"
_ATTEMPTS = 1000
_MOST_ATTEMPTS = 100_000
# Layers that a file may describe beside those whose weights it holds: a model that is not built yet has none there.
_UNBUILT = 100
# Layers in all, and in a row of them, of which each costs what those before it do: some, and some for each array.
_LAYERS = 1000
_LAYERS_IN_A_ROW = 300
_LAYERS_OF_AN_ARRAY = 20
# A layer makes a few ops, or some hundred; only one that is unrolled over a sequence makes more.
_OPS = 15_000
_OPS_OF_A_LAYER = 300
# Slices of a tensor, in a list of Python, that cost as much as an op.
_SLICES = 50


class _Load:
    """What one load has used up."""

    def __init__(self, file: ModelFile, with_own: bool) -> None:
        self._path = file.path
        self.refusal: SavedStateError | None = None
        self._bytes_left = _COPIES * _size(file) + _SLACK
        layers, nodes = _sizes_of_networks(file)
        self._attempts_left = _ATTEMPTS + min(layers * nodes, _MOST_ATTEMPTS)
        self._ops_left = math.inf if with_own else _OPS + _OPS_OF_A_LAYER * layers

    def note_variable(self, shape: Any) -> None:
        """Note a variable that is about to be made.

        Raises:
            SavedStateError: the variables are together larger than those that the file can hold.
        """
        self._bytes_left -= math.prod(shape) * _BYTES_OF_A_NUMBER
        if self._bytes_left < 0:
            self._refuse("describe variables no larger than those that it holds", f"one of shape {list(shape)}")

    def note_attempt(self) -> None:
        """Note that a loader has tried to connect a layer, which it does again and again until it can.

        Raises:
            SavedStateError: it will never be able to.
        """
        self._attempts_left -= 1
        if self._attempts_left < 0:
            self._refuse("connect its layers in some order", "layers that wait for each other")

    def note_ops(self, number: int) -> None:
        """Note ops that are about to be made.

        Raises:
            SavedStateError: there are more than layers need that are not unrolled or repeated without measure.
        """
        self._ops_left -= number
        if self._ops_left < 0:
            self._refuse("describe layers of some thousand ops at most", "more, as of a loop that is unrolled")

    def _refuse(self, constraint: str, got: str) -> None:
        self.refusal = broken(self._path, "the model's config", constraint, got, _ADVICE)
        raise self.refusal


def refuse_too_many_layers(file: ModelFile) -> None:
    """Refuse a model of more layers than the weights in the file can be of; frameworks take milliseconds for each.

    Raises:
        SavedStateError: it is one.
    """
    if file.arrays is None:
        return
    layers, with_weights, longest = _numbers_of_layers(file)
    for what, number, most in (
        ("layers with weights", with_weights, _UNBUILT + file.arrays),
        ("layers", layers, _LAYERS + _LAYERS_OF_AN_ARRAY * file.arrays),
        ("layers in a row", longest, _LAYERS_IN_A_ROW + _LAYERS_OF_AN_ARRAY * file.arrays),
    ):
        if number > most:
            got = f"{number}, with {file.arrays} arrays in the file"
            raise broken(file.path, "the model's config", f"describe at most {most} {what}", got, _ADVICE)


def _numbers_of_layers(file: ModelFile) -> tuple[int, int, int]:
    """Return how many layers the configs describe, how many of them have weights, and the most in one sequence."""
    layers, with_weights, longest = 0, 0, 0
    for value in _objects_in(file):
        name = value.get("class_name")
        layers += name in LAYERS
        with_weights += name in LAYERS_WITH_WEIGHTS
        if name in ("Sequential", "StackedRNNCells"):
            settings = value.get("config")
            row = settings.get("layers", settings.get("cells")) if isinstance(settings, dict) else settings
            longest = max(longest, len(row) if isinstance(row, list) else 0)
    return layers, with_weights, longest


def _objects_in(file: ModelFile) -> Iterator[dict[str, Any]]:
    """Yield each object with a class in the model's configs."""
    stack = [value for key, value in file.configs.items() if key not in ("compile_config", "training_config")]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            if isinstance(value.get("class_name"), str):
                yield value
            stack += value.values()
        elif isinstance(value, list):
            stack += value


_current: ContextVar[_Load | None] = ContextVar("_current", default=None)


@contextmanager
def limited(file: ModelFile, *, with_own: bool) -> Iterator[None]:
    """Have what a framework makes of a file in a block, in this thread, refused where it is out of proportion.

    Args:
        file: the file.
        with_own: whether classes of the user are among it, which have as many ops as they have.

    Raises:
        SavedStateError: the variables of the model and its optimizer are larger than the file can hold, its layers wait
            for each other, or they are unrolled into more ops than a layer has.
    """
    load = _Load(file, with_own)
    _while_loading.hold_for(load)
    token = _current.set(load)
    try:
        with tf.variable_creator_scope(_create_variable):
            yield
    except Exception as error:
        if load.refusal is None:
            raise
        # Without the words that the frameworks put around it.
        raise load.refusal from error
    else:
        if load.refusal is not None:
            raise load.refusal
    finally:
        _current.reset(token)


def _create_variable(create: Callable[..., Any], **kwargs: Any) -> Any:
    load, shape = _current.get(), tf.TensorShape(kwargs.get("shape"))
    if load is not None and shape.is_fully_defined():
        load.note_variable(shape.as_list())
    return create(**kwargs)


def _noting_variables(layer: Layer) -> Any:
    def __init__(self: Any, initializer: Any, shape: Any = None, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        load = _current.get()
        if load is not None and callable(initializer) and isinstance(shape, (tuple, list)):
            # Others are refused by Keras.
            load.note_variable([each for each in shape if isinstance(each, int)])
        layer.original(self, initializer, shape, *args, **kwargs)

    return __init__


def _noting_attempts(layer: Layer) -> Any:
    def attempt(*args: Any, **kwargs: Any) -> Any:
        load = _current.get()
        if load is not None:
            load.note_attempt()
        return layer.original(*args, **kwargs)

    return attempt


def _noting_ops(layer: Layer) -> Any:
    def _create_op_internal(self: Any, op_type: str, *args: Any, **kwargs: Any) -> Any:
        load = _current.get()
        if load is not None:
            is_split = op_type in ("Split", "Unpack")
            load.note_ops(number_of_outputs(layer.original, (self, op_type, *args), kwargs) if is_split else 1)
        return layer.original(self, op_type, *args, **kwargs)

    return _create_op_internal


def _noting_repeats(layer: Layer) -> Any:
    def repeat_elements(x: Any, rep: Any, axis: Any) -> Any:
        load = _current.get()
        if load is not None and isinstance(rep, int):
            load.note_ops((x.shape[axis] or 0) * rep // _SLICES)
        return layer.original(x, rep, axis)

    return repeat_elements


def _targets() -> Iterator[Target]:
    variable = variable_class_of_keras()
    if variable is not None:
        yield variable, "__init__", _noting_variables
    for owner, method in makers_of_ops():
        yield owner, method, _noting_ops
    for repeater, name in repeaters_of_tf_keras():
        yield repeater, name, _noting_repeats
    for module, name in makers_of_networks():
        yield module, name, _noting_attempts


_while_loading = WhileNeeded(_targets)


def _size(file: ModelFile) -> int:
    """Return the number of bytes that a file holds, unpacked if it is an archive."""
    if isinstance(file.content, KerasArchive):
        return min(file.content.unpacked, _PACKED * file.content.size)
    if isinstance(file.content, H5Model):
        return file.content.size
    names = (os.path.join(folder, name) for folder, _, names in os.walk(file.path) for name in names)
    return sum(os.path.getsize(name) for name in names)


def _sizes_of_networks(file: ModelFile) -> tuple[int, int]:
    """Return how many objects with a class and how many calls of layers there are in the configs."""
    objects, nodes = 0, 0
    for value in _objects_in(file):
        objects += 1
        inbound = value.get("inbound_nodes")
        nodes += len(inbound) if isinstance(inbound, list) else 0
    return objects, nodes
