"""The keys of optimizers' variables in a checkpoint of a `tf.compat.v1.train.Saver`."""

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

# Variables with at most this many elements are compared as a whole.
_SMALL = 4096


def find_keys(wanted: Mapping[str, str], state: GraphState, path: str, reader: Any) -> dict[str, str] | None:
    """Return the keys of the optimizers' variables in a file.

    The file may have them under the names of this graph, under those of TensorFlow's own wrapper with control flow v1
    or v2, or with other numbers of the conditionals, if the graph that wrote it had other conditionals.

    Args:
        wanted: the names of the variables, by the keys that a saver reads.
        state: the state of mpls in the graph.
        path: the file.
        reader: the reader of the file.

    Returns:
        The keys in the file, by the keys that a saver reads; None if the file lacks some, or has several candidates.

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
    # A saver may read some of the variables only. Prefer the kind of names that the file has for all of them.
    found = whole or found
    for other in found[1:]:
        _require_same(found[0], other, path, reader)
    return found[0] if found else _find_renumbered(wanted, state, reader)


def _renamed(key: str, own: str, name: str) -> str:
    """Return a key with another name of the variable; a prefix that the user has put before the name stays."""
    if key == own or key.endswith(f"/{own}"):
        return key.removesuffix(own) + name
    return key


def _require_same(keys: dict[str, str], others: dict[str, str], path: str, reader: Any) -> None:
    """Refuse a file that has different values under two kinds of names; savers of mpls write the same value under both.

    All small variables are compared, and the smallest of the large ones.
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
    """Return the keys in conditionals with other numbers, or the only candidates in the file; None if it is unclear."""
    places: dict[Step, tuple[str, ...]] = {}
    for step in state.steps:
        parts = {step.parts[own] for own in wanted.values() if own in step.parts}
        if parts:
            places[step] = _places(step.scope, parts, reader)
    chosen: dict[Step, str] = {}
    for same in set(places.values()):
        # The numbers count the steps in the order in which they were built.
        steps = [step for step, each in places.items() if each == same]
        if len(steps) != len(same):
            return None
        chosen.update(zip(steps, same, strict=True))
    if len(set(chosen.values())) != len(chosen):
        return None
    prefixes = {own: prefix for step, prefix in chosen.items() for own in step.parts}
    return {key: _renamed(key, own, prefixes[own] + state.parts[own]) for key, own in wanted.items()}


def _places(scope: str, parts: set[str], reader: Any) -> tuple[str, ...]:
    """Return the prefixes under which a file has all these parts of names: those of conditionals if there are any."""
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
