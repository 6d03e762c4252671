"""What only mpls writes: options in configs, and the variables of options in configs and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mpls.formats.record import OverflowRecord
from mpls.formats.validity import constraint_on_bounds, is_initial_scale
from mpls.formats.wrapper_options import (
    OF_SETTINGS,
    OF_STATE,
    OPTION_VARIABLES,
    OPTIONS,
    SETTINGS_OF_ENTRY,
    constraint_on_kind,
    constraint_on_number,
    constraint_on_setting,
    is_options_entry,
    options_entry,
)
from mpls.formats.wrapper_state import (
    AUTO,
    COUNTS,
    DEFAULT_MAX_SCALE,
    DEFAULT_MIN_SCALE,
    FLOAT_EXTRAS,
    INITIAL_LOSS_SCALE,
    LOSS_SCALE,
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
from mpls.saved.plain_numbers import count_of_variable, scale_of_variable

__all__ = ["OwnState", "StateInGraph", "named_state", "options_of_config", "overflows_of"]

# Options, counters and overflows, as `OptimizerRecord` and its `LossScaleRecord` have them.
OwnState = tuple[dict[str, Any], dict[str, int], list[OverflowRecord]]


def options_of_config(
    path: str, place: str, settings: Mapping[str, Any], entry: Any, *, dynamic: bool
) -> tuple[dict[str, Any], dict[str, Any], dict[str, int]]:
    """Return the options in a wrapper's config: of the loss scale, of the steps, and the counters.

    Args:
        path: the file, for errors.
        place: where the entry is in the file.
        settings: the wrapper's settings, or those of its loss scale, which have the options in configs for users.
        entry: the value of `OPTIONS_KEY`, which has them in configs for Keras; or None.
        dynamic: whether the loss scale is a dynamic one.

    Raises:
        SavedStateError: the entry is of another form, or a value is none that an option of such a scale can have.
    """
    own, state = _parts(path, place, entry)
    given = {**{name: settings[name] for name in OPTIONS if name in settings}, **own}
    for name, value in given.items():
        if constraint := constraint_on_setting(name, value) or constraint_on_kind(name, value, dynamic=dynamic):
            raise broken(path, f"{place}/{OF_SETTINGS}/{name}", constraint, value, FROM_WRITER)
    for name, value in state.items():
        if constraint := constraint_on_number(name, value):
            raise broken(path, f"{place}/{OF_STATE}/{name}", constraint, value, FROM_WRITER)
    both = {**settings, **own}
    initial = both.get("initial_scale", both.get(INITIAL_LOSS_SCALE))
    of_scale = {name: given[name] for name in OWN_SCALE_SETTINGS if given.get(name) is not None}
    if initial == AUTO and not dynamic:
        raise broken(path, f"{place}/{OF_SETTINGS}/initial_scale", "be a number for a fixed scale", AUTO, FROM_WRITER)
    _check_bounds(path, f"{place}/{OF_SETTINGS}", of_scale, initial)
    _check_bounds(path, f"{place}/{OF_STATE}", {**of_scale, **state}, None)
    if initial == AUTO:
        of_scale = {"initial_scale": AUTO, **of_scale}
    of_steps = {name: given[name] for name in OWN_STEP_SETTINGS if given.get(name) is not None}
    counts = {name: state[name] for name in COUNTS if name in state}
    variables = {name: value for name, value in state.items() if name not in counts}
    return {**of_scale, **variables}, of_steps, counts


def _parts(path: str, place: str, entry: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the settings and the state in the entry for options."""
    entry = options_entry({}, {}) if entry is None else entry
    if not is_options_entry(entry):
        constraint = f"be an object with '{OF_SETTINGS}' and '{OF_STATE}'"
        raise broken(path, place, constraint, entry, FROM_WRITER)
    for part, known in ((OF_SETTINGS, SETTINGS_OF_ENTRY), (OF_STATE, OPTION_VARIABLES)):
        for name in entry[part]:
            if name not in known:
                raise broken(path, f"{place}/{part}/{name}", f"be one of {', '.join(known)}", name, FROM_WRITER)
    return entry[OF_SETTINGS], entry[OF_STATE]


def _check_bounds(path: str, place: str, of_scale: Mapping[str, Any], initial: Any) -> None:
    defaults = {"min_scale": DEFAULT_MIN_SCALE, "max_scale": DEFAULT_MAX_SCALE}
    bounds = [of_scale.get(name, default) for name, default in defaults.items()]
    if constraint := constraint_on_bounds(*bounds):
        raise broken(path, f"{place}/max_scale", constraint, bounds[1], FROM_WRITER)
    if isinstance(initial, int | float) and not is_initial_scale(initial, *bounds):
        raise broken(path, place, f"have bounds around the initial scale, {initial}", bounds, FROM_WRITER)


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
            if name in FLOAT_EXTRAS and (constraint := constraint_on_number(name, found[name])):
                raise broken(self._bundle.path, self._key(child), constraint, found[name], FROM_WRITER)
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
