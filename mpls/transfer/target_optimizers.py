"""Targets of transfers: the slots that they have, or will have once they are built, and assigning them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpls.errors import ArgumentValueError, error_text
from mpls.formats.algorithms import AVERAGE, MOMENTUM_PRODUCTS, expected_slots, has_momentum_product
from mpls.formats.validity import ANCHOR
from mpls.transfer.hosts import Described, Host, description_of, dtype_of, name_of
from mpls.transfer.settings import set_settings


@dataclass(frozen=True)
class Target:
    """A live optimizer that will get state.

    Attributes:
        host: the optimizer.
        variables: the variables that the user has passed; None for all that it is built with.
        is_built: whether it has its slots.
        described: its variables and their slots.
        others: the names of its other variables.
    """

    host: Host
    variables: Sequence[Any] | None
    is_built: bool
    described: Sequence[Described]
    others: Sequence[str]


def target_of(
    host: Host, variables: Sequence[Any] | None, config: Mapping[str, Any], values: Mapping[str, Any], *, is_part: bool
) -> Target:
    """Return a target with the slots that it has or will have; the optimizer stays as it is.

    Args:
        host: the optimizer.
        variables: the variables that the user has passed, or None.
        config: its settings after the transfer.
        values: those of these settings that will be set.
        is_part: whether the variables may be a part of those that it is built with.

    Raises:
        ValueError: it is not built and there are no variables, or the variables are not those that it is built with.
    """
    is_built = host.is_built(variables)
    if not is_built and variables is None:
        advice = "convert_state(source, optimizer, model.trainable_variables)"
        raise ArgumentValueError(
            error_text("convert_state: variables", "be given for an optimizer that is not built", None, advice, ANCHOR)
        )
    if is_built:
        if host.family != "legacy" and variables is not None and not is_part:
            _require_all(host, variables)
        return Target(
            host, variables, True, [description_of(each) for each in host.places(variables)], list(host.others())
        )
    given = list(variables or ())
    if host.state is not None and type(host.inner).__module__.partition(".")[0] in ("tf_keras", "keras"):
        slots = expected_slots(host.state, host.family, config)
        described = [
            Described(name_of(each), {name: (tuple(each.shape), dtype_of(each)) for name in slots}) for each in given
        ]
        return Target(host, given, False, described, _others(host))
    # A user's class says its slots only by building them, and an error must leave the optimizer as it was. So build a
    # copy.
    copied = _copy_of(host)
    set_settings(copied, values)
    copied.build(given)
    return Target(host, given, False, [description_of(each) for each in copied.places(given)], list(copied.others()))


def _copy_of(host: Host) -> Host:
    try:
        other = host.inner.from_config(host.inner.get_config())
    except (TypeError, ValueError, NotImplementedError) as error:
        advice = f"Call optimizer.build(variables) before, or define get_config: {error}"
        constraint = "be built, or one that its config makes again"
        raise ArgumentValueError(
            error_text("convert_state: optimizer", constraint, host.inner, advice, ANCHOR)
        ) from error
    return type(host)(other, other)


def _others(host: Host) -> list[str]:
    if not has_momentum_product(host.state):
        return []
    return [MOMENTUM_PRODUCTS[host.family]]


def _require_all(host: Host, variables: Sequence[Any]) -> None:
    built_with = len(host.places())
    if len(variables) != built_with:
        advice = "Pass all of them, or none"
        constraint = f"be the {built_with} that the optimizer is built with"
        raise ArgumentValueError(
            error_text("convert_state: variables", constraint, [name_of(each) for each in variables], advice, ANCHOR)
        )


def assign_slots(target: Target, slots: Sequence[Mapping[str, Any]], *, starts_averages: bool) -> list[tuple[str, ...]]:
    """Build a target if it is not built, and assign its slots.

    Args:
        target: the target.
        slots: the values of each variable's slots, by the names in `mpls.formats.algorithms`.
        starts_averages: whether the averages of variables are set to the variables' values.

    Returns:
        For each variable, the sorted names of its slots that got values of `slots`.
    """
    if not target.is_built:
        target.host.build(list(target.variables or ()))
    assigned = []
    for place, values in zip(target.host.places(target.variables), slots, strict=True):
        for name, value in values.items():
            place.slots[name].assign(np.asarray(value))
        if starts_averages and AVERAGE in place.slots and place.variable is not None:
            place.slots[AVERAGE].assign(place.variable.numpy())
        assigned.append(tuple(sorted(values)))
    return assigned
