"""Where what the families mean by the state of an algorithm differs, and what follows from a number of steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpls.formats.algorithms import state_of
from mpls.formats.record import Family

# Their steps depend on how many there have been.
COUNTING = ("Adam", "Adamax", "Nadam")


def algorithm_of(optimizer: Any) -> str:
    """Return an optimizer's class name, or for a user's subclass that of the class that it derives from."""
    frameworks = ("tensorflow", "tf_keras", "keras")
    for cls in type(optimizer).__mro__:
        if cls.__module__.partition(".")[0] in frameworks and state_of(cls.__name__):
            return cls.__name__
    return type(optimizer).__name__


def accumulates_gradients(algorithm: str | None, family: Family) -> bool:
    """Return whether the momentum slot holds gradients, to be multiplied by the learning rate at each step.

    In the Keras families the learning rate, with a minus, is in the slot already.
    """
    return algorithm == "SGD" and family == "v1"


def formula_differences(
    algorithm: str | None, source: Family, target: Family, source_config: Mapping[str, Any], config: Mapping[str, Any]
) -> list[str]:
    """Return, in words, where two families compute an algorithm's step differently with the same settings."""
    found = []
    ours, theirs = _epsilon_at(algorithm, source, source_config), _epsilon_at(algorithm, target, config)
    if ours != theirs:
        found.append(f"epsilon: {ours}, {theirs}")
    if algorithm == "Nadam" and "legacy" in (source, target) and source != target:
        decay = (source_config if source == "legacy" else config).get("decay", _SCHEDULE_DECAY)
        if decay != 1.0:
            ours, theirs = (f"{decay:g}" if each == "legacy" else "1" for each in (source, target))
            found.append(f"schedule of the momentum, schedule_decay: {ours}, {theirs}")
    return found


# The default of legacy optimizers.
_SCHEDULE_DECAY = 0.004


def _epsilon_at(algorithm: str | None, family: Family, config: Mapping[str, Any]) -> str | None:
    under, beside = "added under the root", "added to the root"
    if algorithm == "RMSprop":
        return beside if family == "legacy" and not config.get("momentum") else under
    if algorithm == "Adagrad":
        return {"v1": "there is none", "legacy": beside}.get(family, under)
    return None


def momentum_product(iterations: int, beta_1: float, exponent: float = 1.0) -> float:
    """Return Nadam's product of momentums after a number of steps, none of them skipped.

    Args:
        iterations: the number of steps.
        beta_1: the setting.
        exponent: legacy optimizers' `schedule_decay`; the others have 1.
    """
    product = 1.0
    for step in range(1, iterations + 1):
        product *= beta_1 * (1.0 - 0.5 * 0.96 ** (exponent * step))
        if product == 0.0:
            break
    return product


@dataclass(frozen=True)
class Steps:
    """A number of steps.

    Attributes:
        steps: the number.
        is_exact: whether it gives what was found to the last bit.
    """

    steps: int
    is_exact: bool


def steps_of_power(power: Any, beta: float) -> Steps | None:
    """Return after how many steps a beta power of v1's Adam, `beta ** (steps + 1)`, has its value; None if none fits.

    Args:
        power: the value, a number or an array of one.
        beta: the setting.
    """
    value = np.asarray(power, np.float32).item()
    if not (0.0 < beta < 1.0 and float(np.finfo(np.float32).tiny) <= value <= beta * (1 + 1e-6)):
        return None
    length = round(math.log(value) / math.log(beta)) + 1000
    # Multiplied as the optimizer does, so that the rounding is the same.
    powers = np.multiply.accumulate(np.full(length, beta, np.float32))
    nearest = int(np.argmin(np.abs(powers - np.float32(value))))
    is_exact = bool(powers[nearest] == np.float32(value))
    is_near = abs(float(powers[nearest]) - value) < 0.1 * (1 - beta) * value
    return Steps(nearest, is_exact) if is_exact or is_near else None
