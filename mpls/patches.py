"""Classes that replace an attribute of a class or module of another package, and restore it.

Other code may have replaced the same attribute since. The other replacement stays; ours below it then only calls the
original.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

__all__ = ["ABSENT", "Layer", "Replacements", "Target"]

ABSENT: Any = type("Absent", (), {"__repr__": lambda _: "ABSENT"})()
_LAYER = "_mpls_layer"


class Layer:
    """A replacement of an attribute of a class or module.

    Args:
        owner: a class or module.
        name: the attribute.
        make: gets this layer, and returns the replacement, which reads `is_on`, and calls `original`.
    """

    def __init__(self, owner: Any, name: str, make: Callable[[Layer], Any]) -> None:
        self._owner = owner
        self._name = name
        self.is_on: bool = True
        # What the attribute was, ABSENT if there was none.
        self.original: Any = _beneath_ours(self._current())
        self._ours = make(self)
        vars(self._ours)[_LAYER] = self
        self._set(self._ours)

    def put_again(self) -> None:
        """Install the replacement again if other code has restored the original."""
        if self._current() is self.original:
            self._set(self._ours)

    def take_away(self) -> None:
        """Restore the original; a later replacement by other code stays, and ours below it only calls the original."""
        self.is_on = False
        if self._current() is self._ours:
            # The original may be a replacement of mpls that was taken away before this one.
            self._set(_beneath_ours(self.original))

    def _current(self) -> Any:
        return vars(self._owner).get(self._name, ABSENT)

    def _set(self, value: Any) -> None:
        if isinstance(self._owner, ModuleType):
            # Past the __setattr__ of modules that TensorFlow wraps.
            if value is ABSENT:
                del vars(self._owner)[self._name]
            else:
                vars(self._owner)[self._name] = value
        elif value is ABSENT:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, value)


def _beneath_ours(value: Any) -> Any:
    """Return the value below replacements of mpls that are switched off, which other code may have restored."""
    while True:
        layer = getattr(value, "__dict__", {}).get(_LAYER)
        # `functools.wraps` copies this attribute to other functions.
        if layer is None or layer._ours is not value or layer.is_on:
            return value
        value = layer.original


Target = tuple[Any, str, Callable[[Layer], Any]]


class Replacements:
    """Replacements that are made when they are first needed, and stay; each looks for objects of mpls when it runs.

    Args:
        targets: returns the arguments of the layers; called each time, as modules may have been loaded since.
    """

    def __init__(self, targets: Callable[[], Iterable[Target]]) -> None:
        self._targets = targets
        self._layers: dict[tuple[Any, str], Layer] = {}
        # Importing the owners may make an object that needs the replacements too.
        self._lock = threading.RLock()

    def put(self) -> None:
        """Make the replacements that are not there."""
        with self._lock:
            for layer in self._layers.values():
                layer.put_again()
            for owner, name, make in self._targets():
                if (owner, name) not in self._layers:
                    self._layers[owner, name] = Layer(owner, name, make)

    def take_away(self) -> None:
        """Restore the originals; the next call of `put` makes the replacements again."""
        with self._lock:
            while self._layers:
                self._layers.popitem()[1].take_away()
