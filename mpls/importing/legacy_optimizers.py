"""Gives the user's own code the `tf.keras.optimizers` of TF 2.10 and earlier. Nothing here imports TensorFlow."""

from __future__ import annotations

import functools
from importlib import import_module
from types import ModuleType
from typing import Any

from mpls.formats.algorithms import LEGACY_CLASSES
from mpls.importing.namespaces import hosts
from mpls.importing.overlays import Answer, Overlay
from mpls.importing.user_code import users_line
from mpls.patches import Layer
from mpls.upstream.modules import is_lazily_loaded

_PATHS = {
    "tf_keras.optimizers",
    "tf.keras.optimizers",
    "tf.compat.v1.keras.optimizers",
    "tf.compat.v2.keras.optimizers",
}
# Functions that make an optimizer from a string or a config.
_MAKERS = ("deserialize", "get")
_CLASSES = (*LEGACY_CLASSES, "Optimizer")


def legacy_overlays(module: ModuleType) -> list[Overlay]:
    """Make a module's lazily loaded `optimizers` read its attributes from the module that it loads.

    The lazy module has a dictionary of its own, which would hide the answers.
    """
    loader = vars(module).get("optimizers")
    if not isinstance(loader, ModuleType) or is_lazily_loaded(loader) is None:
        return []

    def answer(attribute: str) -> Answer:
        return lambda _: getattr(import_module(vars(loader)["__name__"]), attribute)

    return [Overlay(loader, {key: answer(key) for key in (*_CLASSES, *_MAKERS)})]


def legacy_answers(name: str, module: ModuleType) -> dict[str, Answer]:
    """Return the answers by which the user's code gets legacy optimizers; none for other modules than `optimizers`.

    Args:
        name: the name of the module.
        module: the module.
    """
    if _PATHS.isdisjoint(hosts().get(name, ())) or not _is_of_keras_2(module):
        return {}
    legacy = vars(import_module("tf_keras.optimizers.legacy"))
    answers = {key: _answer(vars(module)[key], legacy[key]) for key in _CLASSES if key in vars(module)}
    return answers | {key: _answer(vars(module)[key], _maker(vars(module)[key])) for key in _MAKERS}


def _is_of_keras_2(module: ModuleType) -> bool:
    return str(getattr(vars(module).get("get"), "__module__", "")).startswith("tf_keras.")


def legacy_compile(name: str, module: ModuleType) -> list[Layer]:
    """Make `compile` of tf_keras take optimizer strings for legacy optimizers, if the user's code calls it."""
    return [Layer(module.Model, "compile", _compile)] if name == "tf_keras" else []


def _answer(native: Any, legacy: Any) -> Answer:
    # An object that others have set stays.
    return lambda value: legacy if value is native and users_line() is not None else value


def _maker(native: Any) -> Any:
    @functools.wraps(native)
    def make(*args: Any, **kwargs: Any) -> Any:
        return native(*args, **{"use_legacy_optimizer": True, **kwargs})

    return make


def _compile(layer: Layer) -> Any:
    original = layer.original

    @functools.wraps(original)
    def compile(self: Any, optimizer: Any = "rmsprop", *args: Any, **kwargs: Any) -> Any:  # noqa: A001
        if layer.is_on and isinstance(optimizer, str | dict) and users_line() is not None:
            get = import_module("tf_keras.optimizers").get
            with self.distribute_strategy.scope():
                optimizer = get(optimizer, use_legacy_optimizer=True)
        return original(self, optimizer, *args, **kwargs)

    return compile
