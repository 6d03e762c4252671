"""Reads the user's files once each, and keeps what is known of them."""

from __future__ import annotations

import re

from mpls.migrate.analysis import Analysis
from mpls.migrate.rules import RULES
from mpls.migrate.ruling import Settings
from mpls.migrate.source_text import Encoded, SourceText, UnreadableError
from mpls.migrate.tree_facts import API_WORDS, NO_FACTS, Facts, facts_of
from mpls.program.meaning import Meanings, Neighbours

__all__ = ["MAX_BYTES", "Reader"]

MAX_BYTES = 1_000_000


class Reader:
    """The user's files, as far as they are needed.

    Args:
        settings: what the user has chosen.
        top: the folder that is migrated, or "".
        facts: what all files that are migrated say.
    """

    def __init__(self, settings: Settings, top: str = "", facts: Facts = NO_FACTS) -> None:
        self.settings = settings
        self._top = top
        self._facts = facts
        names = facts.passed_on
        self._words = re.compile(b"|".join([API_WORDS, *(rb"\b%s\b" % name for name in sorted(names))]))
        self._known: dict[str, Analysis | None] = {}

    def concerns(self, content: bytes) -> bool:
        """Return whether a file may have something that a rule looks at."""
        return self._words.search(content) is not None

    def analyse(self, text: SourceText, file: str | None) -> Analysis:
        """Return the analysis of a text that is in a file, or beside one."""
        # Those of standard input, and of a module outside, are not among all.
        facts = self._facts | facts_of(text.utf8)._replace(has_wrappers=False)
        return Analysis(text, Neighbours(file, self._top), self, RULES, self.settings, facts)

    def analysis(self, file: str) -> Analysis | None:
        """Return what is known of a module of the user's, with what becomes of it; None if it cannot be read."""
        found = self._found(file)
        return None if found is None else found.decide()

    def meanings(self, file: str) -> Meanings | None:
        """Return what the names in a module of the user's stand for; None if it cannot be read."""
        found = self._found(file)
        return None if found is None else found.meanings

    def _found(self, file: str) -> Analysis | None:
        if file not in self._known:
            self._known[file] = None
            try:
                with open(file, "rb") as opened:
                    content = opened.read(MAX_BYTES + 1)
                if len(content) <= MAX_BYTES:
                    self._known[file] = self.analyse(SourceText(Encoded(content).text), file)
            except (OSError, UnreadableError):
                # The error is reported when this file is migrated; here its names are just unknown.
                pass
        return self._known[file]
