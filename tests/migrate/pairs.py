"""What an input and its output are: the form of the cases of the rewriter."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    """A program before and after; the rules that say what is left, in the order of the lines."""

    before: str
    after: str
    left: tuple[str, ...] = ()
    as_of: str | None = None
    keras: int = 3
    is_native: bool = False

    @property
    def is_unchanged(self) -> bool:
        return self.before == self.after

    @property
    def options(self) -> list[str]:
        """The options of `mpls migrate`."""
        as_of = [] if self.as_of is None else ["--as-of", self.as_of]
        return [*as_of, "--keras", str(self.keras), *(["--to", "native"] if self.is_native else [])]


def becomes(before: str, after: str, *left: str, as_of: str | None = None, keras: int = 3) -> Pair:
    """A program that changes."""
    return Pair(_plain(before), _plain(after), left, as_of, keras)


def stays(program: str, *left: str, as_of: str | None = None, keras: int = 3) -> Pair:
    """A program that does not."""
    return Pair(_plain(program), _plain(program), left, as_of, keras)


def becomes_native(before: str, after: str, *left: str, as_of: str | None = None, keras: int = 2) -> Pair:
    """A program that gets today's own names."""
    return Pair(_plain(before), _plain(after), left, as_of, keras, is_native=True)


def _plain(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")
