"""Modules seen when they are loaded, whoever finds them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["Finder", "call_off", "when_loaded"]


class Finder(MetaPathFinder):
    """Finds modules where the other finders do, and tells when they have been loaded.

    Args:
        names: the modules to look for; others are left to the other finders.
        on_loaded: gets each of them once it is loaded.
        find_own: returns a spec for one that the other finders are not to be asked for, else None.
        find_missing: returns a spec, or None, for one that no other finder finds.
    """

    def __init__(
        self,
        names: Callable[[], Container[str]],
        on_loaded: Callable[[ModuleType], None],
        find_own: Callable[[str], ModuleSpec | None] = lambda _: None,
        find_missing: Callable[[str], ModuleSpec | None] = lambda _: None,
    ) -> None:
        self._names = names
        self._on_loaded = on_loaded
        self._find_own = find_own
        self._find_missing = find_missing
        self._is_on = False
        self._asking = threading.local()

    def put(self) -> None:
        """Begin, before all other finders."""
        self._is_on = True
        sys.meta_path.insert(0, self)

    def take_away(self) -> None:
        """End, wherever it is by now; a finder that has taken it in goes on without."""
        self._is_on = False
        with suppress(ValueError):
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what the other finders find; its loader tells of the module."""
        # Another finder that asks all others asks this one too.
        if not self._is_on or fullname not in self._names() or getattr(self._asking, "name", None) == fullname:
            return None
        own = self._find_own(fullname)
        if own is not None:
            return own
        before, self._asking.name = getattr(self._asking, "name", None), fullname
        try:
            spec = self._find_elsewhere(fullname, path, target)
        finally:
            self._asking.name = before
        if spec is None:
            return self._find_missing(fullname)
        if spec.loader is not None:
            spec.loader = _TellingLoader(spec.loader, self.tell)
        return spec

    def tell(self, module: ModuleType) -> None:
        """Tell of a module that is loaded; nothing, once this finder has been taken away."""
        if self._is_on:
            self._on_loaded(module)

    def _find_elsewhere(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        finders = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        specs = (finder.find_spec(fullname, path, target) for finder in finders)
        return next((spec for spec in specs if spec is not None), None)


class _TellingLoader(Loader):
    """Loads a module as its own loader does, and tells of it then."""

    def __init__(self, loader: Any, tell: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._tell = tell

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None
        spec.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        # Modules of TensorFlow may put another into their place.
        self._tell(sys.modules.get(spec.name, module))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


_waiting: dict[str, Callable[[ModuleType], None]] = {}


def when_loaded(name: str, call: Callable[[ModuleType], None]) -> None:
    """Call a function with a module: now, if it is loaded, or when it is.

    Args:
        name: the module's name.
        call: the function; one for each name, the last.
    """
    if name in sys.modules:
        call(sys.modules[name])
        return
    if not _waiting:
        _finder.put()
    _waiting[name] = call


def call_off(name: str) -> None:
    """Forget what `when_loaded` was to call with a module that is not loaded yet."""
    if _waiting.pop(name, None) is not None and not _waiting:
        _finder.take_away()


def _arrived(module: ModuleType) -> None:
    call = _waiting.pop(module.__name__, None)
    if not _waiting:
        _finder.take_away()
    if call is not None:
        call(module)


_finder = Finder(lambda: _waiting, _arrived)
