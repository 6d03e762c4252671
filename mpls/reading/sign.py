"""A line of a program that tells something."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from mpls.reading.uses import Member, Use, Where

__all__ = ["Release", "Sign", "keywords_of"]

Release = tuple[int, int]


@dataclass(frozen=True)
class Sign:
    """A line that tells something.

    Attributes:
        about: what of: an option, or "release" for the releases that the program was written for.
        value: what it tells; of releases, the first and the last.
        where: the line.
        what: what the line does, after its address: "uses tf.placeholder".
    """

    about: str
    value: bool | int | tuple[Release, Release]
    where: Where
    what: str


def keywords_of(use: Use | Member) -> list[str | None]:
    """Return the names of the arguments that a call is given; None for those of a dict that is not written there."""
    found: list[str | None] = []
    for keyword in () if use.call is None else use.call.keywords:
        keys = keyword.value.keys if keyword.arg is None and isinstance(keyword.value, ast.Dict) else []
        found += [getattr(key, "value", None) for key in keys] or [keyword.arg]
    return found
