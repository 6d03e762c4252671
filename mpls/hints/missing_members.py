"""Errors caused by members that optimizers and their wrappers have in one generation of Keras only."""

from __future__ import annotations

import gc
import linecache
import re
import sys
from typing import Any

import mpls.optimizer_members as members
from mpls.formats.wrapper_state import WRAPPER, WRAPPER_V3
from mpls.hints.failures import Failure
from mpls.hints.mentions import mentions
from mpls.upstream import table

__all__ = [
    "needs_keras_2_for_optimizers",
    "needs_legacy_optimizers",
    "needs_legacy_optimizers_of_keras_2",
    "needs_wrapper_of_mpls",
    "scales_with_wrapper_of_compile",
    "subclasses_wrapper_of_keras_2",
]

# The classes of both Kerases' own wrappers, and the base of those of Keras 2.
_WRAPPERS = (WRAPPER, WRAPPER_V3, "BaseLossScaleOptimizer")
# Members that both wrappers of Keras 2 have, and the one of Keras 3 lacks.
_OF_WRAPPERS = {*members.SCALING_METHODS, *members.WRAPPER_ATTRIBUTES}
# Members of optimizers of Keras 2 that those of Keras 3 lack; there, `variables` is no method.
_OF_KERAS_2 = {*members.OF_KERAS_2, "variables", members.AGGREGATION_OF_LEGACY, members.AGGREGATION_OF_NEW}
# Hyperparameters of the wrapped optimizer that wrappers of TF 2.4 to 2.10 passed on.
_HYPERPARAMETERS = {*members.HYPERPARAMETERS, *members.HYPERPARAMETERS_OF_FTRL, *members.CLIPPING}
# mpls' wrappers have these members of legacy optimizers:
_WEIGHTS = {*members.WEIGHTS, "_create_all_weights"}
# Methods of legacy optimizers that fail on wrappers over them, and the members that both have.
_OF_LEGACY_OPTIMIZERS_ALONE = {*members.HYPERPARAMETER_METHODS, *members.HYPERPARAMETER_SERIALIZERS}
_OF_LEGACY_OPTIMIZERS = {*_WEIGHTS, *members.LEGACY_USES, *members.LEGACY_INTERNALS} - _OF_LEGACY_OPTIMIZERS_ALONE


def needs_wrapper_of_mpls(failure: Failure) -> bool:
    """Return whether the program uses Keras' own LossScaleOptimizer, which lacks a member that TF 2.4's had."""
    holder, name = _asked(failure)
    home = _home_of_wrapper(holder)
    lacks = {"keras": _OF_WRAPPERS | _OF_KERAS_2 | _WEIGHTS, "tf_keras": _WEIGHTS}.get(home, set())
    is_known = name in lacks or (home != "" and _is_hyperparameter(holder, name))
    is_replaced = bool(failure.settings.get("replace_existing"))
    return is_known and not is_replaced and _is_by_program(failure, holder)


def subclasses_wrapper_of_keras_2(failure: Failure) -> bool:
    """Return whether a subclass of Keras 2's public LossScaleOptimizer is given arguments, or passes them on.

    The public class makes objects of other classes, and its own constructor takes no arguments.
    """
    if failure.settings.get("replace_existing") or not isinstance(failure.error, TypeError):
        return False
    text = str(failure.error)
    if text.startswith("object.__init__() takes exactly one argument"):
        return _home_of_wrapper(failure.site.this) == "tf_keras"
    refused = re.fullmatch(r"(\w+)\(\) takes no arguments", text)
    return refused is not None and refused[1] in _subclasses_of_wrapper()


def _subclasses_of_wrapper() -> set[str]:
    """Return the names of the classes that a program has derived from Keras 2's public LossScaleOptimizer."""
    precision = getattr(sys.modules.get("tf_keras"), "mixed_precision", None)
    waiting = [] if precision is None else [getattr(precision, WRAPPER)]
    names: set[str] = set()
    while waiting:
        found = type.__subclasses__(waiting.pop())
        names.update(each.__name__ for each in found if each.__module__.partition(".")[0] != "tf_keras")
        waiting += found
    return names


def scales_with_wrapper_of_compile(failure: Failure) -> bool:
    """Return whether `compile` of Keras 3 wrapped an optimizer, and the program uses it like Keras 2's wrapper."""
    holder, name = _asked(failure)
    is_known = name in _OF_WRAPPERS | _OF_KERAS_2 and _home_of_wrapper(holder) == "keras"
    return is_known and failure.has_no_keras_2 and _is_by_compile(failure, holder)


def needs_keras_2_for_optimizers(failure: Failure) -> bool:
    """Return whether the program uses a member of Keras 2's optimizers on an optimizer of Keras 3."""
    holder, name = _asked(failure)
    is_optimizer = _has_optimizer_of("keras", holder) and not _is_wrapper(holder)
    return name in _OF_KERAS_2 and failure.has_no_keras_2 and is_optimizer


def needs_legacy_optimizers(failure: Failure) -> bool:
    """Return whether the program uses, on Keras 3, a member that optimizers had up to TF 2.10."""
    return failure.has_no_keras_2 and _lacks_of_legacy(failure, "keras")


def needs_legacy_optimizers_of_keras_2(failure: Failure) -> bool:
    """Return whether the program uses, on Keras 2, a member that optimizers had up to TF 2.10."""
    return not failure.settings.get("legacy_optimizers") and _lacks_of_legacy(failure, "tf_keras")


def _lacks_of_legacy(failure: Failure, package: str) -> bool:
    holder, name = _asked(failure)
    known = _OF_LEGACY_OPTIMIZERS | (set() if _is_wrapper(holder) else _OF_LEGACY_OPTIMIZERS_ALONE)
    if name in known:
        return _has_optimizer_of(package, holder)
    is_handed_on = _is_hyperparameter(holder, name) and _home_of_wrapper(holder) == package
    return is_handed_on and _is_by_compile(failure, holder)


def _asked(failure: Failure) -> tuple[Any, str]:
    """Return the object that lacks a member, and the member's name: an attribute, a method or an argument."""
    holder, name = failure.missing
    text = str(failure.error)
    if name or not isinstance(failure.error, TypeError):
        return holder, name
    if "object is not callable" in text and failure.site.is_call and failure.site.reads[-1:] == ("variables",):
        return failure.site.owner("variables"), "variables"
    refused = re.match(r"(\w+)\.apply_gradients\(\) got an unexpected keyword argument '(\w+)'", text)
    owner = failure.site.owner_of_call("apply_gradients")
    if refused is None or not _is_method_of_keras_3(owner, refused[1]):
        return None, ""
    return owner, refused[2]


def _is_method_of_keras_3(owner: Any, class_name: str) -> bool:
    named = [each for each in type(owner).__mro__ if each.__name__ == class_name and "apply_gradients" in vars(each)]
    return bool(named) and all(each.__module__.partition(".")[0] == "keras" for each in named)


def _has_optimizer_of(package: str, value: Any) -> bool:
    bases = type(value).__mro__
    return any(each.__name__ == "Optimizer" and each.__module__.partition(".")[0] == package for each in bases)


def _is_wrapper(value: Any) -> bool:
    return any(each.__name__ in _WRAPPERS for each in type(value).__mro__)


def _home_of_wrapper(value: Any) -> str:
    """Return the Keras package whose own wrapper a value is; "" for wrappers of mpls and any other value."""
    homes = {each.__module__.partition(".")[0] for each in type(value).__mro__ if each.__name__ in _WRAPPERS}
    found = homes & {"keras", "tf_keras"}
    return "" if "mpls" in homes or not found else found.pop()


def _is_hyperparameter(wrapper: Any, name: str) -> bool:
    return name in _HYPERPARAMETERS and hasattr(getattr(wrapper, "inner_optimizer", None), name)


def _is_by_program(failure: Failure, wrapper: Any) -> bool:
    """Return whether the program certainly made the wrapper itself, by the name that Keras 2 had too."""
    here = _source(failure)
    is_of_keras_3 = f"optimizers.{WRAPPER}" in here or f"optimizers import {WRAPPER}" in here
    is_named = WRAPPER in here or mentions(failure, [WRAPPER], where_unknown=False)
    return is_named and not is_of_keras_3 and _made_by_compile(wrapper) is not True


def _is_by_compile(failure: Failure, wrapper: Any) -> bool:
    made_by_compile = _made_by_compile(wrapper)
    if made_by_compile is not None:
        return made_by_compile
    return WRAPPER not in _source(failure) and not mentions(failure, [WRAPPER], where_unknown=True)


def _source(failure: Failure) -> str:
    """Return the source of the module where the error arose."""
    frame = failure.site.frame
    # Code that AutoGraph generates is in a file of its own.
    files = {frame.f_code.co_filename, str(frame.f_globals.get("__file__"))}
    return "".join(line for file in files for line in linecache.getlines(file))


def _made_by_compile(wrapper: Any) -> bool | None:
    """Return whether `compile` made the wrapper, around the optimizer that it was given; None if no model tells."""
    for model in gc.get_objects():
        if not any(each.__name__ == "Model" for each in type(model).__mro__):
            continue
        config = getattr(table.KERAS_3_COMPILED.kept_in(model), "config", {})
        if "optimizer" in config and vars(model).get("optimizer") is wrapper:
            return config["optimizer"] is not wrapper
    return None
