"""What only mpls writes: options in configs, and the variables of options in configs and checkpoints."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mpls.formats.record import OverflowRecord
from mpls.formats.validity import LARGEST_COUNT, constraint_on, constraint_on_bounds, is_initial_scale
from mpls.formats.wrapper_state import (
    ADJUSTABLE,
    AUTO,
    COUNTS,
    FLOAT_EXTRAS,
    INITIAL_LOSS_SCALE,
    LOSS_SCALE,
    ON_GIVE_UP,
    OVERFLOW_KINDS,
    OVERFLOWS,
    OWN_SCALE_SETTINGS,
    OWN_STEP_SETTINGS,
    STEP_RECORD,
    WHOLE_EXTRAS,
    marks_of,
)
from mpls.saved.bundles import Bundle
from mpls.saved.errors import FROM_WRITER, broken
from mpls.saved.graphs import StoredGraph
from mpls.saved.plain_numbers import count_of_variable, number_of_config, scale_of_variable

__all__ = ["OwnState", "StateInGraph", "named_state", "options_of_config", "overflows_of"]

# Options, counters and overflows, as `OptimizerRecord` and its `LossScaleRecord` have them.
OwnState = tuple[dict[str, Any], dict[str, int], list[OverflowRecord]]


def options_of_config(
    path: str, place: str, settings: Mapping[str, Any], entry: Any
) -> tuple[dict[str, Any], dict[str, Any], dict[str, int]]:
    """Return the options in a wrapper's config: of the loss scale, of the steps, and the counters.

    Args:
        path: the file, for errors.
        place: where the entry is in the file.
        settings: the wrapper's settings, or those of its loss scale, which have the options in configs for users.
        entry: the value of `OPTIONS_KEY`, which has them in configs for Keras; or None.

    Raises:
        SavedStateError: the entry is of another form, or a value is none that an option can have.
    """
    parts = {"settings": {}, "state": {}} if entry is None else entry if isinstance(entry, Mapping) else {}
    own, state = parts.get("settings"), parts.get("state")
    if not isinstance(own, Mapping) or not isinstance(state, Mapping):
        raise broken(path, place, "be an object with 'settings' and 'state'", entry, FROM_WRITER)
    given = {**settings, **own}
    for name in (*OWN_SCALE_SETTINGS, *OWN_STEP_SETTINGS):
        if given.get(name) is not None:
            _check_option(path, f"{place}/settings/{name}", name, given[name])
    values = {name: _number(path, f"{place}/state/{name}", name, value) for name, value in state.items()}
    of_scale = {name: given[name] for name in OWN_SCALE_SETTINGS if given.get(name) is not None}
    if AUTO in (given.get("initial_scale"), given.get(INITIAL_LOSS_SCALE)):
        of_scale = {"initial_scale": AUTO, **of_scale}
    of_steps = {name: given[name] for name in OWN_STEP_SETTINGS if given.get(name) is not None}
    counts = {name: values.pop(name) for name in COUNTS if name in values}
    bounds = [of_scale.get(name, default) for name, default in (("min_scale", 1.0), ("max_scale", math.inf))]
    if constraint := constraint_on_bounds(*bounds):
        raise broken(path, f"{place}/settings/max_scale", constraint, bounds[1], FROM_WRITER)
    initial = given.get("initial_scale", given.get(INITIAL_LOSS_SCALE))
    if isinstance(initial, int | float) and not is_initial_scale(initial, *bounds):
        raise broken(path, f"{place}/settings", f"have bounds around the initial scale, {initial}", bounds, FROM_WRITER)
    return {**of_scale, **values}, of_steps, counts


def _check_option(path: str, key: str, name: str, value: Any) -> None:
    if name in FLOAT_EXTRAS:
        _check_range(path, key, name, number_of_config(path, key, value))
    elif name in (ADJUSTABLE[-1], "max_consecutive_skips"):
        _check_whole(path, key, value, least=1)
    elif name == "on_give_up":
        if not isinstance(value, str) or value not in ON_GIVE_UP:
            raise broken(path, key, f"be one of {', '.join(ON_GIVE_UP)}", value, FROM_WRITER)
    elif not isinstance(value, bool):
        raise broken(path, key, "be a bool", value, FROM_WRITER)


def _check_range(path: str, key: str, name: str, number: float) -> float:
    if constraint := constraint_on(name, number):
        raise broken(path, key, constraint, number, FROM_WRITER)
    return number


def _number(path: str, key: str, name: str, value: Any) -> Any:
    if name in FLOAT_EXTRAS:
        return _check_range(path, key, name, number_of_config(path, key, value))
    if name not in (*WHOLE_EXTRAS, *COUNTS):
        raise broken(path, key, f"be one of {', '.join((*WHOLE_EXTRAS, *FLOAT_EXTRAS, *COUNTS))}", name, FROM_WRITER)
    _check_whole(path, key, value, least=0)
    return value


def _check_whole(path: str, key: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST_COUNT:
        raise broken(path, key, f"be a whole number from {least}", value, FROM_WRITER)


class StateInGraph:
    """The variables of options in an object-based checkpoint.

    Args:
        bundle: the checkpoint.
        graph: its object graph.
    """

    def __init__(self, bundle: Bundle, graph: StoredGraph) -> None:
        self._bundle, self._graph = bundle, graph

    def of(self, number: int, names: Iterable[str | None]) -> OwnState:
        """Return what a wrapper has.

        Args:
            number: the wrapper.
            names: names that its variables may have, besides those in the graph.

        Raises:
            SavedStateError: a value is broken, or none that it can be.
        """
        options = self._numbers(self._graph.child(number, LOSS_SCALE), (*WHOLE_EXTRAS, *FLOAT_EXTRAS))
        record = self._graph.child(number, STEP_RECORD)
        counts = self._numbers(record, COUNTS)
        held = None if record is None else self._graph.child(record, OVERFLOWS)
        if held is None:
            return options, counts, []
        self._graph.visit(held)
        arrays = {
            name: self._value(child)
            for name, child in self._graph.nodes[held].children.items()
            if self._graph.value_key(child) is not None
        }
        known = [each for each in names if each]
        known += [node.full_name for node in self._graph.nodes if node.full_name]
        return options, counts, overflows_of(self._bundle.path, arrays, known)

    def _numbers(self, number: int | None, names: Iterable[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if number is None:
            return found
        for name in names:
            child = self._graph.child(number, name)
            if child is None or self._graph.value_key(child) is None:
                continue
            check = scale_of_variable if name in FLOAT_EXTRAS else count_of_variable
            found[name] = check(self._bundle.path, self._key(child), self._value(child))
            if name in FLOAT_EXTRAS:
                _check_range(self._bundle.path, self._key(child), name, found[name])
        return found

    def _key(self, number: int) -> str:
        return self._graph.require(number, self._graph.paths.get(number, str(number)))

    def _value(self, number: int) -> Any:
        return self._bundle.tensor(self._key(number))


def overflows_of(path: str, arrays: Mapping[str, Any], names: Sequence[str]) -> list[OverflowRecord]:
    """Return the overflows in arrays of an optimizer, the worst first.

    Args:
        path: the file, for errors.
        arrays: by the names of the variables that hold them.
        names: the names of variables that may be meant.

    Raises:
        SavedStateError: the arrays do not fit each other.
    """
    called: dict[int, str] = {}
    found = []
    for name in arrays:
        if not name.startswith(OVERFLOW_KINDS[0]):
            continue
        called = called or dict(zip(marks_of(names), names, strict=True))
        end = name.removeprefix(OVERFLOW_KINDS[0])
        columns = [np.asarray(arrays.get(kind + end, ())) for kind in OVERFLOW_KINDS]
        shapes = {column.shape for column in columns}
        if len(shapes) > 1 or columns[0].ndim != 1 or any(column.dtype.kind not in "iu" for column in columns):
            raise broken(path, name, "be a list of whole numbers, as long as those beside it", shapes, FROM_WRITER)
        counts, steps, marks = (column.tolist() for column in columns)
        if min((*counts, *steps), default=0) < 0:
            raise broken(path, name, "be at least 0", min(*counts, *steps), FROM_WRITER)
        rows = zip(counts, steps, marks, strict=True)
        found += [OverflowRecord(called.get(mark), count, step) for count, step, mark in rows if count]
    return sorted(found, key=lambda each: (-each.count, each.variable or ""))


def named_state(bundle: Bundle, has: Callable[[str], bool], names: Sequence[str]) -> OwnState:
    """Return what a checkpoint with names of variables has, if one optimizer has it.

    A variable of the program may have such a name too, so what is none of these numbers is left out.

    Args:
        bundle: the checkpoint.
        has: whether a name is that of a variable.
        names: all names.

    Raises:
        SavedStateError: overflows are broken.
    """
    values = {name: bundle.tensor(name) for name in (*WHOLE_EXTRAS, *FLOAT_EXTRAS, *COUNTS) if has(name)}
    numbers = {name: each.item() for name, each in values.items() if _is_number(name, each)}
    counts = {name: numbers.pop(name) for name in COUNTS if name in numbers}
    if len(counts) < len(COUNTS):
        return numbers, {}, []
    arrays = {name: bundle.tensor(name) for name in names if name.startswith(OVERFLOW_KINDS)}
    return numbers, counts, overflows_of(bundle.path, arrays, names)


def _is_number(name: str, value: Any) -> bool:
    kinds = "f" if name in FLOAT_EXTRAS else "iu"
    return value.shape == () and value.dtype.kind in kinds and value >= 0
