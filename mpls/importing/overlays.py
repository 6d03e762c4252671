"""Answers to the reads of attributes that a module has, which leave the module's dictionary alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["Answer", "Overlay", "by_name"]

# Gets what the module has, and returns what the reader gets.
Answer = Callable[[Any], Any]
# Past the __setattr__ of modules that TensorFlow wraps.
_class = vars(object)["__class__"]
# Methods of modules that TensorFlow wraps; they keep their methods, too.
_KEEPERS = ("_fastdict_insert", "_fastdict_pop")


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
        self._before = type(module)
        self.is_on = True
        self._ours = _answering(self, self._before, answers)
        _class.__set__(module, self._ours)
        if _remembers(self._before):
            _forget(module, self._before, (*answers, *_KEEPERS))

    def take_away(self) -> None:
        """Give the module its class back; where it has got another one by now, ours beneath passes on."""
        self.is_on = False
        if type(self._module) is self._ours:
            _class.__set__(self._module, self._before)


def _answering(overlay: Overlay, base: type[Any], answers: Mapping[str, Answer]) -> type:
    attributes: dict[str, Any] = {name: _property(overlay, name, answer) for name, answer in answers.items()}
    attributes["__module__"] = base.__module__
    if base is ModuleType:
        # What pickles functions with the modules that they use knows modules by their very class.
        attributes["__reduce__"] = by_name
    if _remembers(base):
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


def _remembers(base: type[Any]) -> bool:
    """Return whether modules of a class, which are those that TensorFlow wraps, keep what was read once."""
    return all(hasattr(base, name) for name in (*_KEEPERS, "_fastdict_key_in"))


def _forgetful(base: type[Any], answers: Mapping[str, Answer]) -> dict[str, Any]:
    """Return the methods by which such a module keeps what is read and set, but for what depends on the reader."""

    def insert(self: ModuleType, name: str, value: Any) -> None:
        if name not in answers and name not in _KEEPERS:
            base._fastdict_insert(self, name, value)

    def pop(self: ModuleType, name: str) -> None:
        if name not in answers:
            base._fastdict_pop(self, name)

    own_write: Any = base.__setattr__

    def write(self: ModuleType, name: str, value: Any) -> None:
        own_write(self, name, value)
        if name in answers:
            _forget(self, base, [name])

    return {"_fastdict_insert": insert, "_fastdict_pop": pop, "__setattr__": write}


def _forget(module: ModuleType, base: type[Any], names: Iterable[str]) -> None:
    # What it keeps is found by the very object that Python has for a name.
    for name in map(sys.intern, names):
        if base._fastdict_key_in(module, name):
            base._fastdict_pop(module, name)


def by_name(module: ModuleType) -> tuple[Callable[[str], ModuleType], tuple[str]]:
    """Return what pickles a module: it is imported where it arrives."""
    return import_module, (module.__name__,)
