"""How the families' formulas for one algorithm differ, the number of steps, and state that follows from it."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpls.errors import SavedStateError
from mpls.formats import algorithms
from mpls.formats.algorithms import ACCUMULATOR
from mpls.formats.families import Family
from mpls.formats.record import OptimizerRecord
from mpls.formats.validity import LARGEST_COUNT, SEE_DOCS
from mpls.saved.foreign_files import broken

# Algorithms whose step depends on the number of steps before.
COUNTING = ("Adam", "Adamax", "Nadam")
# The default of `schedule_decay`, a setting of legacy Nadams that their configs call `decay`.
SCHEDULE_DECAY = 0.004
# Files may claim numbers of steps, and betas, for which computing would take years or all memory.
_STEPS_ONE_BY_ONE, _MOST_POWERS = 1_000_000, 20_000_000


def formula_differences(
    algorithm: str | None, source: Family, target: Family, source_config: Mapping[str, Any], config: Mapping[str, Any]
) -> list[str]:
    """Return, in words, the differences between two families' steps of an algorithm with these settings."""
    found = []
    ours, theirs = _epsilon_at(algorithm, source, source_config), _epsilon_at(algorithm, target, config)
    if ours != theirs:
        found.append(f"epsilon: {ours}, {theirs}")
    if algorithm == "Nadam" and "legacy" in (source, target) and source != target:
        decay = (source_config if source == "legacy" else config).get("decay", SCHEDULE_DECAY)
        if decay != 1.0:
            said = f"{decay:g}" if isinstance(decay, float) else f"{decay!s:.20}"
            ours, theirs = (said if each == "legacy" else "1" for each in (source, target))
            found.append(f"schedule of the momentum, schedule_decay: {ours}, {theirs}")
    return found


def _epsilon_at(algorithm: str | None, family: Family, config: Mapping[str, Any]) -> str | None:
    under, beside = "added under the root", "added to the root"
    if algorithm == "RMSprop":
        return beside if family == "legacy" and not config.get("momentum") else under
    if algorithm == "Adagrad":
        return {"v1": "there is none", "legacy": beside}.get(family, under)
    return None


def momentum_product(iterations: int, beta_1: float, exponent: float) -> float:
    """Return Nadam's momentum product after a number of steps, if no step was skipped.

    Args:
        iterations: the number of steps.
        beta_1: the setting.
        exponent: the setting `schedule_decay` of legacy optimizers; 1 for the others.
    """
    product = 1.0
    few = min(iterations, _STEPS_ONE_BY_ONE)
    for step in range(1, few + 1):
        product *= beta_1 * (1.0 - 0.5 * 0.96 ** (exponent * step))
    # With the exponents of Keras, the factor has long been `beta_1` to the last bit.
    return product * beta_1 ** (iterations - few)


@dataclass(frozen=True)
class Steps:
    """A number of steps.

    Attributes:
        steps: the number.
        is_exact: whether the power of this number is bit for bit the one that was found.
    """

    steps: int
    is_exact: bool


def steps_of_power(power: Any, beta: float) -> Steps | None:
    """Return the number of steps told by a beta power of v1's Adam, `beta ** (steps + 1)`; None if no number fits.

    Args:
        power: the power in float32, a number or an array of one.
        beta: the setting.
    """
    value = np.asarray(power, np.float32).item()
    if not (0.0 < beta < 1.0 and float(np.finfo(np.float32).tiny) <= value <= beta * (1 + 1e-6)):
        return None
    length = round(math.log(value) / math.log(beta)) + 1000
    if length > _MOST_POWERS:
        return None
    # Multiply step by step in float32, as the optimizer does, for the same rounding.
    powers = np.multiply.accumulate(np.full(length, beta, np.float32))
    nearest = int(np.argmin(np.abs(powers - np.float32(value))))
    is_exact = bool(powers[nearest] == np.float32(value))
    is_near = abs(float(powers[nearest]) - value) < 0.1 * (1 - beta) * value
    return Steps(nearest, is_exact) if is_exact or is_near else None


_NUMBERS = (int, float, np.integer, np.floating)


def steps_of(
    record: OptimizerRecord, state: str | None, config: Mapping[str, Any], subject: str, chosen: int
) -> int | None:
    """Return the number of steps in a record; None if it is unknown and the algorithm does not depend on it.

    A step of Adam in v1 depends on its beta powers and not on `global_step`, so the powers count if they fit exactly.

    Args:
        record: the source.
        state: the algorithm, in `algorithms.SLOTS`, or None.
        config: the target's settings, for the betas that the record does not say.
        subject: the origin of the record, for errors.
        chosen: the number of steps of the target. If it is not 0, the user has chosen it.

    Raises:
        SavedStateError: the algorithm depends on an unknown number of steps, or the number or a beta is not valid.
    """
    found = _steps_of_powers(record, config, subject)
    steps = record.iterations
    if found is not None and (found.is_exact or steps is None):
        steps = found.steps
    is_chosen = chosen > 0 and bool(record.possible_steps)
    if steps is None and state in COUNTING and not is_chosen:
        problem = "got none"
        advice = (
            "Save the optimizer's iterations, or tf.compat.v1.train.get_or_create_global_step(), with it; or give the "
            "target the betas of the source"
        )
        if record.possible_steps:
            told = described(possible_steps(record, config, subject))
            problem = f"the file does not say to which optimizer these belong, with the target's betas: {told}"
            advice = "Call optimizer.iterations.assign(STEPS) with the right number, and convert_state again"
        raise SavedStateError(
            f"{subject}: the source must say how many steps there have been, on which {state} depends; {problem}. "
            f"{advice}. {SEE_DOCS}"
        )
    if steps is not None and not 0 <= steps <= LARGEST_COUNT:
        raise SavedStateError(
            f"{subject}: the number of steps must be from 0 to {LARGEST_COUNT}; got {steps}. The file is broken: "
            f"restore an older one. {SEE_DOCS}"
        )
    return steps


def possible_steps(record: OptimizerRecord, config: Mapping[str, Any], subject: str) -> dict[str, int | None]:
    """Return the steps that each of `record.possible_steps` tells with the target's betas; None if no number fits."""
    found: dict[str, int | None] = {}
    for name, value in record.possible_steps.items():
        beta = algorithms.beta_of_power(name)
        told = None if beta is None else _steps_of(record, beta, value, config, subject)
        found[name] = int(value) if beta is None else None if told is None else told.steps
    return found


def described(possible: Mapping[str, int | None]) -> str:
    """Return possible numbers of steps in words, as `'beta1_power: 18 steps, global_step: 6 steps'`."""
    return ", ".join(name if steps is None else f"{name}: {steps} steps" for name, steps in possible.items())


def _steps_of(record: OptimizerRecord, beta: str, power: Any, config: Mapping[str, Any], subject: str) -> Steps | None:
    return steps_of_power(power, _number(record, beta, config.get(beta, 0.0), subject, 1.0))


def _steps_of_powers(record: OptimizerRecord, config: Mapping[str, Any], subject: str) -> Steps | None:
    """Return the steps told by the beta powers; None if there are none, or if they contradict each other."""
    found = []
    for name, value in record.others.items():
        beta = algorithms.beta_of_power(name)
        steps = None if beta is None else _steps_of(record, beta, value, config, subject)
        found += [] if steps is None else [steps]
    found.sort(key=lambda steps: not steps.is_exact)
    differ = any(abs(each.steps - found[0].steps) > 2 + found[0].steps // 50 for each in found)
    return found[0] if found and not differ else None


def _number(
    record: OptimizerRecord, name: str, default: Any, subject: str, largest: float = sys.float_info.max
) -> float:
    """Return a setting of a record as a number, and a default if the record does not say it.

    Raises:
        SavedStateError: it is not a number from 0 to `largest`.
    """
    value = record.hyperparameters.get(name, default)
    if not isinstance(value, _NUMBERS) or not 0 <= value <= largest:
        raise broken(subject, name, f"be a number from 0 to {largest:g}", value)
    return float(value)


def gradient_steps(record: OptimizerRecord, config: Mapping[str, Any], subject: str) -> int:
    """Return the number of steps over which source and target accumulate gradients; 1 if they do not.

    Raises:
        SavedStateError: the numbers differ: a count of steps, and gradients that are not applied yet, mean another
            thing then. If the source does not say its number, but has accumulated gradients, it is the target's.
    """
    target = int(config.get("gradient_accumulation_steps") or 1)
    source = record.hyperparameters.get("gradient_accumulation_steps")
    names = {name for variable in record.variables for name in variable.slots}
    accumulates = any(algorithms.slot_called(None, record.family, name) == ACCUMULATOR for name in names)
    is_same = source == target if source else accumulates == (target > 1)
    if not is_same:
        raise SavedStateError(
            f"{subject}: source and target must have the same gradient_accumulation_steps; got "
            f"{source or ('an unknown number' if accumulates else 'none')} and {target}. Create the target with those "
            f"of the source. {SEE_DOCS}"
        )
    return target


def product_of(record: OptimizerRecord, steps: int, config: Mapping[str, Any], subject: str) -> tuple[float, bool]:
    """Return Nadam's momentum product, and whether it was computed because the record does not have it.

    Args:
        record: the source.
        steps: the number of updates.
        config: the target's settings, for a beta that the record does not say.
        subject: the origin of the record, for errors.

    Raises:
        SavedStateError: a setting that it is computed of is not a number.
    """
    for name, value in record.others.items():
        if algorithms.is_momentum_product(name):
            return float(np.asarray(value)), False
    beta_1 = _number(record, "beta_1", config.get("beta_1", 0.9), subject, 1.0)
    exponent = _number(record, "decay", SCHEDULE_DECAY, subject) if record.family == "legacy" else 1.0
    return momentum_product(steps, beta_1, exponent), True
