"""What a checkpoint of a `tf.compat.v1.train.Saver` may lack, and what stands for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mpls.core.persistence.savers.graph_state import GraphState
from mpls.core.persistence.savers.scale_variables import ScaleVariable

__all__ = ["RestoredTensor", "Substitutes", "substitutes_for"]


@dataclass(frozen=True)
class RestoredTensor:
    """One tensor that a saver reads from a file.

    Attributes:
        output: the tensor, of a `RestoreV2` op.
        name: the key in the file.
        slice: the part of it that is read, as savers spell it; empty for all.
        variables: the names of the variables that it is assigned to; none for what is not restored.
    """

    output: Any
    name: str
    slice: str
    variables: tuple[str, ...]


@dataclass(frozen=True)
class Substitutes:
    """What stands for keys that a file lacks.

    Attributes:
        values: NumPy arrays, by key.
        names: other keys, by key.
    """

    values: dict[str, Any]
    names: dict[str, str]


def substitutes_for(
    entries: list[RestoredTensor],
    keys: dict[str, str],
    state: GraphState,
    numbers: dict[str, ScaleVariable],
    found: set[str],
) -> Substitutes | str:
    """Return what stands for all that a file lacks.

    Args:
        entries: what a saver reads.
        keys: under which keys the file has what belongs to wrappers, by those of the entries.
        state: what the graph has of mpls.
        numbers: the variables of loss scales in the graph, by name.
        found: the keys in the file.

    Returns:
        A key that is not known here, if there is any.
    """
    copies = {*state.native_names.values()}
    present = {name for entry in entries if entry.name in found or entry.name in keys for name in entry.variables}
    values: dict[str, Any] = {}
    names = {name: key for name, key in keys.items() if name != key}
    for entry in entries:
        if entry.name in found or entry.name in keys:
            continue
        number = next((numbers[name] for name in entry.variables if name in numbers), None)
        if number is None and (entry.variables or entry.name not in copies):
            return entry.name
        if number is None:
            # What savers only write, for TensorFlow's own wrapper, goes nowhere.
            names[entry.name] = entry.name
        elif number.is_used and any(numbers[name].loss_scale is number.loss_scale for name in present & set(numbers)):
            # One number of a loss scale and not the other: nothing writes such a file.
            return entry.name
        else:
            values[entry.name] = np.asarray(number.initial, entry.output.dtype.as_numpy_dtype)
    return Substitutes(values, names)
