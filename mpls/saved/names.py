"""What the families call optimizers, their slots and the lists that hold those."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mpls.saved.record import Family

ALGORITHMS = (
    "SGD",
    "Adam",
    "AdamW",
    "Adamax",
    "Nadam",
    "RMSprop",
    "Adagrad",
    "Adadelta",
    "Ftrl",
    "Lion",
    "Adafactor",
    "Lamb",
    "Muon",
)
_BY_LOWER_CASE = {name.lower(): name for name in ALGORITHMS}

# The names of TensorFlow's v1 optimizers, which their slots have in checkpoints, the classes of Keras, and the names
# of the slots in the order in which they are created.
V1_OPTIMIZERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Adam": ("Adam", ("m", "v")),
    "Momentum": ("SGD", ("momentum",)),
    "GradientDescent": ("SGD", ()),
    "RMSProp": ("RMSprop", ("rms", "momentum")),
    "Adagrad": ("Adagrad", ("accumulator",)),
    "Adadelta": ("Adadelta", ("accum", "accum_update")),
    "Ftrl": ("Ftrl", ("accum", "linear")),
}
CENTERED_RMSPROP_SLOTS = ("rms", "mg", "momentum")

# The slots of new optimizers begin the names of their variables, those of Keras 3 end them.
_SLOT_WORDS: dict[Family, tuple[str, ...]] = {
    "new": (
        "m",
        "v",
        "vhat",
        "u",
        "velocity",
        "momentum",
        "average_gradient",
        "accumulator",
        "linear",
        "accumulated_grad",
        "accumulated_delta_var",
        "average",
        "r",
        "c",
    ),
    "keras3": (
        "velocity_hat",
        "average_gradient",
        "accumulated_grad",
        "accumulated_delta_var",
        "gradient_accumulator",
        "momentum",
        "velocity",
        "norm",
        "accumulator",
        "linear",
        "average",
    ),
}

# How the variables of an optimizer without names follow each other: per group, for each weight one of each.
_LAYOUTS: dict[Family, dict[str, tuple[tuple[str, ...], ...]]] = {
    "legacy": {
        "SGD": (),
        "Adam": (("m",), ("v",)),
        "Adamax": (("m",), ("v",)),
        "Nadam": (("m",), ("v",)),
        "RMSprop": (("rms",),),
        "Adagrad": (("accumulator",),),
        "Adadelta": (("accum_grad",), ("accum_var",)),
        "Ftrl": (("accumulator", "linear"),),
    },
    "new": {
        "SGD": (("m",),),
        "Lion": (("m",),),
        "Adam": (("m", "v"),),
        "AdamW": (("m", "v"),),
        "Nadam": (("m", "v"),),
        "Adamax": (("m", "u"),),
        "RMSprop": (("velocity",),),
        "Adagrad": (("accumulator",),),
        "Adadelta": (("accumulated_grad", "accumulated_delta_var"),),
        "Ftrl": (("accumulator", "linear"),),
    },
    "keras3": {
        "SGD": (),
        "Lion": (("momentum",),),
        "Adam": (("momentum", "velocity"),),
        "AdamW": (("momentum", "velocity"),),
        "Lamb": (("momentum", "velocity"),),
        "Nadam": (("momentum", "velocity"),),
        "Adamax": (("momentum", "norm"),),
        "RMSprop": (("velocity",),),
        "Adagrad": (("accumulator",),),
        "Adadelta": (("accumulated_grad", "accumulated_delta_var"),),
        "Ftrl": (("accumulator", "linear"),),
    },
}


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
        for word in _SLOT_WORDS[family]:
            if parts[-1].endswith(f"_{word}"):
                return word, parts[-1].removesuffix(f"_{word}")
        return None, None
    for position, part in enumerate(parts[:-1]):
        if part in _SLOT_WORDS["new"]:
            return part, "/".join(parts[position + 1 :])
    return None, None


def layout(family: Family, algorithm: str | None, config: Mapping[str, Any]) -> list[tuple[str, ...]] | None:
    """Return in which order an optimizer creates its slots, or None if that is not known."""
    known = _LAYOUTS.get(family, {}).get(algorithm or "")
    if known is None:
        return None
    groups = list(known)
    if config.get("use_ema"):
        groups.insert(0, ("average",))
    if config.get("gradient_accumulation_steps"):
        groups.insert(1 if config.get("use_ema") else 0, ("gradient_accumulator",))
    if algorithm in ("Adam", "AdamW") and config.get("amsgrad"):
        groups.append(("velocity_hat",) if family == "keras3" else ("vhat",))
    # A new SGD has the slot whether it uses it or not.
    if config.get("momentum") and (algorithm == "RMSprop" or (algorithm == "SGD" and family != "new")):
        groups.append(("momentum",))
    if algorithm == "RMSprop" and config.get("centered"):
        groups.append(("mg",) if family == "legacy" else ("average_gradient",))
    return groups
