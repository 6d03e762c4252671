"""Signs: lines of a program that show which options it needs."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from mpls.reading.uses import Member, Use, Where

__all__ = ["Release", "Sign", "keywords_of"]

Release = tuple[int, int]


@dataclass(frozen=True)
class Sign:
    """A line that shows something about a program.

    Attributes:
        about: its subject: an option, or "release" for the releases that the program was written for.
        value: the value for that subject; for releases, the first and the last.
        where: the line.
        what: what the line does, as text that follows its address: "uses tf.placeholder".
    """

    about: str
    value: bool | int | tuple[Release, Release]
    where: Where
    what: str


def keywords_of(use: Use | Member) -> list[str | None]:
    """Return the names of a call's keyword arguments; None for `**arguments` whose dict is not a literal."""
    found: list[str | None] = []
    for keyword in () if use.call is None else use.call.keywords:
        keys = keyword.value.keys if keyword.arg is None and isinstance(keyword.value, ast.Dict) else []
        found += [getattr(key, "value", None) for key in keys] or [keyword.arg]
    return found
