"""Finds the historical names in a file, and decides what each becomes."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Protocol

from mpls.migrate.meaning import Meaning, Meanings, Others
from mpls.migrate.neighbours import Neighbours
from mpls.migrate.replacements import alternatives, home_of, replacement_of
from mpls.migrate.ruling import Decision, Rule, Settings, Use
from mpls.migrate.source_text import SourceText
from mpls.migrate.survey import Survey
from mpls.migrate.syntax import Binding, Chain, Region, Role
from mpls.names import Name, named, namespaces

__all__ = ["Analysis", "Files"]

_DEPTH = 20


class Files(Others, Protocol):
    """The other files of the user's, with what becomes of them."""

    def analysis(self, file: str) -> Analysis | None:
        """Return what becomes of a file; None if it cannot be read."""


class Analysis:
    """The historical names in a file, and what becomes of them.

    Args:
        text: the file's text.
        neighbours: the modules around it.
        others: the other files of the user's.
        rules: all rules.
        settings: which of them apply.

    Attributes:
        text: the file's text.
        survey: what was collected in it.
        meanings: what its names stand for.
        settings: what the user has chosen.
        uses: uses of historical names, with what becomes of them; None for those that stay.
        spaces: uses of removed namespaces as a whole, with the module of mpls that replaces them.
        aliases: imported names that are replaced, each with the path of its replacement.
    """

    def __init__(
        self, text: SourceText, neighbours: Neighbours, others: Files, rules: Sequence[Rule], settings: Settings
    ) -> None:
        self.text = text
        self.survey = Survey(text.tree)
        self.meanings = Meanings(self.survey, neighbours, others)
        self.settings = settings
        self._others = others
        self._rules = [rule for rule in rules if rule.name in settings.rules]
        self.uses: list[tuple[Use, Decision | None]] = []
        self.spaces: list[tuple[Chain, ast.expr, str]] = []
        self.aliases: dict[ast.alias, str] = {}
        self._becomes: dict[ast.expr, str] = {}
        self._asked: set[tuple[int, str]] = set()
        self._known_after: dict[tuple[int, str], frozenset[str]] = {}
        self._is_decided = False

    def rule_of(self, row: Name) -> Rule | None:
        """Return the rule that replaces a historical name, if it applies."""
        # With Keras 2, public names mean what they have always meant.
        is_there = self.settings.keras == 2 and row.last is None and not row.is_private and not row.is_contrib
        if replacement_of(row.path) is None or (is_there and row.target.startswith("mpls.keras:")):
            return None
        return next((rule for rule in self._rules if rule.owns is not None and rule.owns(row)), None)

    def rule_within(self, row: Name) -> Rule | None:
        """Return a rule that replaces names of a namespace; the first, if several do."""
        rules = [self.rule_of(each) for each in _members(row)]
        inner = [self.rule_within(each) for each in namespaces().get(row.path, ()) if each.is_namespace]
        return next((rule for rule in (*rules, *inner) if rule is not None), None)

    @property
    def rules(self) -> Sequence[Rule]:
        """The rules that apply."""
        return self._rules

    def decide(self) -> Analysis:
        """Decide what becomes of every use, and return itself."""
        if not self._is_decided:
            self._is_decided = True
            for chain in self.survey.chains:
                self._look_at(chain)
            self._decide_aliases()
        return self

    # Uses.

    def _look_at(self, chain: Chain) -> None:
        meaning = self.meanings.name(chain.names[0], chain.region)
        last = len(chain.parts) - 1
        for position, part in enumerate(chain.parts):
            if position:
                meaning = self.meanings.member(meaning, chain.names[position])
            if not meaning.paths:
                return
            rows = [named(path) for path in sorted(meaning.paths)]
            if all(row is not None and not row.is_namespace for row in rows):
                role = chain.role if position == last else Role.VALUE
                use = Use(chain, part, [row for row in rows if row is not None], role)
                self._add(use, meaning)
                return
        self._add_space(chain, meaning)

    def _add(self, use: Use, meaning: Meaning) -> None:
        decision = self._decision(use) if meaning.is_whole else None
        self.uses.append((use, decision))
        if decision is not None:
            self._becomes[use.node] = decision.path

    def _decision(self, use: Use) -> Decision | None:
        rules = {None if rule is None else rule.name: rule for rule in map(self.rule_of, use.rows)}
        if None in rules:
            return None
        for rule in rules.values():
            if rule is not None and rule.replace is not None:
                return rule.replace(use, self)
        found = [replacement_of(row.path) for row in use.rows]
        options = [alternatives(each) if each is not None else [] for each in found]
        # Several paths may be spellings of one object.
        common = [each for each in options[-1] if all(each in others for others in options)]
        return Decision(common[0].path) if common else None

    def _add_space(self, chain: Chain, meaning: Meaning) -> None:
        homes = {home_of(path) for path in meaning.paths}
        home = homes.pop() if len(homes) == 1 and meaning.is_whole else None
        if home is None or not all(self._applies_within(path) for path in meaning.paths):
            return
        node = chain.parts[-1]
        self.spaces.append((chain, node, home))
        self._becomes[node] = home

    def _applies_within(self, path: str) -> bool:
        """Return whether rules apply to all names of a removed namespace."""
        row = named(path)
        return row is not None and all(
            self.rule_of(each) is not None for each in _members(row) if replacement_of(each.path) is not None
        )

    # Imports.

    def _decide_aliases(self) -> None:
        through: dict[tuple[int, str], list[tuple[bool, Decision | None]]] = {}
        for use, decision in self.uses:
            name = use.chain.names[0]
            key = id(use.chain.region.holder(name)), name
            through.setdefault(key, []).append((use.node is use.chain.parts[0], decision))
        for statement, region in self.survey.imports:
            assert isinstance(statement.node, ast.Import | ast.ImportFrom)
            for alias in statement.node.names:
                path = "" if alias.name == "*" else self.meanings.path_of(alias)
                row = named(path) if path else None
                if row is None:
                    continue
                name = alias.asname or alias.name.partition(".")[0]
                uses = through.get((id(region.outer.get(name, region)), name), [])
                if row.is_namespace:
                    self._decide_namespace(alias, row, region, uses)
                elif isinstance(statement.node, ast.ImportFrom):
                    wanted = [decision for is_itself, decision in uses if is_itself]
                    self._decide_name(alias, row, region, wanted)

    def _decide_namespace(
        self, alias: ast.alias, row: Name, region: Region, uses: list[tuple[bool, Decision | None]]
    ) -> None:
        if row.last is None:
            return
        home = home_of(row.path)
        if home is not None:
            if self._applies_within(row.path):
                self.aliases[alias] = home
            return
        # Nothing has all that was in it: what is used of it is spelled out.
        name = alias.asname or alias.name.partition(".")[0]
        used = [each for each in self.survey.chains if each.names[0] == name and each.region.holder(name) is region]
        if len(used) == len(uses) and all(decision is not None for _, decision in uses):
            self.aliases[alias] = ""

    def _decide_name(self, alias: ast.alias, row: Name, region: Region, uses: list[Decision | None]) -> None:
        replacement = replacement_of(row.path)
        if replacement is None or self.rule_of(row) is None:
            return
        name = alias.asname or alias.name
        wanted = {None if each is None else each.path for each in uses}
        only = wanted.pop() if len(wanted) == 1 else None
        is_shared = name in self.survey.exported
        if only is None or is_shared or not all(map(self._is_replaced, region.find(name))):
            only = replacement.path
        self.aliases[alias] = only

    def _is_replaced(self, binding: Binding) -> bool:
        """Return whether a binding is an import of a historical name that a rule replaces, or None."""
        value = binding.value
        if not isinstance(value, ast.alias):
            return isinstance(value, ast.Constant) and value.value is None
        row = named(self.meanings.path_of(value))
        return row is not None and replacement_of(row.path) is not None and self.rule_of(row) is not None

    # What is there afterwards.

    def after(self, node: ast.expr, region: Region, depth: int = 0) -> frozenset[str]:
        """Return the paths that an expression stands for once imports and aliases are replaced."""
        if node in self._becomes and depth:
            return frozenset((self._becomes[node],))
        if depth > _DEPTH:
            return frozenset()
        if isinstance(node, ast.Attribute):
            return frozenset(
                path
                for base in self.after(node.value, region, depth + 1)
                for path in self._member_after(base, node.attr, depth)
            )
        if isinstance(node, ast.Name):
            return self._name_after(node.id, region, depth)
        return self.meanings.of(node, region).paths

    def _member_after(self, base: str, attribute: str, depth: int) -> frozenset[str]:
        if not base.startswith("@"):
            return frozenset((f"{base}.{attribute}",))
        other = self._others.analysis(base[1:])
        if other is not None and attribute in other.survey.module.names:
            return other._name_after(attribute, other.survey.module, depth + 1)
        return self.meanings.member(Meaning(frozenset((base,)), True), attribute).paths

    def _name_after(self, name: str, region: Region, depth: int) -> frozenset[str]:
        # Names may be bound to each other in a circle, through several files.
        key = (id(region.holder(name)), name)
        if key in self._known_after:
            return self._known_after[key]
        if depth > _DEPTH or key in self._asked:
            return frozenset()
        self._asked.add(key)
        found = frozenset().union(*[self._bound_after(each, depth) for each in region.find(name)])
        self._asked.discard(key)
        if not self._asked and depth < _DEPTH // 2:
            # No part of it was left out.
            self._known_after[key] = found
        return found

    def _bound_after(self, binding: Binding, depth: int) -> frozenset[str]:
        value = binding.value
        if isinstance(value, ast.alias):
            if value in self.aliases:
                return frozenset((self.aliases[value],))
            base = self.meanings.base_of(value)
            if base is None:
                return self.meanings.alias(value).paths
            return frozenset(path for each in base.paths for path in self._member_after(each, value.name, depth + 1))
        if isinstance(value, ast.expr):
            return self.after(value, binding.region, depth + 1)
        return frozenset()


def _members(row: Name) -> list[Name]:
    return [each for each in namespaces().get(row.path, ()) if not each.is_namespace]
