"""Redirects imports in the user's own code to other modules."""

from __future__ import annotations

import builtins
import functools
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import resolve_name
from types import FrameType, ModuleType
from typing import Any

from mpls.errors import NOT_THE_USERS
from mpls.importing.user_code import is_users_file
from mpls.patches import Layer

Find = Callable[[str, Sequence[str]], "ModuleType | None"]


class Redirection:
    """Redirects imports of some packages while it is in place.

    It redirects import statements, `__import__` and `importlib.import_module` in the user's own code; installed
    packages still get the modules that they were written for.

    Args:
        finds: by package name, a function that finds the package and the modules in it. It is called with a dotted
            name, and the names that are imported from it, and returns the module; None to import it as usual.
    """

    def __init__(self, finds: Mapping[str, Find]) -> None:
        self._finds = finds
        self._layers = [
            Layer(builtins, "__import__", self._statement),
            Layer(importlib, "import_module", self._function),
        ]

    def take_away(self) -> None:
        """Restore the imports."""
        for layer in self._layers:
            layer.take_away()

    def _statement(self, layer: Layer) -> Any:
        original = layer.original

        @functools.wraps(original)
        def redirected(
            name: str,
            globals: Mapping[str, Any] | None = None,  # noqa: A002
            locals: Mapping[str, Any] | None = None,  # noqa: A002
            fromlist: Sequence[str] | None = (),
            level: int = 0,
        ) -> Any:
            find = self._find(name, level) if layer.is_on else None
            if find is None or not _is_users(globals, sys._getframe(1)):
                return original(name, globals, locals, fromlist, level)
            module = find(name, fromlist or ())
            if module is None:
                module = original(name, globals, locals, fromlist, level)
            return module if fromlist else find(name.partition(".")[0], ()) or module

        return redirected

    def _function(self, layer: Layer) -> Any:
        original = layer.original

        @functools.wraps(original)
        def redirected(name: str, package: str | None = None) -> Any:
            is_relative = name.startswith(".") and package is not None
            absolute = resolve_name(name, package) if is_relative else name
            find = self._find(absolute, 0) if layer.is_on else None
            if find is None or not _is_users(None, sys._getframe(1)):
                return original(name, package)
            return find(absolute, ()) or original(name, package)

        return redirected

    def _find(self, name: Any, level: int) -> Find | None:
        return None if level or not isinstance(name, str) else self._finds.get(name.partition(".")[0])


def _is_users(namespace: Mapping[str, Any] | None, frame: FrameType | None) -> bool:
    if namespace is None or "__name__" not in namespace:
        # Code in a namespace without `__name__`, run by `exec`, belongs to the module that runs it.
        while frame is not None and "__name__" not in frame.f_globals:
            frame = frame.f_back
        namespace = {} if frame is None else frame.f_globals
    name = namespace.get("__name__")
    if name is None or name.partition(".")[0] in NOT_THE_USERS:
        return False
    if name == "__main__" or name.partition(".")[0] == _main_package():
        return True
    file = namespace.get("__file__")
    return file is not None and is_users_file(file)


def _main_package() -> str | None:
    # A program that is run with -m is the user's own, even if it is an installed package.
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return None if spec is None else str(spec.name).partition(".")[0]
