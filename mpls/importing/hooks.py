"""Puts names back into modules, now or when they are loaded. Nothing here imports TensorFlow."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from mpls.importing.legacy_optimizers import legacy_answers, legacy_compile, legacy_overlays
from mpls.importing.module_getattr import Serve, lister, server
from mpls.importing.namespaces import hosts, is_listed, is_namespace, members
from mpls.importing.overlays import Answer, Overlay, by_name
from mpls.importing.post_import import Finder
from mpls.importing.user_code import goes_on_to, users_line
from mpls.names import Name
from mpls.patches import ABSENT, Layer
from mpls.upstream.modules import inner_module

_CONTRIB_MODULE = "tensorflow.contrib"
# The paths of the modules that had `contrib` as an attribute in TF 1.x.
_CONTRIB_HOLDERS = {"tf", "tf.compat.v1"}
# Packages outside the API that TF 1.15 had as attributes of tensorflow.
_BESIDE_TF1 = ("core", "python", "tools")


@dataclass(frozen=True)
class Settings:
    """Which names to put back.

    Attributes:
        contrib: whether to put `tf.contrib.mixed_precision` back.
        replace_existing: whether names that still work are replaced by the objects of mpls too.
        v1: whether the user's `tensorflow` is `tensorflow.compat.v1`.
        legacy_optimizers: whether the user's `tf.keras.optimizers` has the classes of TF 2.10.
        on_touch: called with each historical name that code reads, and its file name and line; None to leave names
            that still work alone.
    """

    contrib: bool = False
    replace_existing: bool = False
    v1: bool = False
    legacy_optimizers: bool = False
    on_touch: Callable[[Name, tuple[str, int]], None] | None = None


class Namespace(ModuleType):
    """A removed module that has been put back."""

    __reduce__ = by_name


class Hooks:
    """Puts the names back, in all modules that have or should have them.

    Args:
        settings: which names to put back.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # The modules that are hooked, each once, and how to undo it.
        self._hooked: list[ModuleType] = []
        self._undo: list[Callable[[], None]] = []
        self._found = _Found()
        self._finder = Finder(hosts, self.hook, self._find_within, self._find_removed)

    def put_back(self) -> None:
        """Hook the modules that are loaded now, and others as soon as they are loaded."""
        self._finder.put()
        _there.append(self)
        for name in [name for name in sys.modules if name in hosts()]:
            self.hook(sys.modules[name])
        if self._settings.contrib:
            # An import would make it an attribute of tensorflow, and `hasattr(tf, "contrib")` must stay False.
            module = self.create(ModuleSpec(_CONTRIB_MODULE, None, is_package=True))
            sys.modules[_CONTRIB_MODULE] = module
            self.hook(module)

    def take_away(self) -> None:
        """Restore every module; later changes by others are kept."""
        self._finder.take_away()
        _there.remove(self)
        while self._undo:
            self._undo.pop()()
        self._hooked.clear()
        self._found.forget()

    def create(self, spec: ModuleSpec) -> ModuleType:
        """Return an empty module for a namespace to put back."""
        module = Namespace(spec.name, "Names of an earlier TensorFlow, put back by mpls.")
        module.__spec__, module.__path__ = spec, []
        self._found.note(spec.name, module)
        return module

    def find(self, name: str, existing: ModuleType) -> None:
        """Make an existing module importable under another name too."""
        self._found.note(name, existing)
        self._found.existing[name] = sys.modules[name] = existing

    def _find_within(self, name: str) -> ModuleSpec | None:
        # Python would load the submodules of a module a second time under its other name.
        parent, _, attribute = name.rpartition(".")
        holder = self._found.existing.get(parent)
        if holder is None or not isinstance(vars(holder).get(attribute), ModuleType):
            return None
        return self._spec(name)

    def _find_removed(self, name: str) -> ModuleSpec | None:
        if not is_namespace(name, self._settings.contrib):
            return None
        return self._spec(name)

    def _spec(self, name: str) -> ModuleSpec:
        loader: Any = _NamespaceLoader(self)
        return ModuleSpec(name, loader, is_package=True)

    def hook(self, module: ModuleType) -> None:
        """Make a module serve the historical names that it lacks, and overlay those that it has."""
        name = module.__name__ if isinstance(module, Namespace) else _name_of(module)
        rows = {key: row for key, row in members(name).items() if self._settings.contrib or not row.is_contrib}
        if any(hooked is module for hooked in self._hooked):
            return
        self._hooked.append(module)
        inner = inner_module(module)
        taken = {key: vars(inner)[key] for key, row in rows.items() if self._takes_over(inner, row)}
        answers = {key: self._answer(rows[key], value) for key, value in taken.items()}
        if self._settings.legacy_optimizers:
            answers |= legacy_answers(name, module)
            self._undo += [layer.take_away for layer in legacy_compile(name, module)]
            self._undo += [overlay.take_away for overlay in legacy_overlays(module)]
        if answers:
            self._undo.append(Overlay(module, answers).take_away)
        # Names that the module has now are not served, so that they are gone if somebody deletes them.
        served = {key: row for key, row in rows.items() if _is_served(row, vars(inner))}
        if served or not _CONTRIB_HOLDERS.isdisjoint(hosts().get(name, ())):
            listed = [key for key, row in served.items() if is_listed(row)]
            self._undo.append(Layer(inner, "__dir__", lister(inner, listed)).take_away)
            serve = server(inner, self._served(name, module, served))
            self._undo.append(Layer(inner, "__getattr__", serve).take_away)

    def _served(self, name: str, module: ModuleType, rows: dict[str, Name]) -> dict[str, Serve]:
        """Return the functions that serve a module's attributes, by name; some serve certain readers only."""
        paths = hosts().get(name, ())
        served: dict[str, Serve] = {key: partial(self._resolve, name, row) for key, row in rows.items()}

        def listed() -> Any:
            is_asked = isinstance(module, Namespace) or users_line() is not None
            return [key for key in dir(module) if not key.startswith("_")] if is_asked else ABSENT

        def contrib() -> Any:
            return import_module(_CONTRIB_MODULE) if goes_on_to("contrib", "mixed_precision") else ABSENT

        def beside(attribute: str) -> Any:
            return ABSENT if users_line() is None else import_module(f"tensorflow.{attribute}")

        served.setdefault("__all__", listed)
        if self._settings.contrib and not _CONTRIB_HOLDERS.isdisjoint(paths):
            served.setdefault("contrib", contrib)
        if self._settings.v1 and "tf.compat.v1" in paths:
            for attribute in _BESIDE_TF1:
                served.setdefault(attribute, partial(beside, attribute))
        return served

    def _takes_over(self, module: ModuleType, row: Name) -> bool:
        """Return whether reads of a name that still works must be intercepted."""
        is_there = row.attribute in vars(module) and not row.is_namespace and not row.needs_keras_3
        is_asked_for = self._settings.replace_existing or self._settings.on_touch is not None
        return is_there and row.replacement != "" and is_asked_for

    def _answer(self, row: Name, native: Any) -> Answer:
        def answer(value: Any) -> Any:
            # Frameworks and mpls itself get the native object, and an object that others have set stays.
            if value is not native or users_line() is None:
                return value
            self._touch(row)
            return _target(row) if self._settings.replace_existing else value

        return answer

    def _resolve(self, module: str, row: Name) -> Any:
        if row.is_namespace:
            return import_module(f"{module}.{row.attribute}")
        self._touch(row)
        return _target(row)

    def _touch(self, row: Name) -> None:
        where = None if self._settings.on_touch is None else users_line()
        if where is not None and self._settings.on_touch is not None:
            self._settings.on_touch(row, where)


def _target(row: Name) -> Any:
    home, _, attribute = row.target.partition(":")
    try:
        return getattr(import_module(home), attribute)
    except AttributeError as error:
        # An AttributeError would say that the module lacks the name.
        raise ImportError(f"{row.path}: {home} cannot be loaded: {error}", name=home) from error


def _is_served(row: Name, there: Container[str]) -> bool:
    is_object = row.replacement != "" and not row.needs_keras_3 and row.attribute not in there
    return row.is_namespace or is_object


# The hooks that are in place now: none or one.
_there: list[Hooks] = []


def are_names_back() -> bool:
    """Return whether the historical names are put back in this process."""
    return bool(_there)


class _Found:
    """Modules that have been made importable under new names.

    Attributes:
        existing: those of them that already existed under another name.
    """

    def __init__(self) -> None:
        self.existing: dict[str, ModuleType] = {}
        self._noted: list[tuple[str, ModuleType, ModuleType | None, Any]] = []

    def note(self, name: str, module: ModuleType) -> None:
        """Record a module before it is put in place, with its parent's attribute of that name."""
        holder, attribute = _holder_of(name)
        before = ABSENT if holder is None else vars(holder).get(attribute, ABSENT)
        self._noted.append((name, module, holder, before))

    def forget(self) -> None:
        """Remove the modules again, unless others have replaced them since."""
        self.existing.clear()
        while self._noted:
            name, module, holder, before = self._noted.pop()
            if sys.modules.get(name) is module:
                del sys.modules[name]
            attribute = name.rpartition(".")[2]
            if holder is None or before is module or vars(holder).get(attribute) is not module:
                continue
            for each in (holder, inner_module(holder)):
                if before is ABSENT:
                    with suppress(AttributeError):
                        delattr(each, attribute)
                elif vars(each).get(attribute) is module:
                    vars(each)[attribute] = before


def _holder_of(name: str) -> tuple[ModuleType | None, str]:
    parent, _, attribute = name.rpartition(".")
    return sys.modules.get(parent), attribute


class _NamespaceLoader:
    """Loads a module that has been removed."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._hooks.create(spec)

    def exec_module(self, module: ModuleType) -> None:
        existing = _attribute_module(module.__name__)
        if existing is not None:
            # The module is an attribute of its parent, as tf.compat.v2.keras is, but cannot be imported by that name.
            self._hooks.find(module.__name__, existing)
        self._hooks.hook(existing or module)


def _attribute_module(name: str) -> ModuleType | None:
    parent, _, attribute = name.rpartition(".")
    found = vars(import_module(parent)).get(attribute)
    if not isinstance(found, ModuleType):
        return None
    # `dir` makes lazily loaded modules load.
    dir(found)
    return import_module(found.__name__)


def _name_of(module: ModuleType) -> str:
    return module.__spec__.name if module.__spec__ is not None else module.__name__
