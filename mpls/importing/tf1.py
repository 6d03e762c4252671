"""Has `import tensorflow` mean `tensorflow.compat.v1` in the user's own code."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from mpls.importing.users import is_users_file

__all__ = ["behave_as_v1", "import_as_v1"]

_FRAMEWORKS = ("mpls", "tensorflow", "keras", "tf_keras")


def import_as_v1() -> None:
    """Have the user's code get `tensorflow.compat.v1` for `tensorflow`, with the behaviour of TF 2 off.

    Installed packages go on to get the TensorFlow that they were written for.
    """
    import_module = builtins.__import__

    def import_v1(
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if level or name.partition(".")[0] != "tensorflow" or not _is_users(globals):
            return import_module(name, globals, locals, fromlist or (), level)
        v1 = _v1(import_module)
        within = _walk(v1, name.split(".")[1:])
        if within is None:
            # Not in the API of TF 1: tensorflow.python and the like.
            module = import_module(name, globals, locals, fromlist or (), level)
            return module if fromlist else v1
        if fromlist and within is not v1:
            # Modules that are put back are attributes too once they are asked for.
            import_module(within.__name__, globals, locals, fromlist, level)
        return within if fromlist else v1

    builtins.__import__ = import_v1


def behave_as_v1() -> None:
    """Turn the behaviour of TF 2 off, of TensorFlow, which is loaded, whoever has imported it."""
    _v1(builtins.__import__)


def _v1(import_module: Any) -> Any:
    is_first = "tensorflow" not in sys.modules
    v1 = import_module("tensorflow.compat.v1", fromlist=("compat",))
    if is_first or v1.executing_eagerly():
        # It logs that it is deprecated itself.
        logger = v1.get_logger()
        level = logger.level
        logger.setLevel("ERROR")
        v1.disable_v2_behavior()
        logger.setLevel(level)
    return v1


def _walk(module: Any, attributes: list[str]) -> Any:
    for attribute in attributes:
        module = getattr(module, attribute, None)
        if not isinstance(module, ModuleType):
            return None
    return module


def _is_users(namespace: Mapping[str, Any] | None) -> bool:
    name = (namespace or {}).get("__name__")
    if name is None or name.partition(".")[0] in _FRAMEWORKS:
        return False
    file = (namespace or {}).get("__file__")
    if name == "__main__":
        return True
    return file is not None and is_users_file(file)
