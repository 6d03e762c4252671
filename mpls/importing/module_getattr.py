"""Serves attributes that a module lacks; for others, Python raises its own error, without a frame of mpls."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from mpls.patches import ABSENT, Layer

# Returns the value of an attribute; ABSENT if this reader gets none.
Serve = Callable[[], Any]
# Python itself reads these attributes in the module's dictionary.
_FOR_PYTHON = ("__getattr__", "__name__", "__spec__")
_OURS = ("__dir__", "__getattr__")


def server(module: ModuleType, served: Mapping[str, Serve]) -> Callable[[Layer], Any]:
    """Return a factory of a module's `__getattr__`, which serves attributes that the module lacks.

    It runs no Python code for other attributes: their AttributeError has the same text and traceback as without a
    `__getattr__`. If the module had a `__getattr__` before, that one is asked for them.

    Args:
        module: the module.
        served: the functions that return the values, by attribute.
    """

    def make(layer: Layer) -> Any:
        members = dict.fromkeys(_FOR_PYTHON, property(_decline))
        members |= {attribute: property(_reader(layer, serve)) for attribute, serve in served.items()}
        # Reads of a module's attributes are C code, which goes on to its own error if a property raises AttributeError.
        stand_in = type("module", (ModuleType,), members)("")
        vars(stand_in).clear()
        vars(stand_in).update({key: vars(module)[key] for key in ("__name__", "__spec__") if key in vars(module)})
        if layer.original is not ABSENT:
            vars(stand_in)["__getattr__"] = layer.original
        return functools.partial(ModuleType.__getattribute__, stand_in)

    return make


def _reader(layer: Layer, serve: Serve) -> Callable[[Any], Any]:
    def read(_: Any) -> Any:
        found = serve() if layer.is_on else ABSENT
        return _decline() if found is ABSENT else found

    return read


def _decline(_: Any = None) -> Any:
    raise AttributeError


def lister(module: ModuleType, listed: list[str]) -> Callable[[Layer], Any]:
    """Return a factory of a module's `__dir__`, which also lists attributes that are served.

    Args:
        module: the module.
        listed: the served attributes to list.
    """

    def make(layer: Layer) -> Any:
        def names() -> list[str]:
            is_first = layer.original is ABSENT
            there = [key for key in vars(module) if key not in _OURS] if is_first else list(layer.original())
            return sorted({*there, *listed} if layer.is_on else there)

        return names

    return make
