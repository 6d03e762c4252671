"""Settings of the wrapped optimizer that are read and set on the wrapper."""

from __future__ import annotations

import inspect
import sys
from types import FrameType
from typing import Any

# What wrappers have of their own, or what is none.
_NONE = ("name", "self", "args", "kwargs")


def is_hyperparameter(optimizer: Any, name: str) -> bool:
    """Return whether an attribute of an optimizer is a setting: its constructor takes it, and it is kept by that name.

    Those of legacy optimizers that are variables once they are used are settings too.
    """
    if name.startswith("_") or name in _NONE:
        return False
    if name in legacy_variables(optimizer):
        return True
    is_kept = name in vars(optimizer) or isinstance(getattr(type(optimizer), name, None), property)
    return is_kept and name in _parameters(optimizer)


def legacy_variables(optimizer: Any) -> dict[str, Any]:
    """Return the settings of a legacy optimizer that its native wrapper hands on too; none of another, or of None."""
    found: dict[str, Any] = {} if optimizer is None else vars(optimizer).get("_hyper", {})
    return found


def _parameters(optimizer: Any) -> set[str]:
    constructors = [vars(cls)["__init__"] for cls in type(optimizer).__mro__ if "__init__" in vars(cls)]
    return {name for each in constructors if inspect.isfunction(each) for name in inspect.signature(each).parameters}


def is_constructing(wrapper: Any) -> bool:
    """Return whether a constructor of a user's subclass runs, which makes attributes of its own."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__init__" and code.co_argcount and frame.f_locals.get(code.co_varnames[0]) is wrapper:
            return True
        frame = frame.f_back
    return False
