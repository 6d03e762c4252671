"""Answers to the reads of attributes that a module has, which leave the module's dictionary alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["Answer", "Overlay", "by_name"]

# Gets what the module has, and returns what the reader gets.
Answer = Callable[[Any], Any]
# Past the __setattr__ of modules that TensorFlow wraps.
_class = vars(object)["__class__"]


class Overlay:
    """A class that a module gets, derived from its own, whose reads are answered.

    The functions of the module read their globals in its dictionary, where nothing changes.

    Args:
        module: the module.
        answers: by attribute; other attributes, and those that the module lacks, are read as ever.
    """

    def __init__(self, module: ModuleType, answers: Mapping[str, Answer]) -> None:
        self._module = module
        self._before = type(module)
        self.is_on = True
        self._ours = _answering(self, self._before, answers)
        _class.__set__(module, self._ours)

    def take_away(self) -> None:
        """Give the module its class back; where it has got another one by now, ours beneath passes on."""
        self.is_on = False
        if type(self._module) is self._ours:
            _class.__set__(self._module, self._before)


def _answering(overlay: Overlay, base: type[Any], answers: Mapping[str, Answer]) -> type:
    own_read: Any = base.__getattribute__

    def read(self: ModuleType, name: str) -> Any:
        value = own_read(self, name)
        answer = answers.get(name)
        return value if answer is None or not overlay.is_on else answer(value)

    attributes = {"__getattribute__": read, "__module__": base.__module__}
    if base is ModuleType:
        # What pickles functions with the modules that they use knows modules by their very class.
        attributes["__reduce__"] = by_name
    return type(base.__name__, (base,), attributes)


def by_name(module: ModuleType) -> tuple[Callable[[str], ModuleType], tuple[str]]:
    """Return what pickles a module: it is imported where it arrives."""
    return import_module, (module.__name__,)
