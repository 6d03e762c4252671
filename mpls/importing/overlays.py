"""Answers to the reads of attributes that a module has, which leave the module's dictionary alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from mpls.upstream import table
from mpls.upstream.modules import is_wrapped

__all__ = ["Answer", "Overlay", "by_name"]

# Gets what the module has, and returns what the reader gets.
Answer = Callable[[Any], Any]
# Past the __setattr__ of modules that TensorFlow wraps.
_class = vars(object)["__class__"]
# Methods of modules that TensorFlow wraps; they keep their methods, too.
_OVERLAY = "_mpls_overlay"
_KEEPERS = (table.KEEP.name, table.DROP.name)


class Overlay:
    """A class that a module gets, derived from its own, with a property for each attribute that is answered.

    Reads of others, and of those that the module lacks, run no code of mpls. The functions of the module read their
    globals in its dictionary, where nothing changes.

    Args:
        module: the module.
        answers: by attribute.
    """

    def __init__(self, module: ModuleType, answers: Mapping[str, Answer]) -> None:
        self._module = module
        self._before = _beneath_ours(type(module))
        self.is_on = True
        self._ours = _answering(self, self._before, answers)
        _class.__set__(module, self._ours)
        if is_wrapped(self._before):
            _forget(module, self._before, (*answers, *_KEEPERS))

    def take_away(self) -> None:
        """Give the module its class back; where it has got another one by now, ours beneath passes on."""
        self.is_on = False
        if type(self._module) is self._ours:
            _class.__set__(self._module, _beneath_ours(self._before))


def _beneath_ours(cls: type[Any]) -> type[Any]:
    """Return the class beneath classes of overlays that do nothing any more."""
    while _OVERLAY in vars(cls) and not vars(cls)[_OVERLAY].is_on:
        cls = vars(cls)[_OVERLAY]._before
    return cls


def _answering(overlay: Overlay, base: type[Any], answers: Mapping[str, Answer]) -> type:
    attributes: dict[str, Any] = {name: _property(overlay, name, answer) for name, answer in answers.items()}
    attributes |= {"__module__": base.__module__, _OVERLAY: overlay}
    if base is ModuleType:
        # What pickles functions with the modules that they use knows modules by their very class.
        attributes["__reduce__"] = by_name
    if is_wrapped(base):
        attributes |= _forgetful(base, answers)
    return type(base.__name__, (base,), attributes)


def _property(overlay: Overlay, name: str, answer: Answer) -> property:
    def read(module: ModuleType) -> Any:
        if name not in vars(module):
            # Python goes on to the module's `__getattr__`, and to its own error.
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
    """Return the methods by which such a module keeps what is read and set, but for what depends on the reader."""

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
    # What it keeps is found by the very object that Python has for a name.
    for name in map(sys.intern, names):
        if table.KEEPS.needed_of(base)(module, name):
            table.DROP.needed_of(base)(module, name)


def by_name(module: ModuleType) -> tuple[Callable[[str], ModuleType], tuple[str]]:
    """Return what pickles a module: it is imported where it arrives."""
    return import_module, (module.__name__,)
