"""Intercepts reads of attributes that a module has, without changing the module's dictionary."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from mpls.upstream import table
from mpls.upstream.modules import is_wrapped, set_class

# Called with the module's own value; returns the value that the reader gets.
Answer = Callable[[Any], Any]
# The cache methods of modules that TensorFlow wraps; the cache holds methods too.
_OVERLAY = "_mpls_overlay"
_KEEPERS = (table.KEEP.name, table.DROP.name)


class Overlay:
    """Gives a module a subclass of its own class, with a property for each intercepted attribute.

    Reads of other attributes run no code of mpls. The module's own functions read their globals from its dictionary,
    which does not change.

    Args:
        module: the module.
        answers: the answers by attribute.
    """

    def __init__(self, module: ModuleType, answers: Mapping[str, Answer]) -> None:
        self._module = module
        self._before = _beneath_ours(type(module))
        self.is_on = True
        self._ours = _answering(self, self._before, answers)
        set_class(module, self._ours)
        if is_wrapped(self._before):
            _forget(module, self._before, (*answers, *_KEEPERS))

    def take_away(self) -> None:
        """Restore the module's class; if others have changed it since, our class stays as a base and does nothing."""
        self.is_on = False
        if type(self._module) is self._ours:
            set_class(self._module, _beneath_ours(self._before))


def _beneath_ours(cls: type[Any]) -> type[Any]:
    """Return the first base class that is not one of an overlay that has been taken away."""
    while _OVERLAY in vars(cls) and not vars(cls)[_OVERLAY].is_on:
        cls = vars(cls)[_OVERLAY]._before
    return cls


def _answering(overlay: Overlay, base: type[Any], answers: Mapping[str, Answer]) -> type:
    attributes: dict[str, Any] = {name: _property(overlay, name, answer) for name, answer in answers.items()}
    attributes |= {"__module__": base.__module__, _OVERLAY: overlay}
    if base is ModuleType:
        # cloudpickle and the like handle only modules whose class is exactly ModuleType.
        attributes["__reduce__"] = by_name
    if is_wrapped(base):
        attributes |= _forgetful(base, answers)
    return type(base.__name__, (base,), attributes)


def _property(overlay: Overlay, name: str, answer: Answer) -> property:
    def read(module: ModuleType) -> Any:
        if name not in vars(module):
            # Python then calls the module's `__getattr__`, or raises its own error.
            raise AttributeError
        value = vars(module)[name]
        return answer(value) if overlay.is_on else value

    def write(module: ModuleType, value: Any) -> None:
        vars(module)[name] = value

    def remove(module: ModuleType) -> None:
        if name not in vars(module):
            raise AttributeError(f"'module' object has no attribute {name!r}")
        del vars(module)[name]

    return property(read, write, remove)


def _forgetful(base: type[Any], answers: Mapping[str, Answer]) -> dict[str, Any]:
    """Return cache methods for a module that TensorFlow wraps, which do not cache the intercepted attributes."""

    def insert(self: ModuleType, name: str, value: Any) -> None:
        if name not in answers and name not in _KEEPERS:
            table.KEEP.needed_of(base)(self, name, value)

    def pop(self: ModuleType, name: str) -> None:
        if name not in answers:
            table.DROP.needed_of(base)(self, name)

    own_write: Any = base.__setattr__

    def write(self: ModuleType, name: str, value: Any) -> None:
        own_write(self, name, value)
        if name in answers:
            _forget(self, base, [name])

    return {table.KEEP.name: insert, table.DROP.name: pop, "__setattr__": write}


def _forget(module: ModuleType, base: type[Any], names: Iterable[str]) -> None:
    # The cache finds names by identity, so they must be interned.
    for name in map(sys.intern, names):
        if table.KEEPS.needed_of(base)(module, name):
            table.DROP.needed_of(base)(module, name)


def by_name(module: ModuleType) -> tuple[Callable[[str], ModuleType], tuple[str]]:
    """Return the value of `__reduce__` for a module: it is pickled by name, and imported when unpickled."""
    return import_module, (module.__name__,)
