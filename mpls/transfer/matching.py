"""Which variable of the target corresponds to which variable of the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mpls.errors import ArgumentTypeError, SavedStateError, error_text
from mpls.formats.record import VariableRecord
from mpls.formats.validity import SEE_MIGRATION

Shape = tuple[int, ...]


def match(
    sources: Sequence[VariableRecord],
    names: Sequence[str | None],
    shapes: Sequence[set[Shape]],
    *,
    is_ordered: bool,
    goes_by_order: bool,
    subject: str,
) -> list[int]:
    """Return the index of each target variable's source.

    Args:
        sources: the variables of the source.
        names: the names of the target's variables.
        shapes: for each target variable, the set of the shapes of its slots.
        is_ordered: whether the sources are in the order in which the optimizer got them.
        goes_by_order: whether sources and targets are in the same order, so that names do not matter.
        subject: the origin of the sources, for the error.

    Raises:
        SavedStateError: the numbers of variables differ, or neither names nor order nor shapes tell the pairs.
    """
    problem = None
    if len(sources) != len(names):
        problem = f"have as many variables as the optimizer, {len(names)}; got {len(sources)}"
    elif goes_by_order:
        return list(range(len(names)))
    else:
        own = [each.name or each.key for each in sources]
        found = _by_name(own, names)
        if found is not None:
            return found
        problem = "name the variables as the target does, or have them in an order; got other names"
        if is_ordered and _fits(sources, shapes):
            contradiction = _contradiction(own, names)
            if contradiction is None:
                return list(range(len(names)))
            problem = f"have equal names at equal places; got {contradiction!r} at another place"
        elif is_ordered:
            problem = "have the shapes of the target's variables, one by one; got others"
        elif (by_shape := _by_shape(sources, shapes)) is not None:
            return by_shape
    raise SavedStateError(
        f"{subject}: the source must {problem}. The source has {_listed(sources)}. The target has "
        f"{_listed_target(names, shapes)}. Say which is which: variables={{key of the source: variable}}. "
        f"{SEE_MIGRATION}"
    )


def match_keys(
    sources: Sequence[VariableRecord], names: Sequence[str | None], keys: Sequence[str], subject: str
) -> list[int]:
    """Return the index of each target variable's source, if the user has given the keys of the sources.

    Args:
        sources: the variables of the source.
        names: the names of the target's variables, for the error.
        keys: the key or the name of each target variable's source.
        subject: the origin of the sources, for the error.

    Raises:
        SavedStateError: a key is not that of one source, or two keys are of the same source.
    """
    found = []
    for key in keys:
        indices = [i for i, each in enumerate(sources) if each.key == key]
        indices = indices or [i for i, each in enumerate(sources) if each.name and _tidy(each.name) == _tidy(key)]
        if len(indices) != 1 or indices[0] in found:
            raise SavedStateError(
                f"{subject}: the keys of `variables` must each be the key or the name of one variable of the source; "
                f"got {key!r}. The source has {_listed(sources)}. The target has {', '.join(map(str, names))}. "
                f"{SEE_MIGRATION}"
            )
        found += indices
    return found


def _by_name(own: Sequence[str | None], names: Sequence[str | None]) -> list[int] | None:
    ours, theirs = _plain(own), _plain(names)
    if ours is None or theirs is None or set(ours) != set(theirs) or len(set(ours)) != len(ours):
        return None
    return [ours.index(name) for name in theirs]


def _plain(names: Sequence[str | None]) -> Sequence[str | None] | None:
    """Return names without the leading scopes that all of them share; None if a name is missing."""
    parts = [_tidy(name).split("/") for name in names if name]
    if len(parts) != len(names):
        return None
    while all(len(each) > 1 for each in parts) and len({each[0] for each in parts}) == 1 and parts:
        parts = [each[1:] for each in parts]
    return ["/".join(each) for each in parts]


def _tidy(name: str) -> str:
    return name.partition(":")[0].strip("/")


def _fits(sources: Sequence[VariableRecord], shapes: Sequence[set[Shape]]) -> bool:
    return all(_shapes_of(source) <= shape for source, shape in zip(sources, shapes, strict=True))


def _shapes_of(source: VariableRecord) -> set[Shape]:
    return {tuple(value.shape) for value in source.slots.values()}


def _contradiction(own: Sequence[str | None], names: Sequence[str | None]) -> str | None:
    """Return a name that is unique on both sides but at different positions; None if there is none."""
    sides = [_plain(side) or [_tidy(name) if name else None for name in side] for side in (own, names)]
    ours, theirs = sides
    once = Counter(ours)
    for index, name in enumerate(theirs):
        if name is not None and once[name] == 1 and theirs.count(name) == 1 and ours.index(name) != index:
            return name
    return None


def _by_shape(sources: Sequence[VariableRecord], shapes: Sequence[set[Shape]]) -> list[int] | None:
    ours = [frozenset(_shapes_of(each)) for each in sources]
    theirs = [frozenset(each) for each in shapes]
    if len(set(ours)) != len(ours) or set(ours) != set(theirs):
        return None
    return [ours.index(each) for each in theirs]


def _listed(sources: Sequence[VariableRecord]) -> str:
    return ", ".join(f"{each.key or each.name} {_shown(_shapes_of(each))}" for each in sources) or "none"


def _listed_target(names: Sequence[str | None], shapes: Sequence[set[Shape]]) -> str:
    return ", ".join(f"{name} {_shown(shape)}" for name, shape in zip(names, shapes, strict=True)) or "none"


def _shown(shapes: Any) -> str:
    return " and ".join(str(list(shape)) for shape in sorted(shapes))


def is_ordered(family: str, sources: Sequence[VariableRecord]) -> bool:
    """Return whether the variables of a record are in the order in which the optimizer got them.

    Those of new and Keras 3 optimizers are, since files number them. Those of other families are in any order if they
    have keys.
    """
    return family in ("new", "keras3") or all(each.key is None for each in sources)


def given_variables(variables: Sequence[Any] | Mapping[str, Any] | None) -> tuple[list[Any] | None, list[str] | None]:
    """Return the variables that a user has passed as a list, and their keys in the source if they are a dict.

    Raises:
        ArgumentTypeError: it is a single variable, or cannot be iterated over.
    """
    if variables is None:
        return None, None
    if hasattr(variables, "assign") or not isinstance(variables, Iterable):
        raise ArgumentTypeError(
            error_text(
                "convert_state: variables",
                "be a list of variables, or a dict of them by their keys in the source",
                variables,
                "convert_state(source, optimizer, [variable])",
                "another-keras",
            )
        )
    if isinstance(variables, Mapping):
        return list(variables.values()), list(variables)
    return list(variables), None
