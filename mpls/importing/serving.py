"""What serves attributes that a module lacks; what it does not find, Python misses by itself, without a frame of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from mpls.patches import ABSENT, Layer

__all__ = ["Serve", "lister", "server"]

# Returns what is served; ABSENT for nothing, to this reader.
Serve = Callable[[], Any]
# Where Python itself looks for them, in a module's dictionary, is no answer to who reads them.
_FOR_PYTHON = ("__getattr__", "__name__", "__spec__")
_OURS = ("__dir__", "__getattr__")


def server(module: ModuleType, served: Mapping[str, Serve]) -> Callable[[Layer], Any]:
    """Return what makes the `__getattr__` of a module, which serves attributes that the module lacks.

    It runs no Python code for other attributes: their AttributeError is that of a module without a `__getattr__`, with
    the same text and traceback. For them, it asks the `__getattr__` that was there before, if there was one.

    Args:
        module: the module.
        served: by attribute.
    """

    def make(layer: Layer) -> Any:
        members = dict.fromkeys(_FOR_PYTHON, property(_decline))
        members |= {attribute: property(_reader(layer, serve)) for attribute, serve in served.items()}
        # The reads of a module's attributes are C code, which goes on where a property declines.
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
    """Return what makes the `__dir__` of a module, which lists attributes that the module serves, too.

    Args:
        module: the module.
        listed: the attributes.
    """

    def make(layer: Layer) -> Any:
        def names() -> list[str]:
            is_first = layer.original is ABSENT
            there = [key for key in vars(module) if key not in _OURS] if is_first else list(layer.original())
            return sorted({*there, *listed} if layer.is_on else there)

        return names

    return make
