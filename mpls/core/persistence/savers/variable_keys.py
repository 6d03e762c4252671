"""Under which keys a checkpoint of a `tf.compat.v1.train.Saver` has the variables of optimizers."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from mpls.core.persistence.savers.graph_state import GraphState, Step
from mpls.errors import SavedStateError
from mpls.formats.validity import ANCHOR

__all__ = ["find_keys"]

# Elements of a variable.
_SMALL = 4096


def find_keys(wanted: Mapping[str, str], state: GraphState, path: str, reader: Any) -> dict[str, str] | None:
    """Return under which keys a file has the variables of optimizers.

    All of them have the names of this graph in it, or those of TensorFlow's own wrapper with the first control flow, or
    with the second; or they are in conditionals that have another number there, since the graph was another.

    Args:
        wanted: the variables, by the keys under which a saver looks for them.
        state: what the graph has of mpls.
        path: the file.
        reader: of the file.

    Returns:
        The keys in the file by those under which a saver looks; None if it does not have them, or not without doubt.

    Raises:
        SavedStateError: it has different values under two kinds of names.
    """
    in_file = set(reader.get_variable_to_shape_map())
    found, whole = [], []
    for names in ({}, state.first, state.second):
        keys = {key: _renamed(key, own, names.get(own, own)) for key, own in wanted.items()}
        if in_file.issuperset(keys.values()):
            found.append(keys)
            if in_file.issuperset(names.get(own, own) for own in state.parts):
                whole.append(keys)
    # A saver may want a part of what the file has; the rest may tell whose names it has.
    found = whole or found
    for other in found[1:]:
        _require_same(found[0], other, path, reader)
    return found[0] if found else _find_renumbered(wanted, state, reader)


def _renamed(key: str, own: str, name: str) -> str:
    """Return a key with another name of the variable in it; what is not after a name stays, it is the user's own."""
    if key == own or key.endswith(f"/{own}"):
        return key.removesuffix(own) + name
    return key


def _require_same(keys: dict[str, str], others: dict[str, str], path: str, reader: Any) -> None:
    """Refuse a file that has other values under other names: what savers of mpls write is the same under both.

    Small variables tell, and of large ones the smallest.
    """
    shapes = reader.get_variable_to_shape_map()
    sizes = {key: math.prod(shapes[keys[key]]) for key in keys if keys[key] != others[key]}
    smallest_first = sorted(sizes, key=lambda key: sizes[key])
    small = [key for key in smallest_first if sizes[key] <= _SMALL]
    for wanted in smallest_first[: len(small) + 1]:
        key, other = keys[wanted], others[wanted]
        if shapes[key] == shapes[other] and reader.get_tensor(key).tobytes() == reader.get_tensor(other).tobytes():
            continue
        raise SavedStateError(
            f"{path}: {key} and {other} must have the same value, as either may be that of the same variable of this "
            "graph; got two. Restore it with a saver of all variables, from a graph that has the optimizers of the one "
            f"that wrote it. See MIGRATION.md#{ANCHOR}"
        )


def _find_renumbered(wanted: Mapping[str, str], state: GraphState, reader: Any) -> dict[str, str] | None:
    """Find what conditionals of other numbers hold, and what is the only thing of its kind in the file."""
    places: dict[Step, tuple[str, ...]] = {}
    for step in state.steps:
        parts = {step.parts[own] for own in wanted.values() if own in step.parts}
        if parts:
            places[step] = _places(step.scope, parts, reader)
    chosen: dict[Step, str] = {}
    for same in set(places.values()):
        # In the order in which the steps were built, which is what the numbers count.
        steps = [step for step, each in places.items() if each == same]
        if len(steps) != len(same):
            return None
        chosen.update(zip(steps, same, strict=True))
    if len(set(chosen.values())) != len(chosen):
        return None
    prefixes = {own: prefix for step, prefix in chosen.items() for own in step.parts}
    return {key: _renamed(key, own, prefixes[own] + state.parts[own]) for key, own in wanted.items()}


def _places(scope: str, parts: set[str], reader: Any) -> tuple[str, ...]:
    """Return what stands before some parts of names in a file: conditionals of a scope, or else anything."""
    held: dict[str, set[str]] = defaultdict(set)
    for key in reader.get_variable_to_shape_map():
        for part in parts:
            if key == part or key.endswith(f"/{part}"):
                held[key.removesuffix(part)].add(part)
    whole = [prefix for prefix, found in held.items() if found == parts]
    numbers = {prefix: re.fullmatch(rf"{re.escape(scope)}cond(?:_(\d+))?/", prefix) for prefix in whole}
    conditionals = {prefix: int(match[1] or 0) for prefix, match in numbers.items() if match}
    if conditionals:
        return tuple(sorted(conditionals, key=lambda prefix: conditionals[prefix]))
    return tuple(whole[:1] if _are_same(whole, parts, reader) else whole)


def _are_same(prefixes: list[str], parts: set[str], reader: Any) -> bool:
    return all(len({reader.get_tensor(prefix + part).tobytes() for prefix in prefixes}) == 1 for part in parts)
