"""An import hook that calls a function when a module has been loaded, whichever finder found it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class Finder:
    """Finds modules through the other finders, and calls a function when they have been loaded.

    Args:
        names: returns the names of the modules to watch; other modules are left to the other finders.
        on_loaded: called with each of them once it is loaded.
        find_own: returns a spec for a module that the other finders must not be asked for, else None.
        find_missing: returns a spec for a module that no other finder finds, or None.
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
        """Put this finder before all others in `sys.meta_path`."""
        self._is_on = True
        sys.meta_path.insert(0, self)

    def take_away(self) -> None:
        """Remove this finder from `sys.meta_path`; a finder that wraps it gets no more modules from it."""
        self._is_on = False
        with suppress(ValueError):
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that the other finders find, with a loader that reports the loaded module."""
        # Avoid recursion: another finder that asks all finders asks this one too.
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
            # Not one of `importlib.abc`, whose own imports would take 10 ms where Python starts.
            loader: Any = _TellingLoader(spec.loader, self.tell)
            spec.loader = loader
        return spec

    def tell(self, module: ModuleType) -> None:
        """Report a loaded module, unless this finder has been taken away."""
        if self._is_on:
            self._on_loaded(module)

    def _find_elsewhere(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        finders = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        specs = (finder.find_spec(fullname, path, target) for finder in finders)
        return next((spec for spec in specs if spec is not None), None)


class _TellingLoader:
    """Loads a module by its own loader, and then reports it."""

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
        # Modules of TensorFlow may replace themselves in `sys.modules`.
        self._tell(sys.modules.get(spec.name, module))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


_waiting: dict[str, Callable[[ModuleType], None]] = {}


def when_loaded(name: str, call: Callable[[ModuleType], None]) -> None:
    """Call a function with a module: now if it is loaded, else as soon as it is.

    Args:
        name: the module's name.
        call: the function; a later one for the same name replaces it.
    """
    if name in sys.modules:
        call(sys.modules[name])
        return
    if not _waiting:
        _finder.put()
    _waiting[name] = call


def call_off(name: str) -> None:
    """Cancel the call by `when_loaded` for a module that is not loaded yet."""
    if _waiting.pop(name, None) is not None and not _waiting:
        _finder.take_away()


def _arrived(module: ModuleType) -> None:
    call = _waiting.pop(module.__name__, None)
    if not _waiting:
        _finder.take_away()
    if call is not None:
        call(module)


_finder = Finder(lambda: _waiting, _arrived)
