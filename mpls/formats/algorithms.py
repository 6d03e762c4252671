"""The algorithms of optimizers and their state: the names of slots in each family, and the order of their creation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mpls.formats.families import Family

__all__ = [
    "ACCUMULATOR",
    "AVERAGE",
    "BETA_1_POWER",
    "BETA_POWERS",
    "COMMON",
    "LEGACY_CLASSES",
    "MOMENTUM_PRODUCTS",
    "PRODUCT",
    "SLOTS",
    "V1_OPTIMIZERS",
    "Slot",
    "expected_slots",
    "has_momentum_product",
    "is_beta_power",
    "is_momentum_product",
    "layout",
    "slot_called",
    "slot_names",
    "state_of",
    "unused_slots",
    "v1_slots",
]

PRODUCT = "momentum product"
AVERAGE = "average"
ACCUMULATOR = "gradient accumulator"

# The variables of Adam in v1 that hold powers of its betas, and the settings that they are powers of.
BETA_1_POWER = "beta1_power"
BETA_POWERS: Mapping[str, str] = {BETA_1_POWER: "beta_1", "beta2_power": "beta_2"}
# The variable of Nadam that holds the product of its momentums, as files name it; `tf.compat.v1.train` has no Nadam.
MOMENTUM_PRODUCTS: Mapping[Family, str] = {"legacy": "momentum_cache", "new": "_u_product", "keras3": "_u_product"}
# The last one is the attribute of legacy optimizers.
_PRODUCTS = {name.lstrip("_") for name in MOMENTUM_PRODUCTS.values()} | {"m_cache"}


def is_momentum_product(name: str) -> bool:
    """Return whether a variable that is no slot is Nadam's momentum product, by its name."""
    return name.lstrip("_") in _PRODUCTS


def has_momentum_product(algorithm: str | None) -> bool:
    """Return whether an algorithm has a momentum product, by its class name in Keras."""
    return algorithm == "Nadam"


def is_beta_power(name: str) -> bool:
    """Return whether a variable that is no slot is a beta power of v1's Adam, by its name, scopes included."""
    return name.rpartition("/")[2] in BETA_POWERS


@dataclass(frozen=True)
class Slot:
    """A slot and its name in each family; None for a family that does not have it.

    Attributes:
        name: the name that mpls uses for all families.
        v1: the name in `tf.compat.v1.train`.
        legacy: the name in legacy optimizers of tf_keras.
        new: the name in new optimizers of tf_keras.
        keras3: the name in Keras 3.
        attributes: the attributes of new and Keras 3 optimizers that are lists of its variables.
    """

    name: str
    v1: str | None
    legacy: str | None
    new: str | None
    keras3: str | None
    attributes: tuple[str, ...]

    def names(self, family: Family) -> set[str]:
        """Return the names that it may have in a record of a family, without leading underscores."""
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

# The legacy optimizers of tf_keras, which had no others up to TF 2.10.
LEGACY_CLASSES = tuple(sorted(name for name, slots in SLOTS.items() if slots[0].legacy is not None))

# Slots that new and Keras 3 optimizers of every algorithm may have.
COMMON = (
    Slot(AVERAGE, None, None, "average", "average", ("_model_variables_moving_average",)),
    Slot(ACCUMULATOR, None, None, None, "gradient_accumulator", ("_accumulated_gradients",)),
)

# Algorithms with the slots of Adam, and the families in which they have them.
_AS_ADAM: dict[str, tuple[Family, ...]] = {"AdamW": ("new", "keras3"), "Lamb": ("keras3",)}

# The names of v1 optimizers, which are also those of their slots in checkpoints, and the class names in Keras.
V1_OPTIMIZERS = {
    "Adam": "Adam",
    "Momentum": "SGD",
    "GradientDescent": "SGD",
    "RMSProp": "RMSprop",
    "Adagrad": "Adagrad",
    "Adadelta": "Adadelta",
    "Ftrl": "Ftrl",
}

_SAME_STATE = {
    "adamw": "Adam",
    "gradientdescent": "SGD",
    "momentum": "SGD",
    "nonfusedadam": "Adam",
    **{name.lower(): name for name in SLOTS},
}


def state_of(algorithm: str | None) -> str | None:
    """Return the entry of `SLOTS` whose state an optimizer has, by its class name in any family; None if there is none.

    AdamW, for example, has the state of Adam.
    """
    return _SAME_STATE.get((algorithm or "").removesuffix("Optimizer").lower())


def slot_called(algorithm: str | None, family: Family, name: str) -> str:
    """Return mpls' name for a slot of a record; an unknown name is returned without leading underscores."""
    plain = name.lstrip("_")
    for slot in (*SLOTS.get(algorithm or "", ()), *COMMON):
        if plain in slot.names(family):
            return slot.name
    return plain


def slot_names(algorithm: str, family: Family) -> dict[str, str]:
    """Return the names of an algorithm's slots in a family, by mpls' names."""
    slots = (*SLOTS[algorithm], *COMMON)
    return {slot.name: name for slot in slots if (name := getattr(slot, family)) is not None}


def v1_slots(optimizer: str, count: int) -> tuple[str, tuple[str, ...]]:
    """Return the class name in Keras of a v1 optimizer, and its slots in the order of their creation.

    Args:
        optimizer: its name, a key of `V1_OPTIMIZERS`.
        count: the number of slots that a variable has, which tells a centered RMSProp.
    """
    algorithm = V1_OPTIMIZERS[optimizer]
    if algorithm == "RMSprop" and count == 3:
        return algorithm, ("rms", "mg", "momentum")
    if optimizer == "GradientDescent":
        return algorithm, ()
    return algorithm, tuple(slot.v1 for slot in SLOTS[algorithm] if slot.v1 is not None and slot.name != "mg")


def expected_slots(algorithm: str, family: Family, config: Mapping[str, Any]) -> set[str]:
    """Return the slots that an optimizer of a family creates with these settings, by mpls' names."""
    return {slot.name for slot in _created(algorithm, family, config)}


def layout(family: Family, algorithm: str | None, config: Mapping[str, Any]) -> list[tuple[str, ...]] | None:
    """Return the order in which an optimizer creates its slots; None if it is not known.

    Args:
        family: the optimizer's family.
        algorithm: its class name in Keras.
        config: its settings.

    Returns:
        Groups of slots, by the family's names. The optimizer creates the slots of the first group for one variable
        after another, then those of the second group, and so on.
    """
    if family == "v1":
        # Files hold slots of v1 optimizers by name.
        return None
    if family not in _AS_ADAM.get(algorithm or "", (family,)):
        return None
    algorithm = "Adam" if algorithm in _AS_ADAM else algorithm
    if algorithm is None or algorithm not in SLOTS or getattr(SLOTS[algorithm][0], family) is None:
        return None
    common: list[tuple[str, ...]] = []
    first: list[str] = []
    later: list[tuple[str, ...]] = []
    for slot in _created(algorithm, family, config):
        name = getattr(slot, family)
        if slot in COMMON:
            common.append((name,))
        elif _setting_of(slot, algorithm, family) is not None or (family == "legacy" and algorithm != "Ftrl"):
            later.append((name,))
        else:
            first.append(name)
    return [*common, *([tuple(first)] if first else []), *later]


_SETTINGS = {"vhat": "amsgrad", "mg": "centered", AVERAGE: "use_ema", ACCUMULATOR: "gradient_accumulation_steps"}


def _created(algorithm: str, family: Family, config: Mapping[str, Any]) -> list[Slot]:
    found = []
    for slot in (*COMMON, *SLOTS[algorithm]):
        setting = _setting_of(slot, algorithm, family)
        if getattr(slot, family) is not None and (setting is None or config.get(setting)):
            found.append(slot)
    return found


def _setting_of(slot: Slot, algorithm: str, family: Family) -> str | None:
    """Return the setting that makes an optimizer create a slot; None if it creates the slot with any settings."""
    # A new SGD creates the slot even if its momentum is 0.
    if slot.name == "momentum":
        return "momentum" if (algorithm, family) != ("SGD", "new") else None
    return _SETTINGS.get(slot.name)


def unused_slots(algorithm: str | None, config: Mapping[str, Any]) -> set[str]:
    """Return the slots, by mpls' names, that do not affect training with these settings."""
    if algorithm in ("SGD", "RMSprop") and config.get("momentum") in (0, 0.0):
        return {"momentum"}
    return set()
