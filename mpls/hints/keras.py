"""Causes that lie in the generation of Keras."""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType
from typing import Any

from mpls.hints.failures import Failure
from mpls.hints.mentions import mentions
from mpls.tracebacks import frames_of

__all__ = [
    "needs_keras_2",
    "needs_legacy_optimizers",
    "needs_legacy_optimizers_of_keras_2",
    "saves_to_a_folder",
    "scales_with_class_of_keras_3",
    "scales_with_wrapper_of_compile",
]

_SCALING = ("get_scaled_loss", "get_unscaled_gradients")
# What optimizers of TF 2.10 had, and neither those of Keras 3 nor the new ones of tf_keras.
_OF_LEGACY_OPTIMIZERS = {
    *("_decayed_lr", "_get_hyper", "_set_hyper", "_serialize_hyperparameter", "_create_slots", "_create_all_weights"),
    *("_create_hypers", "_prepare_local", "_resource_apply_dense", "_resource_scatter_add", "_fallback_apply_state"),
    *("add_slot", "get_slot", "get_slot_names", "get_updates", "get_gradients", "get_weights", "set_weights"),
}
# How Keras 3 refuses a path, in `save`, `save_weights` and `ModelCheckpoint`.
_REFUSED_PATHS = (
    "Invalid filepath extension for saving.",
    "The filename must end in `.weights.h5`.",
    "the filepath provided must end in `.weights.h5`",
    "The filepath provided must end in `.keras`",
)
# How Keras 3 is called, where the same in Keras 2 is the rest of the path.
_KERAS_3 = ("keras._tf_keras.keras", "keras.api", "keras", "tensorflow.keras")


def _is_wrapper_of_keras_3(value: Any) -> bool:
    homes = {each.__module__.partition(".")[0] for each in type(value).__mro__ if each.__name__ == "LossScaleOptimizer"}
    return homes == {"keras"}


def _scales_with_keras_3(failure: Failure) -> bool:
    holder, name = failure.missing
    return name in _SCALING and _is_wrapper_of_keras_3(holder)


def _names_the_class(failure: Failure, where_unknown: bool) -> bool:
    return mentions(failure, ["LossScaleOptimizer"], where_unknown=where_unknown)


def scales_with_class_of_keras_3(failure: Failure) -> bool:
    """Return whether the program has wrapped an optimizer by the class of Keras 3, and calls it as that of Keras 2."""
    # One that `compile` has made comes from Keras itself, whatever the names mean.
    is_replaced = bool(failure.settings.get("replace_existing"))
    return not is_replaced and _scales_with_keras_3(failure) and _names_the_class(failure, where_unknown=False)


def scales_with_wrapper_of_compile(failure: Failure) -> bool:
    """Return whether Keras 3 has wrapped an optimizer by itself, and the program calls it as that of Keras 2."""
    is_by_compile = _scales_with_keras_3(failure) and not _names_the_class(failure, where_unknown=True)
    return _has_no_keras_2(failure) and is_by_compile


def needs_legacy_optimizers(failure: Failure) -> bool:
    """Return whether the program needs what optimizers had up to TF 2.10, on Keras 3."""
    return _has_no_keras_2(failure) and _lacks_of_legacy(failure, "keras")


def needs_legacy_optimizers_of_keras_2(failure: Failure) -> bool:
    """Return whether the program needs what optimizers had up to TF 2.10, on Keras 2."""
    return not failure.settings.get("legacy_optimizers") and _lacks_of_legacy(failure, "tf_keras")


def _lacks_of_legacy(failure: Failure, package: str) -> bool:
    holder, name = failure.missing
    homes = {each.__module__.partition(".")[0] for each in type(holder).__mro__ if each.__name__ == "Optimizer"}
    return name in _OF_LEGACY_OPTIMIZERS and package in homes


def needs_keras_2(failure: Failure) -> bool:
    """Return whether Keras 2 has what Keras 3 lacks, or refuses."""
    if not _has_no_keras_2(failure):
        return False
    return _is_refused_by_keras_3(failure.error) or any(map(_is_in_keras_2, _paths(failure)))


def saves_to_a_folder(failure: Failure) -> bool:
    """Return whether Keras 3 refuses a path to save to that has no extension, as those of folders have none."""
    text = str(failure.error)
    is_refused = _is_by_keras_3(failure.error) and any(each in text for each in _REFUSED_PATHS)
    path = text.rpartition("filepath=")[2].removesuffix(".")
    return _has_no_keras_2(failure) and is_refused and not os.path.splitext(path)[1]


def _has_no_keras_2(failure: Failure) -> bool:
    return failure.settings.get("keras") != 2


def _is_refused_by_keras_3(error: BaseException) -> bool:
    if not _is_by_keras_3(error):
        return False
    text = str(error)
    is_lr = isinstance(error, ValueError) and text.startswith("Argument(s) not recognized: {'lr':")
    return is_lr or "is not available with Keras 3." in text or "is not supported in Keras 3." in text


def _is_by_keras_3(error: BaseException) -> bool:
    last = frames_of(error.__traceback__)[-1].tb_frame.f_globals.get("__name__", "").partition(".")[0]
    return last in ("keras", "tensorflow")


def _paths(failure: Failure) -> list[str]:
    """Return the dotted names of what is missing in Keras 3."""
    holder, attribute = failure.missing
    if isinstance(holder, ModuleType):
        return [f"{holder.__name__}.{attribute}"]
    return [f"tensorflow{path.removeprefix('tf')}" for path in failure.missing_paths]


def _is_in_keras_2(path: str) -> bool:
    prefix = next((each for each in _KERAS_3 if path.startswith(f"{each}.")), None)
    if prefix is None:
        return False
    value: Any = import_module("tf_keras")
    for part in path[len(prefix) + 1 :].split("."):
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True
