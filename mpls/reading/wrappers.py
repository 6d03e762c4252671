"""Finds signs that a program needs the LossScaleOptimizer of Keras 2, whose name Keras 3 gave to another class."""

from __future__ import annotations

from collections.abc import Iterator

from mpls.optimizer_members import (
    AGGREGATION_OF_LEGACY,
    HYPERPARAMETERS,
    SCALING_METHODS,
    WEIGHTS,
    WRAPPER_ATTRIBUTES,
)
from mpls.program.objects import EXPERIMENTAL_WRAPPER, NEW_WRAPPER, kind_of
from mpls.reading.kinds import Kinds
from mpls.reading.uses import Member, Sign, Uses, keywords_of

__all__ = ["NOT_OF_THE_LAST", "of_wrappers"]

# Members of Keras 2's wrappers; mpls.reading.signs looks for the two that are left out here.
_OF_WRAPPERS = {*WRAPPER_ATTRIBUTES, *WEIGHTS} - {"_loss_scale", "dynamic_counter"}
# Hyperparameters that the wrapper of mpls passes on from a wrapped optimizer that has them.
_HYPERPARAMETERS = {*HYPERPARAMETERS, "decay", "lr"}
# Members that the last wrapper of Keras 2, the one for new optimizers, no longer has.
NOT_OF_THE_LAST = {*_HYPERPARAMETERS, "weights", "get_weights"} - {"lr"}
_CALLS_OF_WRAPPERS = (*SCALING_METHODS, "minimize", "variables")


def of_wrappers(uses: Uses, kinds: Kinds) -> Iterator[Sign]:
    """Yield these signs."""
    made = {kind_of(use.path) for use in uses.uses if use.is_certain}
    for member in uses.members:
        if member.chain[-1] in uses.defined or not member.is_certain:
            continue
        # An unknown object can only be this kind of wrapper if the program makes no other kind.
        can_be = NEW_WRAPPER in made and EXPERIMENTAL_WRAPPER not in made and kinds.is_unknown(member)
        is_one = kinds.receiver_is(member, NEW_WRAPPER)
        # Names like `optimizer` may be given to several things.
        is_only = is_one and kinds.is_only(member, NEW_WRAPPER)
        what = _of_wrapper(member, can_be or is_one, is_only)
        if what:
            yield Sign("replace_existing", True, member.where, what)
            if member.chain[-1] in NOT_OF_THE_LAST:
                yield Sign("wrapper", True, member.where, what)
    yield from _of_calls(uses)
    yield from _of_subclasses(uses)
    for path, where in uses.type_is:
        if kind_of(path) == NEW_WRAPPER:
            yield Sign("wrapper", True, where, f"asks whether a type is {path}")


def _of_calls(uses: Uses) -> Iterator[Sign]:
    for use in uses.uses:
        if not use.is_certain or kind_of(use.path) != NEW_WRAPPER or use.call is None:
            continue
        if "dynamic" in keywords_of(use):
            yield Sign("replace_existing", True, use.where, f"gives {use.path} dynamic=")
        elif len(use.call.args) > 1 and isinstance(getattr(use.call.args[1], "value", None), bool):
            yield Sign("replace_existing", True, use.where, f"gives {use.path} whether it is dynamic")


def _of_subclasses(uses: Uses) -> Iterator[Sign]:
    for each in uses.classes:
        paths = [base.path for base in each.bases if base.is_certain and kind_of(base.path) == NEW_WRAPPER]
        for path in paths if each.is_certain else ():
            yield Sign("wrapper", True, each.where, f"derives from {path}")
            if AGGREGATION_OF_LEGACY in each.arguments:
                what = f"takes {AGGREGATION_OF_LEGACY} in a subclass of {path}"
                yield Sign("legacy_optimizers", True, each.where, what)
                yield Sign("replace_existing", True, each.where, what)


def _of_wrapper(member: Member, can_be: bool, is_only: bool) -> str:
    """Return what a line does with a member that only wrappers of Keras 2 have: "sets .lr of a wrapper"; else ""."""
    name = member.chain[-1]
    if name in SCALING_METHODS:
        return f"calls .{name}()" if member.call is not None and can_be else ""
    if not is_only:
        return ""
    if name in _CALLS_OF_WRAPPERS:
        return f"calls .{name}() of a wrapper" if member.call is not None else ""
    if name == "apply_gradients" and AGGREGATION_OF_LEGACY in keywords_of(member):
        return f"gives .apply_gradients() {AGGREGATION_OF_LEGACY}="
    if name in _OF_WRAPPERS or name in _HYPERPARAMETERS:
        return f"{'sets' if member.is_set else 'uses'} .{name} of a wrapper"
    return ""
