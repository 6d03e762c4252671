"""Update rules of TF 2.10 and earlier on optimizers that never call them."""

from __future__ import annotations

import weakref
from typing import Any

from mpls.errors import FRAMEWORKS, MplsWarning, warn_user
from mpls.formats.algorithms import LEGACY_CLASSES

__all__ = ["warn_of_ignored_rule"]

_OF_LEGACY = ("_resource_apply_dense", "_resource_apply_sparse", "_apply_dense", "_apply_sparse")
_OF_OTHERS = "update_step"

_warned: weakref.WeakSet[type] = weakref.WeakSet()


def warn_of_ignored_rule(optimizer: Any) -> None:
    """Warn, once per class, if an optimizer that is not a legacy one defines the update rule of a legacy one.

    Such an optimizer trains by the rule of its base class, also without mpls.
    """
    cls = type(optimizer)
    ignored = _ignored(cls)
    if ignored is None or cls in _warned:
        return
    _warned.add(cls)
    base = next(each for each in cls.__mro__ if _is_of_framework(each))
    of_legacy = base.__name__ if base.__name__ in LEGACY_CLASSES else "Optimizer"
    warn_user(
        f"LossScaleOptimizer: {cls.__qualname__}.{ignored} is never called: it is the rule of TF 2.10 and earlier, "
        f"and {base.__name__} of {base.__module__.partition('.')[0]} trains by its own. Derive the class from "
        f"tf_keras.optimizers.legacy.{of_legacy}, or run the program by `mpls run --keras 2 --legacy-optimizers`, or "
        f"override {_OF_OTHERS}(). See mpls docs ignored-rules",
        MplsWarning,
    )


def _ignored(cls: type) -> str | None:
    defined = {name for each in cls.__mro__ if not _is_of_framework(each) for name in vars(each)}
    return None if _OF_OTHERS in defined else next((name for name in _OF_LEGACY if name in defined), None)


def _is_of_framework(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in FRAMEWORKS
