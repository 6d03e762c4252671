"""Optimizers in the checkpoints of `tf.compat.v1.train.Saver`, which hold tensors under the names of variables."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np

from mpls.formats.algorithms import ALGORITHMS, BETA_1_POWER, BETA_POWERS, MOMENTUM_PRODUCTS, V1_OPTIMIZERS, v1_slots
from mpls.formats.object_graph import ITERATIONS
from mpls.formats.record import LossScaleRecord, OptimizerRecord, VariableRecord
from mpls.formats.wrapper_state import (
    BAD_STEPS,
    COUNTS,
    FLOAT_EXTRAS,
    STATE,
    STATE_OF_MANAGERS,
    WHOLE_EXTRAS,
)
from mpls.saved.bundles import Bundle
from mpls.saved.plain_numbers import count_of_variable, good_steps_of_variable, number_of_variable, scale_of_variable

_ITERATIONS = ITERATIONS["legacy"]
_NUMBERED = re.compile(r"^(?P<base>.*?)(_(?P<number>[1-9][0-9]{0,3}))?$", re.DOTALL)
_CONDITIONAL = re.compile(r"(?<![^/])cond(_\d+)?/")
_MOST_COPIES = 16
# Last parts of names that have the form of a slot's name, such as those of moving averages, but are none.
_NO_SLOTS = ("ExponentialMovingAverage", "Assign", "read", "avg")


def read_names(bundle: Bundle) -> list[OptimizerRecord]:
    """Return the optimizers in a checkpoint, told by the names of its variables.

    Optimizers of one class without names of their own are one record. The names do not say to which optimizer a loss
    scale, a global step or the beta powers of an Adam belong. If the file has one loss scale, all records have it.
    State that may belong to another optimizer is in `possible_steps` and `possible_scales`. A loss scale without
    slots gets a record, whose key is the name of its variable.
    """
    scales = {name: scale for name in bundle.entries if (scale := _loss_scale(bundle, name)) is not None}
    powers = _powers(bundle)
    slots = _slots(bundle, allows_unknown=bool(scales or powers))
    layouts = {optimizer: _layout(optimizer, variables, bool(powers)) for optimizer, variables in slots.items()}
    records = _legacy(bundle)
    options, counts = _own_state(bundle)
    if len(scales) < 2:
        scales = {name: replace(each, options=options) for name, each in scales.items()}
    global_step = _global_step(bundle)
    are_same = _are_same(powers)
    most = max(len(slots) + len(records), len(scales), _count(powers, has_copies=True))
    has_several = most > 1 or not are_same
    iterations = None if has_several else next(iter(global_step.values()), None)
    own: dict[str, Any] = {"possible_steps": global_step} if has_several else {"counts": counts}
    if not slots and not records:
        return [
            OptimizerRecord(name, "v1", iterations=iterations, loss_scale=each, **own) for name, each in scales.items()
        ]
    if len(scales) < 2:
        own["loss_scale"] = next(iter(scales.values()), None)
    else:
        own["possible_scales"] = scales
    adams = [algorithm for algorithm, _ in layouts.values() if algorithm == "Adam"]
    is_certain = are_same and _count(powers, has_copies=False) >= len(adams)
    records = [replace(record, **{**own, "possible_steps": {}}) for record in records]
    for optimizer, variables in slots.items():
        algorithm, order = layouts[optimizer]
        record = OptimizerRecord(
            key=optimizer,
            family="v1",
            algorithm=algorithm,
            iterations=iterations,
            variables=[_variable(bundle, variable, found, order) for variable, found in variables.items()],
            **own,
        )
        if algorithm == "Adam" and is_certain:
            record = replace(record, others=powers)
        elif algorithm == "Adam":
            possible = {name: power.item() for name, power in powers.items()}
            record = replace(record, possible_steps={**possible, **record.possible_steps})
        records.append(record)
    return records


def _powers(bundle: Bundle) -> dict[str, Any]:
    names = [name for name in bundle.entries if _split(name)[1] in BETA_POWERS and bundle.shape(name) == ()]
    powers = {name: np.asarray(bundle.tensor(name)) for name in names}
    return {name: power for name, power in powers.items() if power.dtype.kind == "f"}


def _are_same(powers: Mapping[str, Any]) -> bool:
    """Return whether all beta powers are those of the same number of steps, with the same betas."""
    found = {(_split(name)[1], power.tobytes()) for name, power in powers.items()}
    return len(found) == len({base for base, _ in found})


def _count(powers: Mapping[str, Any], *, has_copies: bool) -> int:
    """Return how many Adams have beta powers, at least; a power may have a copy in the scope of a conditional.

    Args:
        powers: the beta powers by name.
        has_copies: whether one without a scope may also be the copy of one in a scope; both are those of the same
            number of steps.
    """
    kinds: Counter[str] = Counter()
    for name in powers:
        scope, base, _ = _split(name)
        if base == BETA_1_POWER:
            is_in_conditional = _CONDITIONAL.search(name) is not None
            kinds["conditional" if is_in_conditional else "scope" if scope and has_copies else ""] += 1
    return max(kinds.values(), default=0)


def _own_state(bundle: Bundle) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the options and counters that only mpls writes, if one optimizer has them.

    A variable of the program may have such a name too, so what is none of these numbers is left out.
    """
    numbers: dict[str, Any] = {}
    for name in (*WHOLE_EXTRAS, *FLOAT_EXTRAS, *COUNTS):
        value = bundle.tensor(name) if name in bundle else None
        kinds = "f" if name in FLOAT_EXTRAS else "iu"
        if value is not None and value.shape == () and value.dtype.kind in kinds and value >= 0:
            numbers[name] = value.item()
    counts = {name: numbers.pop(name) for name in COUNTS if name in numbers}
    return numbers, counts if len(counts) == len(COUNTS) else {}


def _split(name: str) -> tuple[str, str, int]:
    """Split `'scope/base_2'` into the scope, the base and the number; the number is 0 if the name has none."""
    scope, _, last = name.rpartition("/")
    match = _NUMBERED.match(last)
    base, number = (last, None) if match is None else (match["base"], match["number"])
    return scope, base, int(number or 0)


def _joined(scope: str, base: str, number: int) -> str:
    return (f"{scope}/" if scope else "") + base + (f"_{number}" if number else "")


def _loss_scale(bundle: Bundle, name: str) -> LossScaleRecord | None:
    """Return the loss scale that a variable holds, or None: of a v1 wrapper, or of a manager of tf.contrib."""
    scope, base, number = _split(name)
    counter = dict((STATE, STATE_OF_MANAGERS)).get(base)
    if counter is None or (good_steps := _joined(scope, counter, number)) not in bundle:
        return None
    if base == STATE_OF_MANAGERS[0] and _joined(scope, BAD_STEPS, number) not in bundle:
        return None
    return LossScaleRecord(
        dynamic=True,
        scale=scale_of_variable(bundle.path, name, bundle.tensor(name)),
        good_steps=good_steps_of_variable(bundle.path, good_steps, bundle.tensor(good_steps), None),
    )


def _slots(bundle: Bundle, allows_unknown: bool) -> dict[str, dict[str, list[str]]]:
    """Return `{optimizer's name: {variable: names of its slot variables, in the order of their creation}}`.

    Args:
        bundle: the checkpoint.
        allows_unknown: whether optimizers with names other than TensorFlow's are among them.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for name in sorted(bundle.entries, key=lambda name: (_split(name)[2], name)):
        scope, base, _ = _split(name)
        variable = _variable_of(bundle, scope) if base in V1_OPTIMIZERS else scope
        if variable not in bundle or base in _NO_SLOTS or bundle.shape(variable) != bundle.shape(name):
            continue
        if base in V1_OPTIMIZERS or allows_unknown:
            found.setdefault(base, {}).setdefault(variable, []).append(name)
    return found


def _variable_of(bundle: Bundle, scope: str) -> str:
    """Return the variable whose slots are in a scope; further scopes may stand before its name. Else an empty text."""
    while scope and scope not in bundle:
        scope = scope.partition("/")[2]
    return scope


def _layout(optimizer: str, variables: Mapping[str, list[str]], has_powers: bool) -> tuple[str | None, tuple[str, ...]]:
    """Return an optimizer's class name in Keras, and its slots in the order of their creation; None if unknown."""
    most = max(len(names) for names in variables.values())
    if optimizer in V1_OPTIMIZERS:
        return v1_slots(optimizer, most)
    if has_powers and most == 2:
        return v1_slots("Adam", most)
    return None, ()


def _variable(bundle: Bundle, variable: str, names: list[str], slots: tuple[str, ...]) -> VariableRecord:
    values = {}
    for position, name in enumerate(names):
        # The names of a second optimizer of that class go on with the next number.
        slot = slots[position] if position < len(slots) else name.rpartition("/")[2]
        values[slot] = bundle.tensor(name)
    return VariableRecord(variable, variable, values)


def _global_step(bundle: Bundle) -> dict[str, int]:
    """Return the name and the value of the global step; empty if there is none, or if several have that name."""
    found = [name for name in bundle.entries if name.rpartition("/")[2] == "global_step"]
    if "global_step" in found:
        found = ["global_step"]
    if len(found) != 1:
        return {}
    return {found[0]: count_of_variable(bundle.path, found[0], bundle.tensor(found[0]))}


def _legacy(bundle: Bundle) -> list[OptimizerRecord]:
    """Return the legacy optimizers of Keras, told by the names of their counters, as `'training/Adam/iter'`."""
    scopes = {}
    ordered = sorted(bundle.entries)
    for name in ordered:
        scope, _, last = name.rpartition("/")
        _, algorithm, _ = _split(scope)
        if last == _ITERATIONS and algorithm in ALGORITHMS:
            scopes[scope] = algorithm
    copies = _copies(bundle, list(scopes))
    return [
        _legacy_optimizer(bundle, ordered, scope, algorithm, copies)
        for scope, algorithm in scopes.items()
        if f"{scope}/{_ITERATIONS}" not in copies
    ]


def _copies(bundle: Bundle, scopes: list[str]) -> set[str]:
    """Return the names under which TensorFlow's own wrapper has saved the state of an optimizer a second time.

    Its conditionals rename variables. With control flow v1 (`tf.cond` as ops), the name gets a `cond` scope. With
    control flow v2 (`tf.cond` as functions), the name loses its scopes, and its last part gets a number.

    Args:
        bundle: the checkpoint.
        scopes: the scopes of all optimizers, copies included.
    """
    copies: set[str] = set()
    ordered = sorted(bundle.entries)
    in_conditionals: dict[str, list[str]] = {}
    for each in scopes:
        in_conditionals.setdefault(_CONDITIONAL.sub("", each), []).append(each)
    for original in (each for each in scopes if _CONDITIONAL.search(each) is None):
        scope, optimizer, _ = _split(original)
        places = [
            (other, 0) for other in in_conditionals.get(_joined(scope, optimizer, 0), ()) if _CONDITIONAL.search(other)
        ]
        # Without a scope that could be lost, only a number tells a copy from another optimizer.
        if optimizer != original:
            places += [(optimizer, number) for number in _numbers(bundle, optimizer) if scope or number]
        parts = [name[len(original) + 1 :] for name in _under(ordered, original)]
        for place, number in places[:_MOST_COPIES]:
            names = [_numbered(bundle, f"{place}/{part}", number) for part in parts]
            if all(map(_is_same_in(bundle), names, (f"{original}/{part}" for part in parts))):
                copies.update(names)
    return copies


def _numbers(bundle: Bundle, scope: str) -> Iterator[int]:
    for number in range(_MOST_COPIES):
        if _joined(scope, _ITERATIONS, number) not in bundle:
            return
        yield number


def _under(ordered: Sequence[str], scope: str) -> Sequence[str]:
    """Return the names in a scope, from a sorted list of names."""
    return ordered[bisect_left(ordered, f"{scope}/") : bisect_left(ordered, f"{scope}0")]


def _numbered(bundle: Bundle, name: str, number: int) -> str:
    scope, _, last = name.rpartition("/")
    numbered = _joined(scope, last, number)
    # A slot variable whose name is unique without the number has none.
    return numbered if numbered in bundle else name


def _is_same_in(bundle: Bundle) -> Callable[[str, str], bool]:
    return lambda name, other: (
        name in bundle and np.asarray(bundle.tensor(name)).tobytes() == np.asarray(bundle.tensor(other)).tobytes()
    )


def _legacy_optimizer(
    bundle: Bundle, ordered: Sequence[str], scope: str, algorithm: str, copies: Set[str]
) -> OptimizerRecord:
    hyperparameters: dict[str, Any] = {}
    others: dict[str, Any] = {}
    slots: dict[str, dict[str, Any]] = {}
    for name in _under(ordered, scope):
        if name == f"{scope}/iter" or name in copies:
            continue
        rest = name[len(scope) + 1 :]
        variable, _, slot = rest.rpartition("/")
        if variable in bundle:
            slots.setdefault(variable, {})[slot] = bundle.tensor(name)
        elif not variable and rest != MOMENTUM_PRODUCTS["legacy"] and bundle.shape(name) == ():
            hyperparameters[rest] = number_of_variable(bundle.path, name, bundle.tensor(name))
        else:
            others[rest] = bundle.tensor(name)
    return OptimizerRecord(
        key=scope,
        family="legacy",
        algorithm=algorithm,
        iterations=count_of_variable(bundle.path, f"{scope}/iter", bundle.tensor(f"{scope}/iter")),
        hyperparameters=hyperparameters,
        variables=[VariableRecord(variable, variable, values) for variable, values in slots.items()],
        others=others,
        loss_scale=None,
    )
