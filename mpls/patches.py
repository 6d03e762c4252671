"""Classes that replace an attribute of a class or module of another package, and restore it.

Other code may have replaced the same attribute since. The other replacement stays; ours below it then only calls the
original.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

__all__ = ["ABSENT", "Layer", "Target", "WhileNeeded"]

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


class WhileNeeded:
    """Replacements that stay while any object that needs them is alive.

    Objects are made and dropped in any thread; garbage is collected in any thread too, and at any moment, also while
    that thread holds the lock: a finalizer only adds to the queue; the thread that holds the lock processes it.

    Args:
        targets: returns the arguments of the layers; called each time, as modules may have been loaded since.
    """

    def __init__(self, targets: Callable[[], Iterable[Target]]) -> None:
        self._targets = targets
        self._layers: dict[tuple[Any, str], Layer] = {}
        self._lock = threading.Lock()
        self._worker: int | None = None
        self._changes: deque[tuple[int, int]] = deque()
        self._held: set[int] = set()
        self._count = 0
        self._round = 0

    def hold_for(self, owner: Any) -> None:
        """Keep the replacements until this object, and all others that were passed here, are freed."""
        if id(owner) not in self._held:
            self._held.add(id(owner))
            self._changes.append((self._round, 1))
            weakref.finalize(owner, self._let_go, id(owner), self._round).atexit = False
        if self._worker != threading.get_ident():
            with self._lock:
                self._work(may_import=True)
        self._see_to_the_rest(may_import=True)

    def undo(self) -> None:
        """Restore the originals, whatever objects live; the next call of `hold_for` installs the replacements again."""
        with self._lock:
            self._round += 1
            self._held.clear()
            self._count = 0
            self._take_away()
        self._see_to_the_rest(may_import=False)

    def _let_go(self, owner: int, of_round: int) -> None:
        if of_round == self._round:
            self._held.discard(owner)
            self._changes.append((of_round, -1))
        self._see_to_the_rest(may_import=False)

    def _see_to_the_rest(self, *, may_import: bool) -> None:
        while self._changes and self._worker != threading.get_ident():
            if not self._lock.acquire(blocking=False):
                # The thread that holds the lock processes the queue next.
                return
            try:
                self._work(may_import=may_import)
            finally:
                self._lock.release()

    def _work(self, *, may_import: bool) -> None:
        self._worker = threading.get_ident()
        try:
            while self._changes:
                of_round, change = self._changes.popleft()
                self._count += change if of_round == self._round else 0
            if not self._count:
                self._take_away()
            elif may_import:
                # Targets are imported, which a finalizer must not do: garbage is collected at any moment, and up to
                # Python 3.11 an import within another one of the same thread breaks it.
                self._put()
        finally:
            self._worker = None

    def _put(self) -> None:
        for layer in self._layers.values():
            layer.put_again()
        for owner, name, make in self._targets():
            if (owner, name) not in self._layers:
                self._layers[owner, name] = Layer(owner, name, make)

    def _take_away(self) -> None:
        while self._layers:
            self._layers.popitem()[1].take_away()
