"""Small tensors of the same shape stacked, so that one elementwise op does the work of hundreds."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from mpls.core.fast import choices

# Copying larger tensors into a stack takes longer than the ops that it saves.
MOST_ELEMENTS = 512
_FEWEST_TENSORS = 4


class Stacks:
    """Dense tensors, of which small ones of the same dtype, shape and device are stacked.

    Args:
        tensors: the tensors.

    Attributes:
        tensors: the stacks, and the tensors that are in no stack.
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
        """Return the results for the original tensors, in their order.

        Args:
            results: the result for each of `self.tensors`, of the same shape.
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
        # tuple(shape) would hold Dimension objects in programs with TF 1 behaviour, and these have no hash.
        dims = None if shape.rank is None else tuple(shape.as_list())
        groups.setdefault((tensor.dtype, dims, tensor.device), []).append(index)
    places: list[list[int]] = []
    for (_, dims, _), members in groups.items():
        is_known = dims is not None and None not in dims
        if is_known and len(members) >= _FEWEST_TENSORS and math.prod(dims) <= MOST_ELEMENTS:
            places.append(members)
        else:
            places += [[member] for member in members]
    return places


def _stack(tensors: list[Any]) -> Any:
    stacked = _unstacked_from(tensors)
    return tf.raw_ops.Pack(values=tensors, axis=0) if stacked is None else stacked


def _unstacked_from(tensors: list[Any]) -> Any:
    """Return the stack that these tensors of a graph are all parts of, in their order; None if there is none."""
    if tf.executing_eagerly():
        return None
    # Functions capture eager tensors, which have no op.
    maker = getattr(tensors[0], "op", None)
    if maker is None:
        return None
    is_whole = maker.type == "Unpack" and len(maker.outputs) == len(tensors) and maker.get_attr("axis") == 0
    if is_whole and all(output is tensor for output, tensor in zip(maker.outputs, tensors, strict=True)):
        return maker.inputs[0]
    return None
