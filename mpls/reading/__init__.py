"""Finds out what a program needs from its source alone; runs none of it, and imports no framework."""

from __future__ import annotations

from mpls.program.files import MAX_BYTES_OF_RUN, without_collector
from mpls.reading.deciding import Choice, Decision, Disagreement, decide
from mpls.reading.pins import pins_of
from mpls.reading.programs import code, module, script
from mpls.reading.signs import old_policy, signs_of
from mpls.reading.sources import Program
from mpls.reading.targets import Found, Unread, found_at
from mpls.reading.uses import Sign, Use, Uses, Where
from mpls.reading.walking import uses_of

__all__ = [
    "MAX_BYTES_OF_RUN",
    "Choice",
    "Decision",
    "Disagreement",
    "Found",
    "Program",
    "Reading",
    "Sign",
    "Unread",
    "Use",
    "Uses",
    "Where",
    "code",
    "found_at",
    "module",
    "old_policy",
    "script",
    "without_collector",
]


class Reading:
    """The analysed source of a program.

    Args:
        program: its files.

    Attributes:
        program: its files.
        uses: the names and attributes that it uses.
        signs: the lines that show which options it needs.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.uses = uses_of(program)
        self.signs = [*signs_of(self.uses), *pins_of(program)]

    def decide(self, keras: int | None = None) -> Decision:
        """Decide which options the source shows that the program needs; none if it was too large to be read as a whole.

        Args:
            keras: the generation of Keras that the user asked for; None to decide that too.
        """
        if not self.program.is_whole or not self.program.sources:
            return Decision()
        return decide(self.uses, self.signs, self.program.sources[0].shown, keras)
