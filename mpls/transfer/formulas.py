"""Differences between the families' formulas for one algorithm, and state that follows from the number of steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpls.formats.algorithms import state_of
from mpls.formats.families import Family

# Algorithms whose step depends on the number of steps before.
COUNTING = ("Adam", "Adamax", "Nadam")
# The default of `schedule_decay`, a setting of legacy Nadams that their configs call `decay`.
SCHEDULE_DECAY = 0.004
# Files may claim numbers of steps, and betas, for which computing would take years or all memory.
_STEPS_ONE_BY_ONE, _MOST_POWERS = 1_000_000, 20_000_000


def algorithm_of(optimizer: Any) -> str:
    """Return the class name of an optimizer; for a user's subclass, that of the framework's class it derives from."""
    frameworks = ("tensorflow", "tf_keras", "keras")
    for cls in type(optimizer).__mro__:
        if cls.__module__.partition(".")[0] in frameworks and state_of(cls.__name__):
            return cls.__name__
    return type(optimizer).__name__


def accumulates_gradients(algorithm: str | None, family: Family) -> bool:
    """Return whether a family's momentum slot holds a sum of gradients, which a step multiplies by the learning rate.

    The Keras families multiply each gradient by minus the learning rate before they add it to the slot.
    """
    return algorithm == "SGD" and family == "v1"


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


def momentum_product(iterations: int, beta_1: float, exponent: float = 1.0) -> float:
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
        if product == 0.0:
            break
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
