"""Which of a program's variables, classes and functions are optimizers, wrappers or policies, by their names.

Known is what they are assigned, in whatever file. What else shows that something is a wrapper is in `objects`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

from mpls.program.objects import LEGACY_OPTIMIZER, MODEL, NEW_WRAPPER, OPTIMIZER, POLICY, WRAPPER_OF_MPLS, kind_of
from mpls.program.uses import Access, Uses, Value

__all__ = ["Kinds"]

_MODELS_OPTIMIZER = "model's optimizer"
# Functions that return the results of other functions are followed this deep.
_ROUNDS = 4
_UNWRAPPED = {OPTIMIZER, LEGACY_OPTIMIZER}


class Kinds:
    """The kinds of a program's own variables, classes and functions, by name.

    Args:
        uses: what the program uses.
    """

    def __init__(self, uses: Uses) -> None:
        self._uses = uses
        self._variables: dict[str, set[str]] = {}
        self._makers: dict[str, set[str]] = {}
        self._all_makers: set[str] = set()
        self._made = [use for use in uses.uses if use.call is not None and use.target]
        self._called = [each for each in uses.accesses if each.call is not None and each.target]
        self._moved = [each for each in uses.accesses if each.call is None and each.target]
        self._bases = [(name, each.name) for each in uses.classes for name, _ in each.bases]
        self._wrapped = set(self._found_wrapped())
        for _ in range(_ROUNDS):
            before = _size(self._makers) + _size(self._variables)
            for kind, name in self._found_makers():
                self._makers.setdefault(kind, set()).add(name)
                self._all_makers.add(name)
            for kind, name in self._found_variables():
                self._variables.setdefault(kind, set()).add(name)
            if _size(self._makers) + _size(self._variables) == before:
                break

    def receiver_is(self, access: Access, kind: str) -> bool:
        """Return whether the object that an attribute is read from is of a kind, and no policy."""
        if len(access.chain) < 2:
            return False
        receiver = access.chain[-2]
        if receiver == "":
            return access.maker is not None and kind in self.of_value(access.maker)
        if receiver == "self":
            return access.within in self._makers.get(kind, ())
        return receiver in self._variables.get(kind, ()) and receiver not in self._variables.get(POLICY, ())

    def is_of_models_optimizer(self, access: Access) -> bool:
        """Return whether an attribute is read from `self.model.optimizer` or the like, or from a variable for it."""
        if self.receiver_is(access, _MODELS_OPTIMIZER):
            return not any(self.receiver_is(access, kind) for kind in self._variables if kind != _MODELS_OPTIMIZER)
        return self._is_models_optimizer(access._replace(chain=access.chain[:-1], maker=None))

    def may_be_of_models_optimizer(self, access: Access) -> bool:
        """Return the same, also for a variable that may be something else."""
        of_owner = access._replace(chain=access.chain[:-1], maker=None)
        return self.receiver_is(access, _MODELS_OPTIMIZER) or self._is_models_optimizer(of_owner)

    @functools.cached_property
    def are_compiled_of_mpls(self) -> bool:
        """Whether each model that is compiled gets a wrapper of mpls, also by a policy of mpls."""
        calls = [each.call for each in self._uses.accesses if each.chain[-1] == "compile" and each.call is not None]
        given = [call.first for call in calls if call.first is not None]
        has_policy = any(use.path == "mpls.experimental.set_policy" for use in self._uses.uses)
        return bool(given) and (has_policy or all(WRAPPER_OF_MPLS in self.of_value(each) for each in given))

    def _is_models_optimizer(self, access: Access) -> bool:
        if access.chain[-1:] != ("optimizer",) or len(access.chain) < 2:
            return False
        return access.chain[-2] == "model" or self.is_only(access, MODEL)

    def is_only(self, access: Access, kind: str) -> bool:
        """Return whether every object that the program assigns to the name of an attribute's object is of a kind.

        For wrappers, the optimizer that a name had before it got the wrapper around it does not count.
        """
        receiver = access.chain[-2] if len(access.chain) > 1 else ""
        if receiver == "self":
            return self.receiver_is(access, kind)
        if receiver == "" and access.maker is not None:
            return self.of_value(access.maker) == {kind}
        made = [(receiver, {kind_of(use.path)}) for use in self._made if use.target == receiver]
        made += [(each.chain[-1], self._made_by(each.chain[-1])) for each in self._called if each.target == receiver]
        # A test for the release may choose between it and one of mpls.
        same = {kind, WRAPPER_OF_MPLS} if kind == NEW_WRAPPER else {kind}
        may_be = {name: same | (_UNWRAPPED if name in self._wrapped else set()) for name, _ in made}
        return any(kind in kinds for _, kinds in made) and all(kinds and kinds <= may_be[name] for name, kinds in made)

    def is_unknown(self, access: Access) -> bool:
        """Return whether the kind of the object that an attribute is read from is unknown."""
        receiver = access.chain[-2] if len(access.chain) > 1 else ""
        return receiver not in ("", "self") and not any(receiver in names for names in self._variables.values())

    def _made_by(self, name: str) -> set[str]:
        """Return the kinds of objects that a function or class of the program makes."""
        if name not in self._all_makers:
            return set()
        return {kind for kind, names in self._makers.items() if name in names}

    def of_value(self, value: Value) -> set[str]:
        """Return the kinds that a value may be of."""
        if value.is_call:
            return set(value.kinds) or self._made_by(value.name)
        return {kind for kind, names in self._variables.items() if value.name in names}

    def _found_wrapped(self) -> Iterator[str]:
        """Yield variables that get a wrapper around their own value, and functions that return them."""
        wrapped = {
            use.target
            for use in self._made
            if use.call is not None and kind_of(use.path) == NEW_WRAPPER and use.target in use.call.names
        }
        yield from wrapped
        yield from (name for name, value in self._uses.returns if not value.is_call and value.name in wrapped)

    def _found_makers(self) -> Iterator[tuple[str, str]]:
        for base, name in self._bases:
            yield from ((kind, name) for kind in {kind_of(base)} - {""} | self._made_by(base))
        for name, value in self._uses.returns:
            kinds = set(value.kinds) - {""} | self._made_by(value.name) if value.is_call else self.of_value(value)
            yield from ((kind, name) for kind in kinds)

    def _found_variables(self) -> Iterator[tuple[str, str]]:
        yield from ((kind, name) for name, kind in self._uses.checked)
        for use in self._made:
            if kind_of(use.path):
                yield kind_of(use.path), use.target
        for access in self._moved:
            if self._is_models_optimizer(access):
                yield _MODELS_OPTIMIZER, access.target
        for access in self._called:
            yield from ((kind, access.target) for kind in self._made_by(access.chain[-1]))


def _size(names: Mapping[str, set[str]]) -> int:
    return sum(map(len, names.values()))
