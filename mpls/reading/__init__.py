"""What a program needs, told from its source: nothing of it runs, and no framework is imported."""

from __future__ import annotations

from mpls.reading.deciding import Choice, Decision, Disagreement, decide
from mpls.reading.pins import pins_of
from mpls.reading.programs import code, module, script
from mpls.reading.sign import Sign
from mpls.reading.signs import old_policy, signs_of
from mpls.reading.sources import Program
from mpls.reading.targets import Found, Unread, found_at
from mpls.reading.uses import Use, Uses, Where
from mpls.reading.walking import uses_of

__all__ = [
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
]


class Reading:
    """What is in the source of a program.

    Args:
        program: its files.

    Attributes:
        program: its files.
        uses: what it uses.
        signs: what its lines tell.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.uses = uses_of(program)
        self.signs = [*signs_of(self.uses), *pins_of(program)]

    def decide(self, keras: int | None = None) -> Decision:
        """Decide which options it needs; none if it is larger than what is read.

        Args:
            keras: the generation of Keras that the user has asked for; None to decide that too.
        """
        if not self.program.is_whole or not self.program.sources:
            return Decision()
        return decide(self.uses, self.signs, self.program.sources[0].shown, keras)
