"""Finds, by name, which of a program's variables, classes and functions are optimizers, wrappers or policies."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator

from mpls.names import named
from mpls.reading.resolving import Found, chain_of
from mpls.reading.tables import OPTIMIZERS, is_in
from mpls.reading.uses import Member, Uses

__all__ = [
    "EXPERIMENTAL_WRAPPER",
    "LEGACY_OPTIMIZER",
    "MODEL",
    "MODELS_OPTIMIZER",
    "NEW_WRAPPER",
    "OPTIMIZER",
    "POLICY",
    "Kinds",
    "keras_path",
    "kind_of",
]

OPTIMIZER = "optimizer"
LEGACY_OPTIMIZER = "legacy optimizer"
EXPERIMENTAL_WRAPPER = "experimental wrapper"
NEW_WRAPPER = "new wrapper"
POLICY = "policy"
MODEL = "model"
MODELS_OPTIMIZER = "model's optimizer"

_OF_TARGET = {
    "mpls.experimental:LossScaleOptimizer": EXPERIMENTAL_WRAPPER,
    "mpls.v1:enable_mixed_precision_graph_rewrite": EXPERIMENTAL_WRAPPER,
    "mpls.keras:LossScaleOptimizer": NEW_WRAPPER,
    "mpls.experimental:Policy": POLICY,
    "mpls.experimental:global_policy": POLICY,
    "mpls.experimental:get_layer_policy": POLICY,
    "mpls.keras:Policy": POLICY,
    "mpls.keras:global_policy": POLICY,
}
_OPTIMIZERS = {f"keras.optimizers.{name}" for name in OPTIMIZERS}
_MODELS = {f"keras.{name}" for name in ("Model", "Sequential", "models.Model", "models.Sequential")}
_MODELS |= {f"keras.models.{name}" for name in ("load_model", "clone_model", "model_from_json")}
_LEGACY = {f"keras.optimizers.legacy.{name}" for name in OPTIMIZERS}
# Functions that return the results of other functions are followed this deep.
_ROUNDS = 4


def keras_path(path: str) -> str:
    """Return a path in Keras as `keras.…`, whether spelled with `tf` or not; "" for a path outside Keras."""
    for root in ("tf.compat.v1.", "tf.compat.v2.", "tf."):
        if path.startswith(root):
            path = path.removeprefix(root)
            return path if path == "keras" or path.startswith("keras.") else ""
    return path if path == "keras" or path.startswith("keras.") else ""


@functools.cache
def kind_of(path: str) -> str:
    """Return the kind of object that calling a path returns; "" for none of these kinds."""
    row = named(path)
    if row is not None and row.target in _OF_TARGET:
        # `tf_keras.….LossScaleOptimizer` is tf_keras' own wrapper.
        is_theirs = path.startswith("tf_keras.") and _OF_TARGET[row.target] == NEW_WRAPPER
        return "" if is_theirs else _OF_TARGET[row.target]
    within = path.replace("tf.optimizers.", "tf.keras.optimizers.", 1)
    if is_in(keras_path(within), _LEGACY):
        return LEGACY_OPTIMIZER
    if is_in(keras_path(within), _MODELS):
        return MODEL
    return OPTIMIZER if is_in(keras_path(within), _OPTIMIZERS) else ""


class Kinds:
    """The kinds of a program's own variables, classes and functions, by name.

    Args:
        uses: what the program uses.
    """

    def __init__(self, uses: Uses) -> None:
        self._uses = uses
        self._variables: dict[str, set[str]] = {}
        self._makers: dict[str, set[str]] = {}
        for _ in range(_ROUNDS):
            for kind, name in self._found_makers():
                self._makers.setdefault(kind, set()).add(name)
            for kind, name in self._found_variables():
                self._variables.setdefault(kind, set()).add(name)

    def receiver_is(self, member: Member, kind: str) -> bool:
        """Return whether the object that a member is read from is of a kind, and no policy."""
        if len(member.chain) < 2:
            return False
        receiver = member.chain[-2]
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
        """Return whether every object that the program assigns to the name a member is read from is of a kind."""
        receiver = member.chain[-2] if len(member.chain) > 1 else ""
        if receiver == "self":
            return self.receiver_is(member, kind)
        made = [{kind_of(use.path)} for use in self._uses.uses if use.call is not None and use.target == receiver]
        for each in self._uses.members:
            if each.call is not None and each.target == receiver:
                made.append(set(self._of_found([Found(each.chain[-1], True)])))
        return bool(made) and all(kinds == {kind} for kinds in made)

    def _found_makers(self) -> Iterator[tuple[str, str]]:
        for each in self._uses.classes:
            for kind in self._of_found(each.bases):
                yield kind, each.name
        for name, returned in self._uses.returns.items():
            for value, found in returned:
                called = [Found(chain_of(value.func)[-1], True)] if isinstance(value, ast.Call) else []
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
                for kind in self._of_found([Found(member.chain[-1], True)]):
                    yield kind, member.target

    def _of_found(self, found: Iterable[Found]) -> Iterator[str]:
        for each in found:
            kind = kind_of(each.path)
            if kind:
                yield kind
            yield from (kind for kind, names in self._makers.items() if each.path in names)
