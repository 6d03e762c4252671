"""Puts names back into modules: those that are loaded, and those that will be. Nothing here imports TensorFlow."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from mpls.importing.places import hosts, is_namespace, members
from mpls.importing.probes import goes_on_to, users_line
from mpls.names import Name

__all__ = ["Hooks"]

_CONTRIB_MODULE = "tensorflow.contrib"
# The paths whose attribute `contrib` was TF 1.x's package.
_CONTRIB_HOLDERS = {"tf", "tf.compat.v1"}
_ABSENT = object()


class Namespace(ModuleType):
    """A module that has been put back."""


class Hooks:
    """The names that are put back, in all modules that have or should have them.

    Args:
        contrib: whether to put `tf.contrib.mixed_precision` back.
        replace_existing: whether names that still work stand for the objects of mpls too.
        on_touch: told about each historical name that code reads, with file name and line; None to let names that
            still work alone.
    """

    def __init__(
        self,
        contrib: bool,
        replace_existing: bool,
        on_touch: Callable[[Name, tuple[str, int]], None] | None = None,
    ) -> None:
        self._contrib = contrib
        self._replace_existing = replace_existing
        self._on_touch = on_touch
        self._hooked: list[tuple[ModuleType, dict[str, Any]]] = []
        self._finder = _Finder(self)

    def put_back(self) -> None:
        """Hook the modules that are loaded, and have those that will be loaded hooked."""
        sys.meta_path.insert(0, self._finder)
        for name in [name for name in sys.modules if name in hosts()]:
            self.hook(sys.modules[name])
        if self._contrib:
            # Imported, it would become an attribute of tensorflow, for which code probes.
            sys.modules[_CONTRIB_MODULE] = self.create(ModuleSpec(_CONTRIB_MODULE, None, is_package=True))
            self.hook(sys.modules[_CONTRIB_MODULE])

    def take_away(self) -> None:
        """Leave every module as it was."""
        sys.meta_path.remove(self._finder)
        for module, replaced in reversed(self._hooked):
            for name, value in replaced.items():
                if value is _ABSENT:
                    vars(_unwrapped(module)).pop(name, None)
                else:
                    setattr(module, name, value)
        self._hooked.clear()
        for name, module in [*sys.modules.items()]:
            if isinstance(module, Namespace):
                _forget(name, module)

    def create(self, spec: ModuleSpec) -> ModuleType:
        """Return an empty module to put back."""
        module = Namespace(spec.name, "Names of an earlier TensorFlow, put back by mpls.")
        module.__spec__, module.__path__ = spec, []
        return module

    def should_exist(self, module: str) -> bool:
        """Return whether a module is to be put back where no package has it."""
        return is_namespace(module, self._contrib)

    def hook(self, module: ModuleType) -> None:
        """Have a module serve the historical names that it lacks."""
        name = module.__name__ if isinstance(module, Namespace) else _name_of(module)
        rows = {attribute: row for attribute, row in members(name).items() if self._contrib or not row.is_contrib}
        with_contrib = self._contrib and not _CONTRIB_HOLDERS.isdisjoint(hosts().get(name, ()))
        inner = _unwrapped(module)
        if not (rows or with_contrib) or any(hooked is module for hooked, _ in self._hooked):
            return
        kept = {attribute: vars(inner)[attribute] for attribute in rows if self._takes_over(inner, rows[attribute])}
        for attribute in kept:
            _remove(module, attribute)
        previous = vars(inner).get("__getattr__", _ABSENT)
        self._hooked.append((module, {**kept, "__getattr__": previous}))

        def serve(attribute: str) -> Any:
            row = rows.get(attribute)
            if attribute == "contrib" and with_contrib and goes_on_to("contrib", "mixed_precision"):
                return import_module(_CONTRIB_MODULE)
            if row is not None and (attribute in kept or self._is_served(row)):
                return self._resolve(name, row, kept)
            if previous is not _ABSENT:
                return previous(attribute)
            raise AttributeError(f"module {module.__name__!r} has no attribute {attribute!r}")

        vars(inner)["__getattr__"] = serve

    def _is_served(self, row: Name) -> bool:
        return row.is_namespace or (row.replacement != "" and not row.needs_keras_3)

    def _takes_over(self, module: ModuleType, row: Name) -> bool:
        """Return whether accesses to a name that still works must be seen."""
        is_there = row.attribute in vars(module) and not row.is_namespace and not row.needs_keras_3
        return is_there and row.replacement != "" and (self._replace_existing or self._on_touch is not None)

    def _resolve(self, module: str, row: Name, kept: dict[str, Any]) -> Any:
        if row.is_namespace:
            return import_module(f"{module}.{row.attribute}")
        where = users_line()
        if where is not None and self._on_touch is not None:
            self._on_touch(row, where)
        if row.attribute in kept and (where is None or not self._replace_existing):
            # Frameworks go on to get their own, and mpls what it is compatible with.
            return kept[row.attribute]
        home, _, attribute = row.target.partition(":")
        return getattr(import_module(home), attribute)


class _Finder(MetaPathFinder):
    """Finds modules that have been removed, and hooks those that are loaded later."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in hosts():
            return None
        spec = self._find_elsewhere(fullname, path, target)
        if spec is not None:
            if spec.loader is not None:
                spec.loader = _HookingLoader(spec.loader, self._hooks)
            return spec
        if not self._hooks.should_exist(fullname):
            return None
        return ModuleSpec(fullname, _NamespaceLoader(self._hooks), is_package=True)

    def _find_elsewhere(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        finders = (finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec"))
        specs = (finder.find_spec(fullname, path, target) for finder in finders)
        return next((spec for spec in specs if spec is not None), None)


class _HookingLoader(Loader):
    """Loads a module as its own loader does, and hooks it then."""

    def __init__(self, loader: Any, hooks: Hooks) -> None:
        self._loader = loader
        self._hooks = hooks

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None
        spec.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        # Modules of TensorFlow may put another into their place.
        self._hooks.hook(sys.modules.get(spec.name, module))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _NamespaceLoader(Loader):
    """Loads a module that has been removed."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._hooks.create(spec)

    def exec_module(self, module: ModuleType) -> None:
        existing = _attribute_module(module.__name__)
        if existing is not None:
            # It is an attribute of what it is in, as tf.compat.v2.keras is, but no package has it.
            sys.modules[module.__name__] = existing
        self._hooks.hook(existing or module)


def _attribute_module(name: str) -> ModuleType | None:
    parent, _, attribute = name.rpartition(".")
    found = vars(import_module(parent)).get(attribute)
    if not isinstance(found, ModuleType):
        return None
    # Lazily loaded ones have their names only then.
    dir(found)
    return import_module(found.__name__)


def _name_of(module: ModuleType) -> str:
    return module.__spec__.name if module.__spec__ is not None else module.__name__


def _unwrapped(module: ModuleType) -> ModuleType:
    # TensorFlow wraps some of its modules, and asks the wrapped one for what the wrapper lacks.
    inner: ModuleType = vars(module).get("_tfmw_wrapped_module", module)
    return inner


def _remove(module: ModuleType, attribute: str) -> None:
    for holder in {id(each): each for each in (module, _unwrapped(module))}.values():
        vars(holder).pop(attribute)
    # What a wrapper has looked up once it keeps in a place of its own, by the identity of the name; if it has not, its
    # __delattr__ fails.
    name = sys.intern(attribute)
    if module is not _unwrapped(module) and module._fastdict_key_in(name):
        module._fastdict_pop(name)


def _forget(name: str, module: ModuleType) -> None:
    del sys.modules[name]
    parent, _, attribute = name.rpartition(".")
    holder = sys.modules.get(parent)
    if holder is not None and vars(holder).get(attribute) is module:
        with suppress(AttributeError):
            delattr(holder, attribute)
