"""What a checkpoint of a `tf.compat.v1.train.Saver` may lack, and what stands for it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpls.core.arrival import read_value
from mpls.core.loss_scale import is_dynamic
from mpls.core.state import check_good_steps, check_scale
from mpls.v1.graph_state import GraphState, base_name, non_slot_variables

__all__ = ["Entry", "Filling", "fill", "numbers_in"]

_Check = Callable[[Any, str], Any]


@dataclass(frozen=True)
class Entry:
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
class Filling:
    """What stands for keys that a file lacks.

    Attributes:
        values: NumPy arrays, by key.
        names: other keys, by key.
    """

    values: dict[str, Any]
    names: dict[str, str]


@dataclass(frozen=True)
class Number:
    """A variable of a loss scale.

    Attributes:
        optimizer: whose.
        initial: what it starts from.
        check: refuses a value from a file, which it gets with the file and the key.
    """

    optimizer: Any
    initial: float
    check: _Check

    def refuse_bad(self, path: str, key: str) -> None:
        """Refuse what a file has for it, if that cannot be.

        Raises:
            SavedStateError: the file holds such a number, or is damaged there.
        """
        self.check(read_value(path, key), f"{path}: {key}")


def numbers_in(state: GraphState, graph: Any) -> dict[str, Number]:
    """Return the variables of loss scales in a graph, by name; of each, the scale first."""
    found: dict[str, Number] = {}
    for optimizer in state.optimizers:
        for variable, initial, check in _numbers_of(optimizer._loss_scale, graph):
            for each in getattr(variable, "values", (variable,)):
                found[each.op.name] = Number(optimizer, initial, check)
    return found


def _numbers_of(loss_scale: Any, graph: Any) -> list[tuple[Any, float, _Check]]:
    if not is_dynamic(loss_scale):
        own = getattr(loss_scale, "_saved_numbers", list)
        return [row for row in own() if row[0].graph is graph]
    weights = loss_scale._weights_in(graph)
    growth_steps = int(loss_scale.increment_period)
    rows: dict[str, tuple[float, _Check]] = {
        "current_loss_scale": (float(loss_scale.initial_loss_scale), check_scale),
        "good_steps": (0, lambda value, subject: check_good_steps(value, subject, growth_steps)),
    }
    return [(weights[name], *row) for name, row in rows.items() if name in weights]


def fill(entries: list[Entry], missing: list[Entry], state: GraphState, graph: Any, reader: Any) -> Filling | str:
    """Return what stands for all that a file lacks.

    Args:
        entries: what a saver reads.
        missing: those of them that the file lacks.
        state: what the graph has of mpls.
        graph: the graph.
        reader: of the file.

    Returns:
        A key that is not known here, or not without doubt, if there is any.
    """
    numbers = numbers_in(state, graph)
    powers = [each.op.name for opt in state.optimizers for each in non_slot_variables(opt._optimizer)]
    present = {name for entry in entries if entry not in missing for name in entry.variables}
    values: dict[str, Any] = {}
    missing_powers = []
    for entry in missing:
        number = next((numbers[name] for name in entry.variables if name in numbers), None)
        if number is not None:
            if any(numbers[name].optimizer is number.optimizer for name in present & set(numbers)):
                # One number of a loss scale and not the other: nothing writes such a file.
                return entry.name
            values[entry.name] = np.asarray(number.initial, entry.output.dtype.as_numpy_dtype)
        elif set(entry.variables) & set(powers):
            missing_powers.append(entry)
        elif entry.variables or entry.name not in state.native_names.values():
            return entry.name
    missing_powers.sort(key=lambda entry: min(powers.index(name) for name in entry.variables if name in powers))
    found = _powers_in_file(missing_powers, {entry.name for entry in entries if entry.variables}, reader)
    if isinstance(found, str):
        return found
    # What savers only write, for TensorFlow's own wrapper, goes nowhere.
    unused = {entry.name: entry.name for entry in missing if not entry.variables}
    return Filling(values, {**unused, **found})


def _powers_in_file(missing: list[Entry], wanted: set[str], reader: Any) -> dict[str, str] | str:
    """Return the keys under which a file has Adam's powers, by the keys that it lacks; or one that it does not have."""
    by_kind: dict[str, list[Entry]] = defaultdict(list)
    for entry in missing:
        by_kind[base_name(entry.name)].append(entry)
    names: dict[str, str] = {}
    in_file = sorted(set(reader.get_variable_to_shape_map()) - wanted, key=_in_order)
    for kind, lacking in by_kind.items():
        held = [key for key in in_file if base_name(key) == kind]
        if len(lacking) == 1 and len({reader.get_tensor(key).tobytes() for key in held}) == 1:
            held = held[:1]
        if len(held) != len(lacking):
            return lacking[0].name
        # In the order in which the optimizers were used, which is what names count.
        names.update((entry.name, key) for entry, key in zip(lacking, held, strict=True))
    return names


def _in_order(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
