"""Puts names back into modules: those that are loaded, and those that will be. Nothing here imports TensorFlow."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from mpls.importing.finding import Finder
from mpls.importing.places import hosts, is_namespace, members
from mpls.importing.probes import goes_on_to, users_line
from mpls.names import Name
from mpls.patches import ABSENT, Layer

__all__ = ["Hooks", "are_names_back"]

_CONTRIB_MODULE = "tensorflow.contrib"
# The paths whose attribute `contrib` was TF 1.x's package.
_CONTRIB_HOLDERS = {"tf", "tf.compat.v1"}


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
        # Each module with what has been taken out of it, and with what serves it.
        self._hooked: list[tuple[ModuleType, dict[str, Any], Layer]] = []
        self._found = _Found()
        self._finder = Finder(hosts, self.hook, self._find_within, self._find_removed)

    def put_back(self) -> None:
        """Hook the modules that are loaded, and have those that will be loaded hooked."""
        self._finder.put()
        _there.append(self)
        for name in [name for name in sys.modules if name in hosts()]:
            self.hook(sys.modules[name])
        if self._contrib:
            # Imported, it would become an attribute of tensorflow, for which code probes.
            module = self.create(ModuleSpec(_CONTRIB_MODULE, None, is_package=True))
            sys.modules[_CONTRIB_MODULE] = module
            self.hook(module)

    def take_away(self) -> None:
        """Leave every module as it was, but for what others have done to it since."""
        self._finder.take_away()
        _there.remove(self)
        for module, kept, layer in reversed(self._hooked):
            layer.take_away()
            for name, value in kept.items():
                if not any(name in vars(holder) for holder in (module, _unwrapped(module))):
                    setattr(module, name, value)
        self._hooked.clear()
        self._found.forget()

    def create(self, spec: ModuleSpec) -> ModuleType:
        """Return an empty module to put back."""
        module = Namespace(spec.name, "Names of an earlier TensorFlow, put back by mpls.")
        module.__spec__, module.__path__ = spec, []
        self._found.note(spec.name, module)
        return module

    def find(self, name: str, existing: ModuleType) -> None:
        """Have a module that is there found under another name too."""
        self._found.note(name, existing)
        self._found.existing[name] = sys.modules[name] = existing

    def _find_within(self, name: str) -> ModuleSpec | None:
        # By the path of a module under its other name, Python would load what is in it a second time.
        parent, _, attribute = name.rpartition(".")
        holder = self._found.existing.get(parent)
        if holder is None or not isinstance(vars(holder).get(attribute), ModuleType):
            return None
        return ModuleSpec(name, _NamespaceLoader(self), is_package=True)

    def _find_removed(self, name: str) -> ModuleSpec | None:
        if not is_namespace(name, self._contrib):
            return None
        return ModuleSpec(name, _NamespaceLoader(self), is_package=True)

    def hook(self, module: ModuleType) -> None:
        """Have a module serve the historical names that it lacks."""
        name = module.__name__ if isinstance(module, Namespace) else _name_of(module)
        rows = {attribute: row for attribute, row in members(name).items() if self._contrib or not row.is_contrib}
        with_contrib = self._contrib and not _CONTRIB_HOLDERS.isdisjoint(hosts().get(name, ()))
        inner = _unwrapped(module)
        if not (rows or with_contrib) or any(hooked is module for hooked, *_ in self._hooked):
            return
        kept = {attribute: vars(inner)[attribute] for attribute in rows if self._takes_over(inner, rows[attribute])}
        for attribute in kept:
            _remove(module, attribute)

        def server(layer: Layer) -> Any:
            def serve(attribute: str) -> Any:
                row = rows.get(attribute) if layer.is_on else None
                if attribute == "contrib" and layer.is_on and with_contrib and goes_on_to("contrib", "mixed_precision"):
                    return import_module(_CONTRIB_MODULE)
                if row is not None and (attribute in kept or self._is_served(row)):
                    return self._resolve(name, row, kept)
                if layer.original is not ABSENT:
                    return layer.original(attribute)
                raise AttributeError(f"module {module.__name__!r} has no attribute {attribute!r}")

            return serve

        self._hooked.append((module, kept, Layer(inner, "__getattr__", server)))

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


# Those whose names are back now: none or one.
_there: list[Hooks] = []


def are_names_back() -> bool:
    """Return whether old names mean mpls in this process."""
    return bool(_there)


class _Found:
    """Modules that are found under names where nothing was before.

    Attributes:
        existing: those of them that were there under another name.
    """

    def __init__(self) -> None:
        self.existing: dict[str, ModuleType] = {}
        self._noted: list[tuple[str, ModuleType, ModuleType | None, Any]] = []

    def note(self, name: str, module: ModuleType) -> None:
        """Note one that is about to be found, with what stands in the module that it is in."""
        holder, attribute = _holder_of(name)
        before = ABSENT if holder is None else vars(holder).get(attribute, ABSENT)
        self._noted.append((name, module, holder, before))

    def forget(self) -> None:
        """Have them found no longer, where nobody has put something else since."""
        self.existing.clear()
        while self._noted:
            name, module, holder, before = self._noted.pop()
            if sys.modules.get(name) is module:
                del sys.modules[name]
            attribute = name.rpartition(".")[2]
            if holder is None or before is module or vars(holder).get(attribute) is not module:
                continue
            for each in (holder, _unwrapped(holder)):
                if before is ABSENT:
                    with suppress(AttributeError):
                        delattr(each, attribute)
                elif vars(each).get(attribute) is module:
                    vars(each)[attribute] = before


def _holder_of(name: str) -> tuple[ModuleType | None, str]:
    parent, _, attribute = name.rpartition(".")
    return sys.modules.get(parent), attribute


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
            self._hooks.find(module.__name__, existing)
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
