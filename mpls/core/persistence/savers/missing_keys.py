"""Keys that a checkpoint of a `tf.compat.v1.train.Saver` may lack, and the values that are restored in their place."""

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
        slice: the slice that is read, in the form that savers use; empty for the whole tensor.
        variables: the names of the variables that it is assigned to; empty for copies, which are not restored.
    """

    output: Any
    name: str
    slice: str
    variables: tuple[str, ...]


@dataclass(frozen=True)
class Substitutes:
    """Values and keys that are used in place of keys that a file lacks.

    Attributes:
        values: NumPy arrays, by the missing key.
        names: other keys of the file, by the missing key.
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
    """Return what is restored in place of all keys that a file lacks.

    Args:
        entries: the tensors that a saver reads.
        keys: the keys in the file of the variables of wrappers, by the keys of the entries.
        state: the state of mpls in the graph.
        numbers: the variables of loss scales in the graph, by name.
        found: the keys in the file.

    Returns:
        The substitutes; or the first missing key for which there is none.
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
            # A copy that savers write for TensorFlow's own wrapper. No variable is restored from it.
            names[entry.name] = entry.name
        elif number.is_used and any(numbers[name].loss_scale is number.loss_scale for name in present & set(numbers)):
            # The file has the scale and not the counter, or the reverse. No release writes such a file.
            return entry.name
        else:
            values[entry.name] = np.asarray(number.initial, entry.output.dtype.as_numpy_dtype)
    return Substitutes(values, names)
