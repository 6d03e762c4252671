"""The names that tell the algorithm of a saved optimizer: of classes, variables, slots and attributes."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mpls.formats.algorithms import COMMON, MOMENTUM_PRODUCTS, SLOTS, V1_OPTIMIZERS, v1_slots
from mpls.formats.families import Family

__all__ = [
    "ALGORITHMS",
    "algorithm_named",
    "algorithm_of_legacy",
    "algorithm_of_lists",
    "algorithm_of_v1",
    "slot_and_variable",
]

# The class names in Keras that files may hold.
ALGORITHMS = (*SLOTS, "AdamW", "Adafactor", "Lamb", "Muon")
_BY_LOWER_CASE = {name.lower(): name for name in ALGORITHMS}
# The v1 optimizers that have slots, by name and by the set of their slots' names.
_V1_BY_NAME = {name: algorithm for name, algorithm in V1_OPTIMIZERS.items() if v1_slots(name, 1)[1]}
_V1_BY_SLOTS = {
    frozenset(slots): algorithm
    for name in _V1_BY_NAME
    for algorithm, slots in (v1_slots(name, count) for count in (2, 3))
}

# In a slot variable's name, the slot comes before the variable's name in new optimizers, and after it in Keras 3.
# r and c are Adafactor's.
_EVERY_SLOT = [slot for slots in (*SLOTS.values(), COMMON) for slot in slots]
_NEW_WORDS = {slot.new for slot in _EVERY_SLOT if slot.new is not None} | {"r", "c"}
# The longer words first, since some end with others.
_KERAS_3_WORDS = sorted({slot.keras3 for slot in _EVERY_SLOT if slot.keras3 is not None}, key=len, reverse=True)


def algorithm_named(name: str | None) -> str | None:
    """Return the class name in Keras for the name of an optimizer or its class; None if it is not in `ALGORITHMS`.

    It is `'Adam'` for `'adam_1'` and `'Custom>Adam'`.
    """
    if name is None:
        return None
    # Keras 3 names an AdamW adam_w.
    return _BY_LOWER_CASE.get(_without_number(name.rpartition(">")[2]).lower().replace("_", ""))


def _without_number(name: str) -> str:
    """Return a name without the number that makes it unique, as `'Adam'` for `'Adam_1'`."""
    head, _, number = name.rpartition("_")
    return head if number.isdecimal() else name


def algorithm_of_v1(slot_variables: Iterable[str], slots: Collection[str]) -> str | None:
    """Return the class name in Keras of a v1 optimizer; None if it cannot be told.

    Args:
        slot_variables: the names of its slot variables, as `'dense/kernel/Adam_1'`; their last parts tell the optimizer
            if they agree.
        slots: the names of its slots, as `'m'`; they tell it otherwise.
    """
    found = {_V1_BY_NAME.get(_without_number(name.rpartition("/")[2])) for name in slot_variables}
    if len(found) == 1 and None not in found:
        return found.pop()
    return _V1_BY_SLOTS.get(frozenset(slots))


def algorithm_of_legacy(hyperparameters: Iterable[str], slots: Iterable[str], others: Iterable[str]) -> str | None:
    """Return the class name of a legacy optimizer by its state; None if no class fits, or several.

    Args:
        hyperparameters: the names of its settings that are saved as variables.
        slots: the names of its slots.
        others: the names of its other variables.
    """
    has, kinds = set(hyperparameters), set(slots)
    if MOMENTUM_PRODUCTS["legacy"] in others:
        return "Nadam"
    if "rho" in has:
        return "RMSprop" if "momentum" in has else "Adadelta"
    if "linear" in kinds:
        return "Ftrl"
    if "vhat" in kinds:
        return "Adam"
    if "momentum" in has:
        return "SGD"
    return "Adagrad" if "accumulator" in kinds else None


def algorithm_of_lists(names: Iterable[str]) -> str | None:
    """Return the class name of a new or Keras 3 optimizer by its attributes; None if no class fits, or several.

    An AdamW cannot be told from an Adam: the result is `'Adam'`.
    """
    has = {name.lstrip("_") for name in names}
    if MOMENTUM_PRODUCTS["new"].lstrip("_") in has:
        return "Nadam"
    if {"m", "u"} <= has:
        return "Adamax"
    if {"r", "c", "v"} <= has:
        return "Adafactor"
    if "accumulated_delta_vars" in has:
        return "Adadelta"
    if "accumulators" in has:
        return "Ftrl" if "linears" in has else "Adagrad"
    if "velocities" in has:
        return "RMSprop" if "average_gradients" in has else "Adam"
    return "SGD" if "momentums" in has else None


def slot_and_variable(family: Family, full_name: str) -> tuple[str | None, str | None]:
    """Split the name of a slot variable of a new or Keras 3 optimizer into the slot and the variable.

    Args:
        family: `'new'` or `'keras3'`.
        full_name: the name, as `'Adam/m/dense/kernel'` or, in Keras 3, `'adam/dense_kernel_momentum'`.

    Returns:
        `(slot, variable)`. In Keras 3, slashes in the variable's name are underscores. `(None, None)` if the name has
        another form.
    """
    parts = full_name.split("/")
    if family == "keras3":
        for word in _KERAS_3_WORDS:
            if parts[-1].endswith(f"_{word}"):
                return word, parts[-1].removesuffix(f"_{word}")
        return None, None
    for position, part in enumerate(parts[:-1]):
        if part in _NEW_WORDS:
            return part, "/".join(parts[position + 1 :])
    return None, None
