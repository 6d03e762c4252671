"""Paths that a name may stand for, and which of them it stands for today, where a test for the release decides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from mpls.program.objects import EXPERIMENTAL_WRAPPER, NEW_WRAPPER, kind_of

__all__ = ["Branch", "PossiblePath", "merged", "of_today", "on_branch"]


class Branch(IntEnum):
    """On which branch of a test for the release a name is bound.

    `TRIED` is the one that runs if something is there, such as the body of a `try`; `FALLBACK` runs if it is not, such
    as its handlers. Under mpls all historical names are there. Of `GATED` ones, it is unknown which runs.
    """

    NONE = 0
    FALLBACK = 1
    GATED = 2
    TRIED = 3

    def within(self, outer: Branch) -> Branch:
        """Return the branch of something on this branch of a test that is itself on an outer branch."""
        return outer if self is Branch.NONE or outer is Branch.FALLBACK else self


@dataclass(frozen=True)
class PossiblePath:
    """A path that a name may stand for.

    Attributes:
        path: the path, with `tf` for the package tensorflow.
        is_certain: whether the name stands for it on every release.
        branch: the branch of a test for the release on which it does.
    """

    path: str
    is_certain: bool
    branch: Branch = Branch.NONE


def on_branch(found: Iterable[PossiblePath], branch: Branch) -> list[PossiblePath]:
    """Return what is found on a branch; unless that is `NONE`, it is uncertain."""
    return [
        PossiblePath(each.path, each.is_certain and branch is Branch.NONE, each.branch.within(branch)) for each in found
    ]


def merged(found: Iterable[PossiblePath], is_certain: bool) -> list[PossiblePath]:
    """Return each path once; it is certain if all that was found is, and `is_certain`."""
    of_path: dict[str, PossiblePath] = {}
    for each in found:
        before = of_path.get(each.path, PossiblePath(each.path, is_certain))
        of_path[each.path] = PossiblePath(
            each.path, before.is_certain and each.is_certain, max(before.branch, each.branch)
        )
    return list(of_path.values())


def of_today(found: list[PossiblePath]) -> list[PossiblePath]:
    """Return the public wrapper alone, where a test for the release chooses between it and the experimental one.

    The releases of today have it, so a program takes it, unless it looks for the experimental one first: `mpls` has
    that. Which of the two the program was written for does not matter: it uses what both have.
    """
    public = [each for each in found if kind_of(each.path) == NEW_WRAPPER]
    other = [each for each in found if kind_of(each.path) == EXPERIMENTAL_WRAPPER]
    if not public or not other or not all(each.branch for each in (*public, *other)):
        return found
    first = [each for each in (*public, *other) if each.branch is Branch.TRIED]
    return found if first and not any(each in public for each in first) else [PossiblePath(public[0].path, True)]
