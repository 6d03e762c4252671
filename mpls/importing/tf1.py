"""Has `import tensorflow` mean `tensorflow.compat.v1` in the user's own code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["behave_as_v1", "find_v1"]


def find_v1(name: str, names: Sequence[str] = ()) -> ModuleType | None:
    """Return what TF 1 had under the name of a module; None for one that is not in its API, as `tensorflow.python`.

    The behaviour of TF 2 is off from then on.

    Args:
        name: the name.
        names: what is imported from it.
    """
    module: Any = _v1()
    for attribute in name.split(".")[1:]:
        module = getattr(module, attribute, None)
        if not isinstance(module, ModuleType):
            return None
    if names and module is not _v1():
        # Modules that are put back are attributes too once they are asked for.
        __import__(module.__name__, fromlist=names)
    found: ModuleType = module
    return found


def behave_as_v1() -> None:
    """Turn the behaviour of TF 2 off, of TensorFlow, which is loaded, whoever has imported it."""
    _v1()


def _v1() -> Any:
    is_first = "tensorflow" not in sys.modules
    v1: Any = import_module("tensorflow.compat.v1")
    if is_first or v1.executing_eagerly():
        # It logs that it is deprecated itself.
        logger = v1.get_logger()
        level = logger.level
        logger.setLevel("ERROR")
        v1.disable_v2_behavior()
        logger.setLevel(level)
    return v1
