"""The size of a file, and of the model that its configs describe, before a framework makes the model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from mpls.keras.files.allowed_names import LAYERS, LAYERS_WITH_WEIGHTS
from mpls.keras.files.contents import COMPILE_CONFIGS, ModelFile
from mpls.saved.archives import KerasArchive
from mpls.saved.errors import broken
from mpls.saved.hdf5 import H5Model

__all__ = ["ADVICE", "NetworkSizes", "built_layers", "refuse_too_many_layers", "size_of_file", "sizes_of_networks"]

ADVICE = "Copy the file again, use an earlier one, or pass safe_mode=False if you trust whoever wrote it"
# A compressed file counts as at most this many times its size.
_PACKED = 4
# Layers with weights besides those whose arrays the file holds: a model that is not built has no arrays.
_UNBUILT = 100
# Layers in all, and in one Sequential, where each layer costs as much as all before it: a number for any file, and more
# for each array.
_LAYERS = 1000
_LAYERS_IN_A_ROW = 300
_LAYERS_OF_AN_ARRAY = 20
# How often a SavedModel may describe a layer: in its own metadata, and in those of each model around it.
_TOLD = 4
# Layers without weights that call for ops: a number for any file, and more for each array.
_OTHERS = 100
_OTHERS_OF_AN_ARRAY = 10


class NetworkSizes(NamedTuple):
    """Numbers of what the model's configs describe.

    Attributes:
        objects: everything with a class name, also of the user.
        layers: the layers of the framework.
        with_weights: the layers of the framework that have weights with any settings.
        longest: the layers in the longest sequence.
        calls: the calls of layers in functional models.
    """

    objects: int
    layers: int
    with_weights: int
    longest: int
    calls: int


def refuse_too_many_layers(file: ModelFile) -> None:
    """Refuse a model with more layers than the arrays in the file can belong to; a layer takes milliseconds to make.

    Raises:
        SavedStateError: the model is refused.
    """
    sizes, arrays = sizes_of_networks(file), file.arrays
    told = _told(file)
    for what, number, most in (
        ("layers with weights", sizes.with_weights, _UNBUILT + told),
        ("layers", sizes.layers, _LAYERS + _LAYERS_OF_AN_ARRAY * told),
        ("layers in a row", sizes.longest, _LAYERS_IN_A_ROW + _LAYERS_OF_AN_ARRAY * arrays),
    ):
        if number > most:
            got = f"{number}, with {arrays} arrays in the file"
            raise broken(file.path, "the model's config", f"describe at most {most} {what}", got, ADVICE)


def _told(file: ModelFile) -> int:
    return file.arrays * (_TOLD if file.format == "SavedModel" else 1)


def built_layers(file: ModelFile, sizes: NetworkSizes) -> tuple[int, int]:
    """Return for how many layers with weights, and for how many others, the loader may make ops.

    A layer with weights that is built has arrays in the file.
    """
    with_weights = min(sizes.with_weights, _told(file))
    return with_weights, min(sizes.layers - with_weights, _OTHERS + _OTHERS_OF_AN_ARRAY * _told(file))


def sizes_of_networks(file: ModelFile) -> NetworkSizes:
    """Count the objects in the model's configs."""
    objects, layers, with_weights, longest, calls = 0, 0, 0, 0, 0
    for value in _objects_in(file):
        objects += 1
        name = value.get("class_name")
        layers += name in LAYERS
        with_weights += name in LAYERS_WITH_WEIGHTS
        if name in ("Sequential", "StackedRNNCells"):
            settings = value.get("config")
            row = settings.get("layers", settings.get("cells")) if isinstance(settings, dict) else settings
            longest = max(longest, len(row) if isinstance(row, list) else 0)
        inbound = value.get("inbound_nodes")
        calls += len(inbound) if isinstance(inbound, list) else 0
    return NetworkSizes(objects, layers, with_weights, longest, calls)


def _objects_in(file: ModelFile) -> Iterator[dict[str, Any]]:
    """Yield each dict with a class name in the model's configs, without those of optimizer, losses and metrics."""
    stack = [value for key, value in file.configs.items() if key not in COMPILE_CONFIGS]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            if isinstance(value.get("class_name"), str):
                yield value
            stack += value.values()
        elif isinstance(value, list):
            stack += value


def size_of_file(file: ModelFile) -> int:
    """Return the size of a file or folder in bytes: of an archive unpacked, but at most `_PACKED` times its size."""
    if isinstance(file.content, KerasArchive):
        return min(file.content.unpacked, _PACKED * file.content.size)
    if isinstance(file.content, H5Model):
        return file.content.size
    names = (os.path.join(folder, name) for folder, _, names in os.walk(file.path) for name in names)
    return sum(os.path.getsize(name) for name in names)
