"""The algorithms of optimizers: what each family calls them and their slots, and in which order it creates those."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mpls.formats.record import Family

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

# Beside the algorithms above, those that files may name.
ALGORITHMS = (*SLOTS, "AdamW", "Adafactor", "Lamb", "Muon")
_BY_LOWER_CASE = {name.lower(): name for name in ALGORITHMS}
# Those with the slots of Adam, in the families that have them.
_AS_ADAM: dict[str, tuple[Family, ...]] = {"AdamW": ("new", "keras3"), "Lamb": ("keras3",)}

# The names of TensorFlow's v1 optimizers, which their slots have in checkpoints, and the classes of Keras.
V1_OPTIMIZERS = {
    "Adam": "Adam",
    "Momentum": "SGD",
    "GradientDescent": "SGD",
    "RMSProp": "RMSprop",
    "Adagrad": "Adagrad",
    "Adadelta": "Adadelta",
    "Ftrl": "Ftrl",
}

# The slots of new optimizers begin the names of their variables, those of Keras 3 end them; r and c are Adafactor's.
_EVERY_SLOT = [slot for slots in (*SLOTS.values(), COMMON) for slot in slots]
_NEW_WORDS = {slot.new for slot in _EVERY_SLOT if slot.new is not None} | {"r", "c"}
# The longer first, as some end with others.
_KERAS_3_WORDS = sorted({slot.keras3 for slot in _EVERY_SLOT if slot.keras3 is not None}, key=len, reverse=True)

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


def keras_release(version: object) -> str:
    """Return which Keras a file comes from that holds this version: from 2.16 on, those before 3 are tf_keras."""
    if not isinstance(version, str) or not version:
        return "Keras"
    numbers = version.split(".")
    is_tf_keras = numbers[0] == "2" and numbers[1:] and numbers[1].isdecimal() and int(numbers[1]) >= 16
    return f"{'tf_keras' if is_tf_keras else 'Keras'} {version}"


def algorithm_named(name: str | None) -> str | None:
    """Return the Keras class that a name stands for, as `'Adam'` for `'adam_1'` and `'Custom>Adam'`; or None."""
    if name is None:
        return None
    base = name.rpartition(">")[2]
    head, _, number = base.rpartition("_")
    if number.isdecimal():
        base = head
    # Keras 3 calls AdamW adam_w.
    return _BY_LOWER_CASE.get(base.lower().replace("_", ""))


def algorithm_of_legacy(hyperparameters: Iterable[str], slots: Iterable[str], others: Iterable[str]) -> str | None:
    """Return which legacy optimizer has this state, if it is only one."""
    has, kinds = set(hyperparameters), set(slots)
    if "momentum_cache" in others:
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
    """Return which new or Keras 3 optimizer has these attributes, if it is only one, AdamW counting as Adam."""
    has = {name.lstrip("_") for name in names}
    if "u_product" in has:
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
    """Split a slot variable's name, as `'Adam/m/dense/kernel'` or `'adam/dense_kernel_momentum'`.

    Returns:
        `(slot, variable)`; in Keras 3 the slashes of the variable's name are underscores. `(None, None)` if the name
        tells nothing.
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


def v1_slots(optimizer: str, count: int) -> tuple[str, tuple[str, ...]]:
    """Return the class of Keras that a v1 optimizer is, and its slots in the order of their creation.

    Args:
        optimizer: its name, one of `V1_OPTIMIZERS`.
        count: how many slots a variable has.
    """
    algorithm = V1_OPTIMIZERS[optimizer]
    if algorithm == "RMSprop" and count == 3:
        return algorithm, ("rms", "mg", "momentum")
    if optimizer == "GradientDescent":
        return algorithm, ()
    return algorithm, tuple(slot.v1 for slot in SLOTS[algorithm] if slot.v1 is not None and slot.name != "mg")


def expected_slots(algorithm: str, family: Family, config: Mapping[str, Any]) -> set[str]:
    """Return the slots that an optimizer of a family creates with these settings, by the names here."""
    return {slot.name for slot in _created(algorithm, family, config)}


def layout(family: Family, algorithm: str | None, config: Mapping[str, Any]) -> list[tuple[str, ...]] | None:
    """Return in which order an optimizer without names creates its slots, or None if that is not known.

    Args:
        family: its family.
        algorithm: its class name.
        config: its settings.

    Returns:
        Groups of slots by the names of the family: one of each for each variable, then the next group.
    """
    if family == "v1":
        # Its slots have names.
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
    """Return the setting with which an optimizer creates a slot; None if it always does."""
    # A new SGD has the slot whether it uses it or not.
    if slot.name == "momentum":
        return "momentum" if (algorithm, family) != ("SGD", "new") else None
    return _SETTINGS.get(slot.name)


def unused_slots(algorithm: str | None, config: Mapping[str, Any]) -> set[str]:
    """Return the slots that have no effect with these settings."""
    if algorithm in ("SGD", "RMSprop") and config.get("momentum") in (0, 0.0):
        return {"momentum"}
    return set()
