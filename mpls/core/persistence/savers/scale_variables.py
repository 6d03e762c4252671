"""The variables of loss scales, in checkpoints of a `tf.compat.v1.train.Saver`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mpls.core.loss_scale import DynamicLossScale, growth_steps_for_files, is_dynamic
from mpls.core.persistence.object_checkpoints import read_value
from mpls.core.persistence.savers.graph_state import GraphState, loss_scale_variables
from mpls.formats.validity import check_count, check_good_steps, check_scale
from mpls.formats.wrapper_state import CURRENT_SCALE, GOOD_STEPS

__all__ = ["ScaleVariable", "keys_without_copies", "scale_variables_in"]

_Check = Callable[[Any, str], Any]


@dataclass(frozen=True)
class ScaleVariable:
    """A variable of a loss scale.

    Attributes:
        optimizer: the wrapper that has the loss scale.
        loss_scale: the loss scale; or the record of steps.
        is_used: whether the optimizer scales with it, so that a file has to have it.
        initial: its initial value.
        check: refuses an invalid value; gets the value, and the file and the key for the error.
    """

    optimizer: Any
    loss_scale: Any
    is_used: bool
    initial: float
    check: _Check

    def refuse_invalid(self, path: str, key: str) -> None:
        """Refuse an invalid value in a file.

        Raises:
            SavedStateError: the value is not valid, or the file is damaged there.
        """
        self.check(read_value(path, key), f"{path}: {key}")


def scale_variables_in(state: GraphState, graph: Any) -> dict[str, ScaleVariable]:
    """Return the variables of loss scales in a graph, by name: for each loss scale, the scale and then the counter.

    Counters of steps follow.
    """
    found: dict[str, ScaleVariable] = {}
    for optimizer in state.optimizers:
        parts = vars(optimizer)
        loss_scale, replaced, record = (parts.get(name) for name in ("_loss_scale", "_replaced_loss_scale", "_record"))
        rows = [
            *((loss_scale, True, row) for row in _rows_of(loss_scale, graph)),
            *((replaced, False, row) for row in _rows_of(replaced, graph)),
            # A file written without these options lacks only these variables.
            *((loss_scale, False, row) for row in _extras_of(loss_scale, graph)),
            *((record, False, row) for row in _rows_of(record, graph)),
        ]
        for owner, is_used, (variable, initial, check) in rows:
            for each in getattr(variable, "values", (variable,)):
                found[each.op.name] = ScaleVariable(optimizer, owner, is_used, initial, check)
    return found


def _rows_of(owner: Any, graph: Any) -> list[tuple[Any, float, _Check]]:
    if not is_dynamic(owner):
        own = getattr(owner, "_saved_numbers", list)
        return [row for row in own() if row[0].graph is graph]
    weights = loss_scale_variables(owner, graph)
    growth_steps = growth_steps_for_files(owner)
    rows: dict[str, tuple[float, _Check]] = {
        CURRENT_SCALE: (float(owner.initial_loss_scale), check_scale),
        GOOD_STEPS: (0, lambda value, subject: check_good_steps(value, subject, growth_steps)),
    }
    return [(weights[name], *row) for name, row in rows.items() if name in weights]


def _extras_of(loss_scale: Any, graph: Any) -> list[tuple[Any, float, _Check]]:
    """Return the rows for variables of a dynamic loss scale that the originals had not."""
    extras = loss_scale._initial_extras() if isinstance(loss_scale, DynamicLossScale) else {}
    weights = loss_scale_variables(loss_scale, graph) if extras else {}
    return [
        (weights[name], initial, _of_setting(loss_scale, name) if dtype.is_floating else check_count)
        for name, (initial, dtype) in extras.items()
        if name in weights
    ]


def _of_setting(loss_scale: DynamicLossScale, name: str) -> _Check:
    """Return the check of an adjustable setting, which also tells of a bound that is replaced."""

    def check(value: Any, subject: str) -> None:
        check_scale(value, subject)
        loss_scale._tell_of_replaced({name: value}, subject)

    return check


def keys_without_copies(
    wanted: Mapping[str, str], numbers: Mapping[str, ScaleVariable], found: set[str]
) -> dict[str, str]:
    """Return other keys for the variables of loss scales, if the program that wrote a file had no second loss scales.

    From TF 2.4 on, the experimental wrapper does not use the loss scale that it is given, but makes a second one. Both
    count in the numbers of names, as in `good_steps_1`.

    Args:
        wanted: the names of the variables that are used, by the keys that a saver reads.
        numbers: the variables of loss scales in the graph, by name.
        found: the keys in the file.
    """
    names: dict[str, list[str]] = defaultdict(list)
    for name in numbers:
        names[re.sub(r"_\d+$", "", name)].append(name)
    once: dict[str, str] = {}
    for alike in names.values():
        alike.sort(key=lambda name: (len(name), name))
        once.update(zip((name for name in alike if numbers[name].is_used), alike, strict=False))
    keys = {key: key.removesuffix(own) + once[own] for key, own in wanted.items() if key.endswith(own)}
    is_there = found.issuperset(wanted) or not found.issuperset(keys.values())
    return {} if is_there else {key: other for key, other in keys.items() if key != other}
