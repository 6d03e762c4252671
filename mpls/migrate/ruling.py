"""What a rule is, and what rules say about places in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from mpls.migrate.source_text import Edit
from mpls.names import Name
from mpls.program.scopes import Chain, Role

if TYPE_CHECKING:
    import ast

    from mpls.migrate.analysis import Analysis

__all__ = ["Decision", "Finding", "Kind", "Note", "Rule", "Settings", "Use"]


@dataclass(frozen=True)
class Settings:
    """What the user has chosen.

    Attributes:
        rules: the names of the rules that apply.
        as_of: the release that the program was written for, `"2.2"`; None if it is not said.
        keras: the generation of Keras that the program will live with.
        is_native: whether to write today's own names of TensorFlow and Keras, where they mean the same.
    """

    rules: frozenset[str]
    as_of: str | None = None
    keras: int = 3
    is_native: bool = False


class Kind(Enum):
    """What a message is about."""

    CHANGED = "changed"
    # Something that works, but differs from what one might expect.
    NOTED = "noted"
    # Something that does not work yet, or may not.
    LEFT = "left"


class Finding(NamedTuple):
    """A message about a place.

    Attributes:
        offset: where it is, in bytes of the text.
        rule: the name of the rule.
        text: what was done, or what is left to do.
        kind: what it is about.
    """

    offset: int
    rule: str
    text: str
    kind: Kind


class Note(NamedTuple):
    """What a rule says about a part of a file: a text, as those of findings, and what it is about."""

    node: ast.expr | ast.stmt | ast.alias
    text: str
    kind: Kind = Kind.LEFT


@dataclass(eq=False, slots=True)
class Use:
    """A use of a historical name.

    Attributes:
        chain: the chain of names that it is in.
        node: the part of it that stands for the historical name.
        rows: the historical names that it may stand for.
        role: what it is used for.
    """

    chain: Chain
    node: ast.expr
    rows: list[Name]
    role: Role

    @property
    def call(self) -> ast.Call | None:
        """The call, if it is called."""
        return self.chain.call if self.role is Role.CALL else None


@dataclass(slots=True)
class Decision:
    """What becomes of a use.

    Attributes:
        path: the path to write in its place, `"mpls.keras.LossScaleOptimizer"`.
        edits: edits of the call's arguments.
        note: what to say about it, if anything.
        kind: what the note is about.
        otherwise: what becomes of it if the path cannot be written there.
    """

    path: str
    edits: list[Edit] = field(default_factory=list)
    note: str = ""
    kind: Kind = Kind.NOTED
    otherwise: Decision | None = None


Replace = Callable[["Use", "Analysis"], "Decision | None"]
Look = Callable[["Analysis"], Iterable["Edit | Note"]]


@dataclass(frozen=True)
class Rule:
    """A rule of the rewriter.

    Attributes:
        name: its name, for `--only` and `--skip`.
        text: what it changes, and why.
        owns: whether it replaces a historical name; None if it replaces none.
        replace: what becomes of a use of such a name, if not only the name.
        look: what else it finds in a file.
    """

    name: str
    text: str
    owns: Callable[[Name], bool] | None = None
    replace: Replace | None = None
    look: Look | None = None
