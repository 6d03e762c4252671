"""Makes `tf.keras`, and `import keras` in the user's own code, mean Keras 2. Imported only on request."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from mpls.importing.namespaces import is_namespace
from mpls.importing.user_code import is_users_file
from mpls.patches import ABSENT
from mpls.upstream.modules import KERAS_VARIABLE, is_keras_2


class Keras2:
    """The package `keras` as it was up to 2.15."""

    def __init__(self) -> None:
        self._views: dict[str, ModuleType] = {}

    def find(self, name: str, names: Sequence[str] = ()) -> ModuleType | None:
        """Return a module of the package; None for one that mpls has put back.

        A module of the user's own that is called `keras` is left alone.

        Args:
            name: its name.
            names: the names that are imported from it.

        Raises:
            ModuleNotFoundError: the package had no such module.
        """
        del names
        if _is_users_own():
            return None
        view = self.view(name)
        if view is None and not is_namespace(name, with_contrib=False):
            raise ModuleNotFoundError(
                f"No module named {name!r} in Keras 2, which `import keras` means here", name=name
            )
        return view

    def view(self, name: str) -> ModuleType | None:
        """Return a module of the package; None if it had no such module."""
        within = name.partition(".")[2]
        if name not in self._views:
            names = [".".join(filter(None, (root, within))) for root in ("tf_keras", "tf_keras.src")]
            modules = [import_module(each) for each in names if _exists(each)]
            if not modules:
                return None
            self._views[name] = _View(self, name, modules)
        return self._views[name]


class _View(ModuleType):
    """A module of the old package `keras`, which held both API and sources; tf_keras has them in two modules."""

    def __init__(self, package: Keras2, name: str, modules: list[ModuleType]) -> None:
        # With `keras…` as its name, Python would look for submodules that it lacks in Keras 3.
        super().__init__(modules[0].__name__, modules[0].__doc__)
        vars(self).update(_package=package, _path=name, _modules=modules)

    @property
    def __all__(self) -> list[str]:
        return [key for key in dir(self) if not key.startswith("_")]

    def __dir__(self) -> list[str]:
        return dir(self._modules[0])

    def __getattr__(self, attribute: str) -> Any:
        name = f"{self._path}.{attribute}"
        for module in self._modules:
            found = getattr(module, attribute, ABSENT)
            if isinstance(found, ModuleType) and found.__name__ == f"{module.__name__}.{attribute}":
                return self._package.view(name) or found
            if found is not ABSENT:
                return found
        found = None if attribute.startswith("__") else self._package.view(name)
        if found is None:
            raise AttributeError(f"module {self._path!r} of Keras 2 has no attribute {attribute!r}")
        return found

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        return Keras2().view, (self._path,)

    def __setattr__(self, attribute: str, value: Any) -> None:
        setattr(self._modules[0], attribute, value)

    def __delattr__(self, attribute: str) -> None:
        delattr(self._modules[0], attribute)


def _exists(name: str) -> bool:
    try:
        return name in sys.modules or find_spec(name) is not None
    except ModuleNotFoundError:
        # The parent module does not exist.
        return False


def _is_users_own() -> bool:
    spec = PathFinder.find_spec("keras")
    return spec is not None and spec.origin is not None and is_users_file(spec.origin)


class KerasVariable:
    """The environment variable by which TensorFlow chooses its Keras; child processes inherit it."""

    def __init__(self) -> None:
        self._outer: str | None = None
        self._set: str | None = None

    @property
    def outer(self) -> str | None:
        """The value that others have set."""
        value = os.environ.get(KERAS_VARIABLE)
        return value if self._set is None or value != self._set else self._outer

    def choose(self, keras: int | None) -> None:
        """Set the variable for Keras 2 or 3; None restores its old value.

        TensorFlow reads the variable several times: once TensorFlow is loaded, the variable is not changed any more.
        """
        if "tensorflow" in sys.modules and keras is None:
            return
        self._outer, self._set = self.outer, None
        _set(self._outer)
        if keras is not None and is_keras_2(self._outer) is not (keras == 2):
            self._set = "1" if keras == 2 else "0"
            _set(self._set)


def _set(value: str | None) -> None:
    if value is None:
        os.environ.pop(KERAS_VARIABLE, None)
    else:
        os.environ[KERAS_VARIABLE] = value
