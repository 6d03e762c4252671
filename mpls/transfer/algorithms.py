"""What the families call the state of each algorithm, and where what they mean by it differs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpls.saved.record import Family

# Legacy optimizers count the same steps as new ones, and Nadam's product has the same meaning in all.
PRODUCT = "momentum product"
AVERAGE = "average"
ACCUMULATOR = "gradient accumulator"


@dataclass(frozen=True)
class Slot:
    """A slot, under the name that each family gives it; None where the family does not have it.

    Attributes:
        name: its name here.
        v1: in `tf.compat.v1.train`.
        legacy: in legacy optimizers of tf_keras.
        new: in new optimizers of tf_keras.
        keras3: in Keras 3.
        attributes: the lists of new optimizers and those of Keras 3 in which its variables are.
    """

    name: str
    v1: str | None
    legacy: str | None
    new: str | None
    keras3: str | None
    attributes: tuple[str, ...]

    def names(self, family: Family) -> set[str]:
        """Return the names by which it may go in a record of a family, without underscores before them."""
        own = getattr(self, family)
        if own is None:
            return set()
        return {own} | ({each.lstrip("_") for each in self.attributes} if family in ("new", "keras3") else set())


_FIRST = Slot("m", "m", "m", "m", "momentum", ("_momentums",))
_SECOND = Slot("v", "v", "v", "v", "velocity", ("_velocities",))

SLOTS: Mapping[str, tuple[Slot, ...]] = {
    "SGD": (Slot("momentum", "momentum", "momentum", "m", "momentum", ("momentums",)),),
    "Adam": (_FIRST, _SECOND, Slot("vhat", None, "vhat", "vhat", "velocity_hat", ("_velocity_hats",))),
    "RMSprop": (
        Slot("rms", "rms", "rms", "velocity", "velocity", ("_velocities",)),
        Slot("momentum", "momentum", "momentum", "momentum", "momentum", ("_momentums",)),
        Slot("mg", "mg", "mg", "average_gradient", "average_gradient", ("_average_gradients",)),
    ),
    "Adagrad": (Slot("accumulator", "accumulator", "accumulator", "accumulator", "accumulator", ("_accumulators",)),),
    "Adadelta": (
        Slot("accum_grad", "accum", "accum_grad", "accumulated_grad", "accumulated_grad", ("_accumulated_grads",)),
        Slot(
            "accum_var",
            "accum_update",
            "accum_var",
            "accumulated_delta_var",
            "accumulated_delta_var",
            ("_accumulated_delta_vars",),
        ),
    ),
    "Adamax": (Slot("m", None, "m", "m", "momentum", ("_m",)), Slot("v", None, "v", "u", "norm", ("_u",))),
    "Nadam": (
        Slot("m", None, "m", "m", "momentum", ("_momentums",)),
        Slot("v", None, "v", "v", "velocity", ("_velocities",)),
    ),
    "Ftrl": (
        Slot("accumulator", "accum", "accumulator", "accumulator", "accumulator", ("_accumulators",)),
        Slot("linear", "linear", "linear", "linear", "linear", ("_linears",)),
    ),
    "Lion": (Slot("m", None, None, "m", "momentum", ("momentums", "_momentums")),),
}

# What the optimizers of new and of Keras 3 have whatever their algorithm is.
COMMON = (
    Slot(AVERAGE, None, None, "average", "average", ("_model_variables_moving_average",)),
    Slot(ACCUMULATOR, None, None, None, "gradient_accumulator", ("_accumulated_gradients",)),
)

# Their steps depend on how many there have been.
COUNTING = ("Adam", "Adamax", "Nadam")

_SAME_STATE = {
    "adamw": "Adam",
    "gradientdescent": "SGD",
    "momentum": "SGD",
    "nonfusedadam": "Adam",
    **{name.lower(): name for name in SLOTS},
}


def state_of(algorithm: str | None) -> str | None:
    """Return the algorithm whose state one has, by its class name in any family; None if it is not one of these."""
    return _SAME_STATE.get((algorithm or "").removesuffix("Optimizer").lower())


def algorithm_of(optimizer: Any) -> str:
    """Return an optimizer's class name, or for a user's subclass that of the class that it derives from."""
    frameworks = ("tensorflow", "tf_keras", "keras")
    for cls in type(optimizer).__mro__:
        if cls.__module__.partition(".")[0] in frameworks and state_of(cls.__name__):
            return cls.__name__
    return type(optimizer).__name__


def slot_called(algorithm: str | None, family: Family, name: str) -> str:
    """Return what a slot of a record is called here; a name that nobody knows stays as it is."""
    plain = name.lstrip("_")
    for slot in (*SLOTS.get(algorithm or "", ()), *COMMON):
        if plain in slot.names(family):
            return slot.name
    return plain


def slot_names(algorithm: str, family: Family) -> dict[str, str]:
    """Return the names of an algorithm's slots in a family, by the names here."""
    slots = (*SLOTS[algorithm], *COMMON)
    return {slot.name: name for slot in slots if (name := getattr(slot, family)) is not None}


def expected_slots(algorithm: str, family: Family, config: Mapping[str, Any]) -> set[str]:
    """Return the slots that an optimizer of a family creates with these settings, by the names here."""
    names = set(slot_names(algorithm, family))
    # A new SGD has the slot whether it uses it or not.
    if not config.get("momentum") and (algorithm, family) != ("SGD", "new") and algorithm in ("SGD", "RMSprop"):
        names.discard("momentum")
    for slot, setting in (
        ("vhat", "amsgrad"),
        ("mg", "centered"),
        (AVERAGE, "use_ema"),
        (ACCUMULATOR, "gradient_accumulation_steps"),
    ):
        if not config.get(setting):
            names.discard(slot)
    return names


def unused_slots(algorithm: str | None, config: Mapping[str, Any]) -> set[str]:
    """Return the slots that have no effect with these settings."""
    if algorithm in ("SGD", "RMSprop") and config.get("momentum") in (0, 0.0):
        return {"momentum"}
    return set()


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
