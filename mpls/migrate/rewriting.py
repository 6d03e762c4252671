"""Rewrites one text: collects what the rules decide and find, and applies it."""

from __future__ import annotations

import ast
import re
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass

from mpls.migrate.analysis import Analysis
from mpls.migrate.as_of_release import missing_release
from mpls.migrate.class_uses import is_through_unsure
from mpls.migrate.import_edits import edits_of_imports
from mpls.migrate.native_writing import written
from mpls.migrate.replacements import is_gone
from mpls.migrate.ruling import Decision, Finding, Kind, Use
from mpls.migrate.source_text import Edit
from mpls.migrate.spelling import Spelling
from mpls.program.files import BROKEN, parse
from mpls.program.scopes import Chain, Statement

__all__ = ["Rewritten", "rewritten"]

_SPACE = re.compile(r"[\s\\]+|#[^\n]*")


@dataclass(frozen=True)
class Rewritten:
    """What the rules make of a text.

    Attributes:
        edits: how it changes.
        findings: what was done and what is left, in the order of the text.
    """

    edits: tuple[Edit, ...]
    findings: tuple[Finding, ...]


def rewritten(analysis: Analysis) -> Rewritten:
    """Return what the rules make of a file."""
    analysis.decide()
    edits: list[Edit] = []
    findings: set[Finding] = set()
    for found in _Rewriting(analysis).found():
        if isinstance(found, Edit):
            edits.append(found)
        else:
            findings.add(found)
    kept = _without_nested(edits)
    in_order = tuple(sorted(findings, key=lambda each: (each.offset, each.rule, each.text)))
    if edits:
        try:
            parse(analysis.text.edited(kept))
        except BROKEN as error:
            # What is written back is valid Python, whatever else goes wrong.
            left = Finding(
                0, "none", f"the file is left as it is, since the result would be no Python: {error}", Kind.LEFT
            )
            return Rewritten((), (left, *(each for each in in_order if each.kind is not Kind.CHANGED)))
    return Rewritten(kept, in_order)


class _Rewriting:
    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._text = analysis.text
        self._spelling = Spelling(analysis)

    def found(self) -> Iterator[Edit | Finding]:
        taken = self._objects_taken()
        for use, decision in self._analysis.uses:
            if use.node in taken:
                continue
            if decision is None:
                yield from self._left(use)
            else:
                yield from self._use(use, decision)
        for chain, node, home in self._analysis.spaces:
            if self._analysis.after(node, chain.region) != {home}:
                native = None if home.startswith("mpls.") else written(self._analysis, chain, node, home)
                yield from self._replaced(chain, node, home, "", ".".join(chain.names), "", native)
        self._install()
        replaced: set[Statement] = set()
        for found in edits_of_imports(self._analysis, self._spelling):
            if isinstance(found, Statement):
                replaced.add(found)
            else:
                yield found
        for rule in self._analysis.rules:
            if rule.look is not None:
                yield from rule.look(self._analysis)
        yield from self._spelling.insertions(replaced)

    def _install(self) -> None:
        kept = self._analysis.kept
        if kept is not None and kept.place is not None:
            self._spelling.call("install", f'as_of="{self._analysis.settings.as_of}"', kept.place)

    def _objects_taken(self) -> set[ast.expr]:
        """Return the uses in loss scale objects whose settings become arguments."""
        edits = sorted(edit for _, decision in self._analysis.uses if decision is not None for edit in decision.edits)
        taken = set()
        for use, _ in self._analysis.uses:
            start, end = self._text.span(use.node)
            place = bisect(edits, (start, len(self._text.utf8), "")) - 1
            if place >= 0 and end <= edits[place].end:
                taken.add(use.node)
        return taken

    def _use(self, use: Use, decision: Decision) -> Iterator[Edit | Finding]:
        analysis, text = self._analysis, self._text
        rule = analysis.rule_of(use.rows[0])
        assert rule is not None
        offset = text.span(use.node)[0]
        home, _, name = decision.path.rpartition(".")
        is_named = analysis.after(use.node, use.chain.region) == {decision.path}
        if decision.note:
            yield Finding(offset, rule.name, decision.note, decision.kind)
        missing = missing_release(use, decision, analysis)
        if missing:
            yield Finding(offset, rule.name, missing, Kind.LEFT)
        if is_named and not decision.edits:
            return
        if use.chain.string is not None and (decision.edits or not self._is_as_read(use.chain, use.node)):
            what = f"{use.rows[0].path} in an f-string is left: write {decision.path}"
            yield Finding(offset, rule.name, what, Kind.LEFT)
            return
        yield from decision.edits
        if is_named:
            yield Finding(offset, rule.name, f"the arguments become those of {decision.path}", Kind.CHANGED)
        else:
            native = written(analysis, use.chain, use.node, decision.path) if decision.otherwise is not None else None
            yield from self._replaced(use.chain, use.node, home, name, use.rows[0].path, rule.name, native)

    def _replaced(
        self, chain: Chain, node: ast.expr, home: str, name: str, path: str, rule: str, native: str | None = None
    ) -> Iterator[Edit | Finding]:
        start, end = self._text.span(node)
        spelled = native or self._spelling.spell(home, name, chain.region, chain.names[0])
        yield Edit(start, end, self._with_comments(spelled, start, end))
        yield Finding(start, rule or "experimental-policies", f"{path} becomes {spelled}", Kind.CHANGED)

    def _with_comments(self, spelled: str, start: int, end: int) -> str:
        """Return what is written in place of a name, with the comments in it: it is in parentheses if it has any."""
        comments = self._text.comments(start, end)
        if not comments:
            return spelled
        line_start, _ = self._text.line_span(self._text.line_of(end))
        before = self._text.between(line_start, end)
        between = self._text.newline + before[: len(before) - len(before.lstrip())]
        return between.join([f"{spelled}  {comments[0]}", *comments[1:], ""])

    def _left(self, use: Use) -> Iterator[Finding]:
        """Yield why a use of a removed name is left, where nothing else surely makes it work."""
        analysis = self._analysis
        gone = [row for row in use.rows if is_gone(row.path) and analysis.rule_of(row) is not None]
        now = analysis.after(use.node, use.chain.region)
        if gone and (is_through_unsure(use, analysis) or not any(path.startswith("mpls.") for path in now)):
            rule = analysis.rule_of(gone[0])
            assert rule is not None
            name = use.chain.names[0]
            what = f"{gone[0].path} is left, as {name} may be something else here too: write {gone[0].replacement}"
            yield Finding(self._text.span(use.node)[0], rule.name, what, Kind.LEFT)

    def _is_as_read(self, chain: Chain, node: ast.expr) -> bool:
        """Return whether the text has a name where the syntax tree says: it is wrong in f-strings up to Python 3.11."""
        names = chain.names[: chain.parts.index(node) + 1]
        return _SPACE.sub("", self._text.source(node)) == ".".join(names)


def _without_nested(edits: list[Edit]) -> tuple[Edit, ...]:
    """Return the edits without those inside of others, and each once."""
    kept: list[Edit] = []
    for edit in sorted(set(edits), key=lambda each: (each.start, -each.end, each.new)):
        outer = kept[-1] if kept else None
        if outer is not None and edit.start < outer.end and edit.end <= outer.end:
            continue
        kept.append(edit)
    return tuple(kept)
