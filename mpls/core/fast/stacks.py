"""Many small tensors as few: what is done to each element alone is then done by one op instead of hundreds."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from mpls.core.fast import choices

# Copying more than that takes longer than the ops that it saves; in eager mode, each is called from Python.
MOST_ELEMENTS_IN_GRAPHS = 512
MOST_ELEMENTS_IN_EAGER_MODE = 4096
_FEWEST_TENSORS = 4


class Stacks:
    """Dense tensors, the small ones among them that have dtype, shape and device in common stacked.

    Args:
        tensors: the tensors.

    Attributes:
        tensors: the stacks, and the tensors that are in none.
    """

    def __init__(self, tensors: list[Any]) -> None:
        self._count = len(tensors)
        self._places = [[index] for index in range(self._count)]
        if len(tensors) >= _FEWEST_TENSORS and not choices.uses_plain_ways():
            self._places = _grouped(tensors)
        self.tensors = [
            tensors[places[0]] if len(places) == 1 else _stack([tensors[place] for place in places])
            for places in self._places
        ]

    def unstacked(self, results: list[Any]) -> list[Any]:
        """Return what became of each tensor.

        Args:
            results: what became of each of `self.tensors`, of the same shapes.
        """
        unstacked: list[Any] = [None] * self._count
        for places, result in zip(self._places, results, strict=True):
            parts = [result] if len(places) == 1 else tf.raw_ops.Unpack(value=result, num=len(places), axis=0)
            for place, part in zip(places, parts, strict=True):
                unstacked[place] = part
        return unstacked


def _grouped(tensors: list[Any]) -> list[list[int]]:
    groups: dict[Any, list[int]] = {}
    for index, tensor in enumerate(tensors):
        shape = tensor.shape
        # Not the tuple of the shape itself, which in programs of TF 1 is one of objects that have no hash.
        dims = None if shape.rank is None else tuple(shape.as_list())
        # There is one object for each dtype, and to hash it takes longer than all the rest.
        groups.setdefault((id(tensor.dtype), dims, tensor.device), []).append(index)
    most = MOST_ELEMENTS_IN_EAGER_MODE if tf.executing_eagerly() else MOST_ELEMENTS_IN_GRAPHS
    places: list[list[int]] = []
    for (_, dims, _), members in groups.items():
        is_known = dims is not None and None not in dims
        if is_known and len(members) >= _FEWEST_TENSORS and math.prod(dims) <= most:
            places.append(members)
        else:
            places += [[member] for member in members]
    return places


def _stack(tensors: list[Any]) -> Any:
    stacked = _unstacked_from(tensors)
    return tf.raw_ops.Pack(values=tensors, axis=0) if stacked is None else stacked


def _unstacked_from(tensors: list[Any]) -> Any:
    """Return the stack that tensors of a graph have been taken from, all of it in their order; or None."""
    if tf.executing_eagerly():
        return None
    # Tensors of eager mode, which functions capture, have none.
    maker = getattr(tensors[0], "op", None)
    if maker is None:
        return None
    is_whole = maker.type == "Unpack" and len(maker.outputs) == len(tensors) and maker.get_attr("axis") == 0
    if is_whole and all(output is tensor for output, tensor in zip(maker.outputs, tensors, strict=True)):
        return maker.inputs[0]
    return None
