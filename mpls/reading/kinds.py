"""Finds, by name, which of a program's variables, classes and functions are optimizers, wrappers or policies."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mpls.program.objects import LEGACY_OPTIMIZER, MODEL, NEW_WRAPPER, OPTIMIZER, POLICY, kind_of
from mpls.reading.alternatives import PossiblePath
from mpls.reading.resolving import chain_of
from mpls.reading.uses import Member, Uses

__all__ = ["MODELS_OPTIMIZER", "Kinds"]

MODELS_OPTIMIZER = "model's optimizer"
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
        self._of_call: dict[ast.Call, set[str]] = {}
        for use in uses.uses:
            if use.call is not None:
                self._of_call.setdefault(use.call, set()).add(kind_of(use.path))
        self._wrapped = set(self._found_wrapped())
        for _ in range(_ROUNDS):
            for kind, name in self._found_makers():
                self._makers.setdefault(kind, set()).add(name)
            for kind, name in (*self._found_variables(), *self._found_passed()):
                self._variables.setdefault(kind, set()).add(name)

    def receiver_is(self, member: Member, kind: str) -> bool:
        """Return whether the object that a member is read from is of a kind, and no policy."""
        if len(member.chain) < 2:
            return False
        receiver = member.chain[-2]
        if receiver == "":
            return member.maker is not None and kind in self._of_value(member.maker)[1]
        if receiver == "self":
            return member.within in self._makers.get(kind, ())
        return receiver in self._variables.get(kind, ()) and receiver not in self._variables.get(POLICY, ())

    def is_of_models_optimizer(self, member: Member) -> bool:
        """Return whether a member is read from a model's optimizer: `self.model.optimizer`, or a variable for it."""
        if self.receiver_is(member, MODELS_OPTIMIZER):
            return not any(self.receiver_is(member, kind) for kind in self._variables if kind != MODELS_OPTIMIZER)
        holder = Member(member.chain[:-1], member.where, member.is_certain, within=member.within)
        return self._is_models_optimizer(holder)

    def _is_models_optimizer(self, member: Member) -> bool:
        if member.chain[-1:] != ("optimizer",) or len(member.chain) < 2:
            return False
        return member.chain[-2] == "model" or self.is_only(member, MODEL)

    def is_only(self, member: Member, kind: str) -> bool:
        """Return whether every object that the program assigns to the name a member is read from is of a kind.

        For wrappers, the optimizer that a name had before it got the wrapper around it does not count.
        """
        receiver = member.chain[-2] if len(member.chain) > 1 else ""
        if receiver == "self":
            return self.receiver_is(member, kind)
        if receiver == "" and member.maker is not None:
            return self._of_value(member.maker)[1] == {kind}
        made = [
            (receiver, {kind_of(use.path)})
            for use in self._uses.uses
            if use.call is not None and use.target == receiver
        ]
        for each in self._uses.members:
            if each.call is not None and each.target == receiver:
                made.append((each.chain[-1], set(self._of_found([PossiblePath(each.chain[-1], True)]))))
        if kind == NEW_WRAPPER:
            made += [self._of_value(value) for target, value in self._uses.passed if target == receiver]
        may_be = {name: {kind} | (_UNWRAPPED if name in self._wrapped else set()) for name, _ in made}
        return any(kind in kinds for _, kinds in made) and all(kinds and kinds <= may_be[name] for name, kinds in made)

    def _of_value(self, value: ast.expr) -> tuple[str, set[str]]:
        """Return the name of a variable or of what is called, and the kinds that its value may be of."""
        if isinstance(value, ast.Call):
            name = chain_of(value.func)[-1]
            kinds = self._of_call.get(value)
            return name, kinds or set(self._of_found([PossiblePath(name, True)]))
        name = chain_of(value)[-1]
        return name, {kind for kind, names in self._variables.items() if name in names}

    def _found_wrapped(self) -> Iterator[str]:
        """Yield variables that get a wrapper around their own value, and functions that return them."""
        wrapped: set[str] = set()
        for use in self._uses.uses:
            if use.call is not None and use.target and kind_of(use.path) == NEW_WRAPPER:
                wrapped.update(chain_of(each)[-1] for each in use.call.args if chain_of(each)[-1] == use.target)
        yield from wrapped
        for name, returned in self._uses.returns.items():
            if any(chain_of(value)[-1] in wrapped for value, _ in returned):
                yield name

    def _found_makers(self) -> Iterator[tuple[str, str]]:
        for each in self._uses.classes:
            for kind in self._of_found(each.bases):
                yield kind, each.name
        for name, returned in self._uses.returns.items():
            for value, found in returned:
                called = [PossiblePath(chain_of(value.func)[-1], True)] if isinstance(value, ast.Call) else []
                kinds = {*self._of_found(found), *self._of_found(called)} if isinstance(value, ast.Call) else set()
                kinds |= {kind for kind, names in self._variables.items() if chain_of(value)[-1] in names}
                for kind in kinds:
                    yield kind, name

    def is_unknown(self, member: Member) -> bool:
        """Return whether the kind of the object that a member is read from is unknown."""
        receiver = member.chain[-2] if len(member.chain) > 1 else ""
        return receiver not in ("", "self") and not any(receiver in names for names in self._variables.values())

    def _found_variables(self) -> Iterator[tuple[str, str]]:
        for name, path in self._uses.checked:
            if kind_of(path):
                yield kind_of(path), name
        for use in self._uses.uses:
            if use.call is not None and use.target:
                kind = kind_of(use.path)
                if kind:
                    yield kind, use.target
        for member in self._uses.members:
            if member.call is None and member.target and self._is_models_optimizer(member):
                yield MODELS_OPTIMIZER, member.target
            if member.call is not None and member.target:
                for kind in self._of_found([PossiblePath(member.chain[-1], True)]):
                    yield kind, member.target

    def _found_passed(self) -> Iterator[tuple[str, str]]:
        for target, value in self._uses.passed:
            if NEW_WRAPPER in self._of_value(value)[1]:
                yield NEW_WRAPPER, target

    def _of_found(self, found: Iterable[PossiblePath]) -> Iterator[str]:
        for each in found:
            kind = kind_of(each.path)
            if kind:
                yield kind
            yield from (kind for kind, names in self._makers.items() if each.path in names)
