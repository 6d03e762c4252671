"""What replaces each historical name and namespace: `mpls.names`, as the rewriter needs it."""

from __future__ import annotations

import functools
from typing import NamedTuple

from mpls.names import SCALE_CLASSES, named, namespaces

__all__ = ["Replacement", "alternatives", "home_of", "is_gone", "replacement_of"]

# Modules that have the same objects, for names that are imported from one statement.
_ALSO_IN = {"mpls.experimental": "mpls.v1", "mpls.v1": "mpls.experimental"}
_OF_POLICIES = "mpls.experimental.policy"


class Replacement(NamedTuple):
    """What to write in place of a historical name.

    Attributes:
        home: the module, `"mpls.experimental"`.
        name: its member.
    """

    home: str
    name: str

    @property
    def path(self) -> str:
        """The whole, `"mpls.experimental.Policy"`."""
        return f"{self.home}.{self.name}"


@functools.cache
def replacement_of(path: str) -> Replacement | None:
    """Return what replaces a historical name; None for a namespace, and for what is to stay as it is.

    What stays are names that only today's packages have (`tf_keras`, and those of Keras 3), and public names of
    policies that mean today what they have always meant.
    """
    row = named(path)
    if row is None or not row.replacement or row.needs_keras_3 or row.stays:
        return None
    home, _, name = row.target.partition(":")
    return Replacement(home, "LossScaleOptimizer" if name == "LossScaleOptimizerV3" else name)


def is_gone(path: str) -> bool:
    """Return whether a path is a historical name or namespace that TensorFlow has removed."""
    row = named(path)
    return row is not None and row.last is not None


@functools.cache
def home_of(path: str) -> str | None:
    """Return the module of mpls that has all members of a removed namespace, by their names; None if none has."""
    row = named(path)
    if row is None or not row.is_namespace or row.last is None:
        return None
    members = [each for each in namespaces().get(row.path, ()) if not each.is_namespace]
    homes = {each.target.partition(":")[0] for each in members}
    if homes <= {"mpls.experimental", _OF_POLICIES} and len(homes) > 1:
        return _OF_POLICIES
    return homes.pop() if len(homes) == 1 else None


def alternatives(replacement: Replacement) -> list[Replacement]:
    """Return a replacement, and the same object under another name."""
    if replacement.name in SCALE_CLASSES and replacement.home in _ALSO_IN:
        return [replacement, Replacement(_ALSO_IN[replacement.home], replacement.name)]
    return [replacement]
