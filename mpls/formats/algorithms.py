"""The algorithms of optimizers and their state: the names of slots in each family, and the order of their creation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mpls.formats.families import Family

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


def beta_of_power(name: str) -> str | None:
    """Return the setting that a variable of v1's Adam is a power of, by its name, as `'beta1_power_1'`; or None."""
    return BETA_POWERS.get(_without_number(name.rpartition("/")[2]))


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


# The attributes that tell the algorithm of a new or Keras 3 optimizer, the first of these that it has. An AdamW cannot
# be told from an Adam.
_SIGNS_OF_LISTS = (
    ({MOMENTUM_PRODUCTS["new"].lstrip("_")}, "Nadam"),
    ({"m", "u"}, "Adamax"),
    ({"r", "c", "v"}, "Adafactor"),
    ({"accumulated_delta_vars"}, "Adadelta"),
    ({"accumulators", "linears"}, "Ftrl"),
    ({"accumulators"}, "Adagrad"),
    ({"velocities", "average_gradients"}, "RMSprop"),
    ({"velocities"}, "Adam"),
    ({"momentums"}, "SGD"),
)


def algorithm_of_lists(names: Iterable[str]) -> str | None:
    """Return the class name of a new or Keras 3 optimizer by its attributes; None if no class fits, or several."""
    has = {name.lstrip("_") for name in names}
    return next((algorithm for signs, algorithm in _SIGNS_OF_LISTS if signs <= has), None)


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
