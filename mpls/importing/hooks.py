"""Puts names back into modules, now or when they are loaded. Nothing here imports TensorFlow."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from mpls.formats.algorithms import LEGACY_CLASSES
from mpls.importing.namespaces import hosts, is_listed, is_namespace, members
from mpls.importing.post_import import Finder
from mpls.importing.user_code import goes_on_to, users_line
from mpls.names import Name
from mpls.patches import ABSENT, Layer
from mpls.upstream import table
from mpls.upstream.modules import inner_module, is_lazily_loaded, is_wrapped, set_class

# Called with the module's own value; returns the value that the reader gets.
Answer = Callable[[Any], Any]
# The cache methods of modules that TensorFlow wraps; the cache holds methods too.
_OVERLAY = "_mpls_overlay"
_KEEPERS = (table.KEEP.name, table.DROP.name)


class Overlay:
    """Gives a module a subclass of its own class, with a property for each intercepted attribute.

    Reads of other attributes run no code of mpls. The module's own functions read their globals from its dictionary,
    which does not change.

    Args:
        module: the module.
        answers: the answers by attribute.
    """

    def __init__(self, module: ModuleType, answers: Mapping[str, Answer]) -> None:
        self._module = module
        self._before = _beneath_ours(type(module))
        self.is_on: bool = True
        self._ours = _answering(self, self._before, answers)
        set_class(module, self._ours)
        if is_wrapped(self._before):
            _forget(module, self._before, (*answers, *_KEEPERS))

    def take_away(self) -> None:
        """Restore the module's class; if others have changed it since, our class stays as a base and does nothing."""
        self.is_on = False
        if type(self._module) is self._ours:
            set_class(self._module, _beneath_ours(self._before))


def _beneath_ours(cls: type[Any]) -> type[Any]:
    """Return the first base class that is not one of an overlay that has been taken away."""
    while _OVERLAY in vars(cls) and not vars(cls)[_OVERLAY].is_on:
        cls = vars(cls)[_OVERLAY]._before
    return cls


def _answering(overlay: Overlay, base: type[Any], answers: Mapping[str, Answer]) -> type:
    attributes: dict[str, Any] = {name: _property(overlay, name, answer) for name, answer in answers.items()}
    attributes |= {"__module__": base.__module__, _OVERLAY: overlay}
    if base is ModuleType:
        # cloudpickle and the like handle only modules whose class is exactly ModuleType.
        attributes["__reduce__"] = by_name
    if is_wrapped(base):
        attributes |= _forgetful(base, answers)
    return type(base.__name__, (base,), attributes)


def _property(overlay: Overlay, name: str, answer: Answer) -> property:
    def read(module: ModuleType) -> Any:
        if name not in vars(module):
            # Python then calls the module's `__getattr__`, or raises its own error.
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
    """Return cache methods for a module that TensorFlow wraps, which do not cache the intercepted attributes."""

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
    # The cache finds names by identity, so they must be interned.
    for name in map(sys.intern, names):
        if table.KEEPS.needed_of(base)(module, name):
            table.DROP.needed_of(base)(module, name)


def by_name(module: ModuleType) -> tuple[Callable[[str], ModuleType], tuple[str]]:
    """Return the value of `__reduce__` for a module: it is pickled by name, and imported when unpickled."""
    return import_module, (module.__name__,)


# Returns the value of an attribute; ABSENT if this reader gets none.
Serve = Callable[[], Any]
# Python itself reads these attributes in the module's dictionary.
_FOR_PYTHON = ("__getattr__", "__name__", "__spec__")
_OURS = ("__dir__", "__getattr__")


def server(module: ModuleType, served: Mapping[str, Serve]) -> Callable[[Layer], Any]:
    """Return a factory of a module's `__getattr__`, which serves attributes that the module lacks.

    It runs no Python code for other attributes: their AttributeError has the same text and traceback as without a
    `__getattr__`. If the module had a `__getattr__` before, that one is asked for them.

    Args:
        module: the module.
        served: the functions that return the values, by attribute.
    """

    def make(layer: Layer) -> Any:
        members = dict.fromkeys(_FOR_PYTHON, property(_decline))
        members |= {attribute: property(_reader(layer, serve)) for attribute, serve in served.items()}
        # Reads of a module's attributes are C code, which goes on to its own error if a property raises AttributeError.
        stand_in = type("module", (ModuleType,), members)("")
        vars(stand_in).clear()
        vars(stand_in).update({key: vars(module)[key] for key in ("__name__", "__spec__") if key in vars(module)})
        if layer.original is not ABSENT:
            vars(stand_in)["__getattr__"] = layer.original
        return functools.partial(ModuleType.__getattribute__, stand_in)

    return make


def _reader(layer: Layer, serve: Serve) -> Callable[[Any], Any]:
    def read(_: Any) -> Any:
        found = serve() if layer.is_on else ABSENT
        return _decline() if found is ABSENT else found

    return read


def _decline(_: Any = None) -> Any:
    raise AttributeError


def lister(module: ModuleType, listed: list[str]) -> Callable[[Layer], Any]:
    """Return a factory of a module's `__dir__`, which also lists attributes that are served.

    Args:
        module: the module.
        listed: the served attributes to list.
    """

    def make(layer: Layer) -> Any:
        def names() -> list[str]:
            is_first = layer.original is ABSENT
            there = [key for key in vars(module) if key not in _OURS] if is_first else list(layer.original())
            return sorted({*there, *listed} if layer.is_on else there)

        return names

    return make


_PATHS = {
    "tf_keras.optimizers",
    "tf.keras.optimizers",
    "tf.compat.v1.keras.optimizers",
    "tf.compat.v2.keras.optimizers",
}
# Functions that make an optimizer from a string or a config.
_MAKERS = ("deserialize", "get")
_CLASSES = (*LEGACY_CLASSES, "Optimizer")


def legacy_overlays(module: ModuleType) -> list[Overlay]:
    """Make a module's lazily loaded `optimizers` read its attributes from the module that it loads.

    The lazy module has a dictionary of its own, which would hide the answers.
    """
    loader = vars(module).get("optimizers")
    if not isinstance(loader, ModuleType) or is_lazily_loaded(loader) is None:
        return []

    def answer(attribute: str) -> Answer:
        return lambda _: getattr(import_module(vars(loader)["__name__"]), attribute)

    return [Overlay(loader, {key: answer(key) for key in (*_CLASSES, *_MAKERS)})]


def legacy_answers(name: str, module: ModuleType) -> dict[str, Answer]:
    """Return the answers by which the user's code gets legacy optimizers; none for other modules than `optimizers`.

    Args:
        name: the name of the module.
        module: the module.
    """
    is_of_keras_2 = str(getattr(vars(module).get("get"), "__module__", "")).startswith("tf_keras.")
    if _PATHS.isdisjoint(hosts().get(name, ())) or not is_of_keras_2:
        return {}
    legacy = vars(import_module("tf_keras.optimizers.legacy"))
    answers = {key: _answer(vars(module)[key], legacy[key]) for key in _CLASSES if key in vars(module)}
    return answers | {key: _answer(vars(module)[key], _maker(vars(module)[key])) for key in _MAKERS}


def legacy_compile(name: str, module: ModuleType) -> list[Layer]:
    """Make `compile` of tf_keras take optimizer strings for legacy optimizers, if the user's code calls it."""
    return [Layer(module.Model, "compile", _compile)] if name == "tf_keras" else []


def _answer(native: Any, legacy: Any) -> Answer:
    # An object that others have set stays.
    return lambda value: legacy if value is native and users_line() is not None else value


def _maker(native: Any) -> Any:
    @functools.wraps(native)
    def make(*args: Any, **kwargs: Any) -> Any:
        return native(*args, **{"use_legacy_optimizer": True, **kwargs})

    return make


def _compile(layer: Layer) -> Any:
    original = layer.original

    @functools.wraps(original)
    def compile(self: Any, optimizer: Any = "rmsprop", *args: Any, **kwargs: Any) -> Any:  # noqa: A001
        if layer.is_on and isinstance(optimizer, str | dict) and users_line() is not None:
            get = import_module("tf_keras.optimizers").get
            with self.distribute_strategy.scope():
                optimizer = get(optimizer, use_legacy_optimizer=True)
        return original(self, optimizer, *args, **kwargs)

    return compile


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
        return self._spec(name) if is_namespace(name, self._settings.contrib) else None

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
        parent, _, attribute = name.rpartition(".")
        holder = sys.modules.get(parent)
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
