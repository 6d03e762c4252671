"""Limits of what making a model may cost, relative to its file: a config of a few bytes can ask for any amount."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import tensorflow as tf

from mpls.errors import SavedStateError, error_text
from mpls.keras.files.contents import ModelFile
from mpls.patches import Layer, Target, WhileNeeded
from mpls.saved.validity import ANCHOR
from mpls.upstream_loading import makers_of_networks, variable_class_of_keras

__all__ = ["limited"]

# A file holds the model's variables, but not always the optimizer's, which are up to three times as many.
_COPIES = 4
_SLACK = 1 << 26
# Beyond this, a packed file is taken for one that was packed to seem small.
_PACKED = 4
_BYTES_OF_A_NUMBER = 4
_ATTEMPTS = 1000
_MOST_ATTEMPTS = 300_000


class _Load:
    """What one load has used up."""

    def __init__(self, file: ModelFile) -> None:
        self._path = file.path
        self._bytes_left = _COPIES * _size(file) + _SLACK
        self._attempts_left = _ATTEMPTS + min(_number_of_attempts(file), _MOST_ATTEMPTS)

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

    def _refuse(self, constraint: str, got: str) -> None:
        advice = "Copy the file again, use an earlier one, or pass safe_mode=False if you trust whoever wrote it"
        raise SavedStateError(error_text(f"{self._path}: the model's config", constraint, got, advice, ANCHOR))


_current: ContextVar[_Load | None] = ContextVar("_current", default=None)


@contextmanager
def limited(file: ModelFile) -> Iterator[None]:
    """Have what a framework makes of a file in a block, in this thread, refused where it is out of proportion.

    Raises:
        SavedStateError: the variables of the model and its optimizer are larger than the file can hold, or its layers
            wait for each other.
    """
    load = _Load(file)
    _while_loading.hold_for(load)
    token = _current.set(load)
    try:
        with tf.variable_creator_scope(_create_variable):
            yield
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


def _targets() -> Iterator[Target]:
    variable = variable_class_of_keras()
    if variable is not None:
        yield variable, "__init__", _noting_variables
    for module, name in makers_of_networks():
        yield module, name, _noting_attempts


_while_loading = WhileNeeded(_targets)


def _size(file: ModelFile) -> int:
    """Return the number of bytes that a file holds, unpacked if it is an archive."""
    if os.path.isdir(file.path):
        names = (os.path.join(folder, name) for folder, _, names in os.walk(file.path) for name in names)
        return sum(os.path.getsize(name) for name in names)
    size = os.path.getsize(file.path)
    if file.format != ".keras":
        return size
    with zipfile.ZipFile(file.path) as archive:
        return min(sum(each.file_size for each in archive.infolist()), _PACKED * size)


def _number_of_attempts(file: ModelFile) -> int:
    """Return how often a loader may try to connect layers that stand in the least favourable order."""
    layers, nodes, stack = 0, 0, list(file.configs.values())
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            if isinstance(value.get("inbound_nodes"), list):
                layers, nodes = layers + 1, nodes + len(value["inbound_nodes"])
            stack += value.values()
        elif isinstance(value, list):
            stack += value
    return layers * nodes
