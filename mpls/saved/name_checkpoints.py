"""Checkpoints that `tf.compat.v1.train.Saver` writes: tensors by the names of variables."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from mpls.formats.algorithms import ALGORITHMS, V1_OPTIMIZERS, v1_slots
from mpls.formats.record import LossScaleRecord, OptimizerRecord, VariableRecord
from mpls.saved.bundles import Bundle
from mpls.saved.errors import broken
from mpls.saved.plain_numbers import count_of_variable, good_steps_of_variable, scale_of_variable

_NUMBERED = re.compile(r"^(?P<base>.*?)(_(?P<number>[1-9][0-9]{0,3}))?$", re.DOTALL)
_CONDITIONAL = re.compile(r"(?<![^/])cond(_\d+)?/")
_SCALES = ("current_loss_scale", "loss_scale")
_MOST_SCOPES = 100
# Each is looked for among all variables.
_MOST_OPTIMIZERS = 100
_MOST_COPIES = 16
_BETA_POWERS = ("beta1_power", "beta2_power")
# Averages of variables look like slots.
_NO_SLOTS = ("ExponentialMovingAverage", "Assign", "read", "avg")


def read_names(bundle: Bundle) -> list[OptimizerRecord]:
    """Return the optimizers that names of variables tell of.

    A loss scale goes to the optimizer where there is one of each; otherwise it has a record of its own, whose key is
    its name, since the names do not say which belongs to which.

    Raises:
        SavedStateError: state is broken, or none that an optimizer can have.
    """
    scales = {name: scale for name in bundle.entries if (scale := _loss_scale(bundle, name)) is not None}
    powers = {name: bundle.tensor(name) for name in bundle.entries if _split(name)[1] in _BETA_POWERS}
    slots = _slots(bundle, allows_unknown=bool(scales or powers))
    iterations = _global_step(bundle)
    records = _legacy(bundle)
    belongs = len(scales) == 1 and len(slots) + len(records) < 2
    if belongs:
        records = [replace(record, loss_scale=next(iter(scales.values()))) for record in records]
    for optimizer, variables in slots.items():
        algorithm, names = _layout(optimizer, variables, bool(powers))
        records.append(
            OptimizerRecord(
                key=optimizer,
                family="v1",
                algorithm=algorithm,
                iterations=iterations,
                variables=[_variable(bundle, variable, found, names) for variable, found in variables.items()],
                others=powers if algorithm == "Adam" else {},
                loss_scale=next(iter(scales.values())) if belongs else None,
            )
        )
    if not (belongs and records):
        records += [
            OptimizerRecord(name, "v1", iterations=iterations, loss_scale=each) for name, each in scales.items()
        ]
    return records


def _split(name: str) -> tuple[str, str, int]:
    """Return the scope, the last part without the number that makes it unique, and that number."""
    scope, _, last = name.rpartition("/")
    match = _NUMBERED.match(last)
    base, number = (last, None) if match is None else (match["base"], match["number"])
    return scope, base, int(number or 0)


def _joined(scope: str, base: str, number: int) -> str:
    return (f"{scope}/" if scope else "") + base + (f"_{number}" if number else "")


def _loss_scale(bundle: Bundle, name: str) -> LossScaleRecord | None:
    scope, base, number = _split(name)
    good_steps = _joined(scope, "good_steps", number)
    if base not in _SCALES or good_steps not in bundle:
        return None
    if base == "loss_scale" and _joined(scope, "bad_steps", number) not in bundle:
        return None
    return LossScaleRecord(
        dynamic=True,
        scale=scale_of_variable(bundle.path, name, bundle.tensor(name)),
        good_steps=good_steps_of_variable(bundle.path, good_steps, bundle.tensor(good_steps), None),
    )


def _slots(bundle: Bundle, allows_unknown: bool) -> dict[str, dict[str, list[str]]]:
    """Return by the optimizer's name and by variable the names of its slots, in the order of their creation."""
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
    """Return whose slots have names in a scope: a variable, before whose name that of the current scope may stand."""
    for _ in range(_MOST_SCOPES):
        if not scope or scope in bundle:
            return scope
        scope = scope.partition("/")[2]
    return ""


def _layout(optimizer: str, variables: Mapping[str, list[str]], has_powers: bool) -> tuple[str | None, tuple[str, ...]]:
    """Return an optimizer's class in Keras, and its slots in the order of their creation."""
    most = max(len(names) for names in variables.values())
    if optimizer in V1_OPTIMIZERS:
        return v1_slots(optimizer, most)
    if has_powers and most == 2:
        return v1_slots("Adam", most)
    return None, ()


def _variable(bundle: Bundle, variable: str, names: list[str], slots: tuple[str, ...]) -> VariableRecord:
    values = {}
    for position, name in enumerate(names):
        # Further optimizers of that name on the same variable count on.
        slot = slots[position] if position < len(slots) else name.rpartition("/")[2]
        values[slot] = bundle.tensor(name)
    return VariableRecord(variable, variable, values)


def _global_step(bundle: Bundle) -> int | None:
    found = [name for name in bundle.entries if name.rpartition("/")[2] == "global_step"]
    if "global_step" in found:
        found = ["global_step"]
    return count_of_variable(bundle.path, found[0], bundle.tensor(found[0])) if len(found) == 1 else None


def _legacy(bundle: Bundle) -> list[OptimizerRecord]:
    """Return the Keras optimizers in a Saver's checkpoint, as `'training/Adam/iter'` tells."""
    scopes = {}
    ordered = sorted(bundle.entries)
    for name in ordered:
        scope, _, last = name.rpartition("/")
        _, algorithm, _ = _split(scope)
        if last == "iter" and algorithm in ALGORITHMS:
            scopes[scope] = algorithm
    if len(scopes) > _MOST_OPTIMIZERS:
        raise broken(bundle.path, "iter", f"be in at most {_MOST_OPTIMIZERS} optimizers", len(scopes))
    copies = _copies(bundle, list(scopes))
    return [
        _legacy_optimizer(bundle, ordered, scope, algorithm, copies)
        for scope, algorithm in scopes.items()
        if f"{scope}/iter" not in copies
    ]


def _copies(bundle: Bundle, scopes: list[str]) -> set[str]:
    """Return what is in the file a second time, under the names that TensorFlow's own wrapper gives it.

    With the first control flow it adds a scope to the names, with the second it leaves out the scopes, and numbers the
    last parts.
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
        # Where there is no scope to leave out, only a number tells a copy from an optimizer of its own.
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
        if _joined(scope, "iter", number) not in bundle:
            return
        yield number


def _under(ordered: Sequence[str], scope: str) -> Sequence[str]:
    """Return the names in a scope, of all in their order."""
    return ordered[bisect_left(ordered, f"{scope}/") : bisect_left(ordered, f"{scope}0")]


def _numbered(bundle: Bundle, name: str, number: int) -> str:
    scope, _, last = name.rpartition("/")
    numbered = _joined(scope, last, number)
    # Slots of different variables have different names already.
    return numbered if numbered in bundle else name


def _is_same_in(bundle: Bundle) -> Callable[[str, str], bool]:
    return lambda name, other: name in bundle and bundle.tensor(name).tobytes() == bundle.tensor(other).tobytes()


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
        elif not variable and rest != "momentum_cache" and bundle.shape(name) == ():
            hyperparameters[rest] = float(bundle.tensor(name))
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
