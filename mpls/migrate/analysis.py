"""Finds the historical names in a file, and decides what each becomes."""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence

from mpls.migrate.afterwards import Afterwards, Files
from mpls.migrate.class_uses import class_values
from mpls.migrate.kept_objects import Kept, kept_in
from mpls.migrate.native import (
    Native,
    checkpoint_names,
    is_unsupported_by_tf_keras,
    leave_what_cannot_be_written,
)
from mpls.migrate.replacements import alternatives, home_of, replacement_of
from mpls.migrate.ruling import Decision, Rule, Settings, Use
from mpls.migrate.source_text import SourceText
from mpls.migrate.star_names import names_of_star
from mpls.migrate.tree_facts import Facts
from mpls.names import Name, named, namespaces
from mpls.program.meaning import Meaning, Meanings, Neighbours
from mpls.program.objects import Objects
from mpls.program.scopes import Binding, Chain, Region, Role, Survey

__all__ = ["Analysis"]


class Analysis:
    """The historical names in a file, and what becomes of them.

    Args:
        text: the file's text.
        neighbours: the modules around it.
        others: the other files of the user's.
        rules: all rules.
        settings: which of them apply.
        facts: what the files that are migrated say.

    Attributes:
        text: the file's text.
        survey: what was collected in it.
        meanings: what its names stand for.
        settings: what the user has chosen.
        others: the other files of the user's.
        facts: what the files that are migrated say.
        uses: uses of historical names, with what becomes of them; None for those that stay.
        spaces: uses of removed namespaces as a whole, with the module of mpls that replaces them.
        aliases: imported names that are replaced, each with the path of its replacement.
        afterwards: what expressions stand for then.
        kept: what the file relies on that wrappers had up to TF 2.3; None if there is nothing.
    """

    def __init__(
        self,
        text: SourceText,
        neighbours: Neighbours,
        others: Files,
        rules: Sequence[Rule],
        settings: Settings,
        facts: Facts,
    ) -> None:
        self.text = text
        self.survey = Survey(text.tree)
        self.meanings = Meanings(self.survey, neighbours, others)
        self.settings = settings
        self.others = others
        self.facts = facts
        self._rules = [rule for rule in rules if rule.name in settings.rules]
        self.uses: list[tuple[Use, Decision | None]] = []
        self.spaces: list[tuple[Chain, ast.expr, str]] = []
        self.aliases: dict[ast.alias, str] = {}
        self.afterwards = Afterwards(self.survey, self.meanings, self.aliases, others)
        self.kept: Kept | None = None
        # Names that are assigned a namespace, for today's own names.
        self._native_names: dict[tuple[int, str], ast.expr] = {}
        # The uses, and whether they can stand for nothing else.
        self._found: list[tuple[Use, bool]] = []
        self._looked_up: dict[tuple[Meaning, tuple[str, ...]], tuple[int, Meaning, list[Name]]] = {}
        self._is_decided = False

    def rule_of(self, row: Name) -> Rule | None:
        """Return the rule that replaces a historical name, if it applies."""
        # With Keras 2, public names mean what they have always meant.
        is_there = self.settings.keras == 2 and row.last is None and not row.is_private and not row.is_contrib
        is_of_keras = is_there and row.target.startswith("mpls.keras:")
        if replacement_of(row.path) is None or (is_of_keras and not self.is_unsupported_by_tf_keras):
            return None
        return next((rule for rule in self._rules if rule.owns is not None and rule.owns(row)), None)

    def rule_within(self, row: Name) -> Rule | None:
        """Return a rule that replaces names of a namespace; the first, if several do."""
        rules = [self.rule_of(each) for each in _members(row)]
        inner = [self.rule_within(each) for each in namespaces().get(row.path, ()) if each.is_namespace]
        return next((rule for rule in (*rules, *inner) if rule is not None), None)

    @functools.cached_property
    def instances(self) -> Objects:
        """What the expressions of the file are."""
        return Objects(self.meanings, self.facts.has_own_members, self.facts.is_set)

    @functools.cached_property
    def class_values(self) -> tuple[ast.expr | ast.alias, ...]:
        """Where the class of the experimental wrapper is a value that may get to any test."""
        return class_values(self)

    @functools.cached_property
    def is_unsupported_by_tf_keras(self) -> bool:
        """Whether the file does what the public wrapper of tf_keras no longer can."""
        return is_unsupported_by_tf_keras(self)

    def forget(self) -> None:
        """Undo the circles between what is known of the file, so that its memory is free at once."""
        self.survey.forget()
        known = vars(self).pop("instances", None)
        if known is not None:
            vars(known).clear()

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
            self.kept = kept_in(self)
            if len(self.survey.stars) == 1:
                self.afterwards.star, _ = names_of_star(self.survey.stars[0], self)
            for place, (use, is_whole) in enumerate(self._found):
                decision = self._decision(use) if is_whole else None
                self.uses[place] = use, decision
                if decision is not None:
                    self.afterwards.becomes[use.node] = decision.path
            is_native = self.settings.is_native or checkpoint_names(self) is not None
            if is_native:
                self._prefer_native()
            self._decide_aliases()
            if is_native:
                leave_what_cannot_be_written(self)
        return self

    def _prefer_native(self) -> None:
        native, uses = Native(self), [use for use, _ in self.uses]
        for place, (use, decision) in enumerate(self.uses):
            if decision is not None:
                found = native.decision(use, decision, uses)
                self.uses[place] = use, found
                self.afterwards.becomes[use.node] = found.path
        for chain, node, _ in self.spaces:
            # A name that is assigned the namespace.
            statement = chain.statement.node
            target = statement.targets[0] if isinstance(statement, ast.Assign) and statement.value is node else None
            if isinstance(target, ast.Name):
                self._native_names[id(chain.region.holder(target.id)), target.id] = node

    # Uses.

    def _look_at(self, chain: Chain) -> None:
        start = self.meanings.name(chain.names[0], chain.region)
        if not start.paths:
            return
        key = start, chain.names
        if key not in self._looked_up:
            self._looked_up[key] = self.meanings.historical(start, chain.names)
        position, meaning, rows = self._looked_up[key]
        if rows:
            role = chain.role if position == len(chain.parts) - 1 else Role.VALUE
            use = Use(chain, chain.parts[position], rows, role)
            self._found.append((use, meaning.is_whole))
            self.uses.append((use, None))
        elif meaning.paths:
            self._add_space(chain, meaning)

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
        if home is None or not all(self.applies_within(path) for path in meaning.paths):
            return
        node = chain.parts[-1]
        self.spaces.append((chain, node, home))
        self.afterwards.becomes[node] = home

    def applies_within(self, path: str) -> bool:
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
        for place, (chain, node, home) in enumerate(self.spaces):
            for key, value in self._native_names.items():
                holder = chain.region.holder(key[1])
                if value is node and holder is not None:
                    found = self._native_space(key[1], holder, [each for _, each in through.get(key, [])]) or home
                    self.spaces[place] = chain, node, found
                    self.afterwards.becomes[node] = found
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
            if self.applies_within(row.path):
                name = alias.asname or alias.name
                self.aliases[alias] = self._native_space(name, region, [each for _, each in uses]) or home
            return
        # Nothing has all that was in it: what is used of it is spelled out.
        name = alias.asname or alias.name.partition(".")[0]
        used = [each for each in self.survey.chains if each.names[0] == name and each.region.holder(name) is region]
        if len(used) == len(uses) and all(decision is not None for _, decision in uses):
            self.aliases[alias] = ""

    def _native_space(self, name: str, region: Region, uses: list[Decision | None]) -> str | None:
        """Return the namespace of today's own that has all that is used of one; None if there is none."""
        used = [each for each in self.survey.chains if each.names[0] == name and each.region.holder(name) is region]
        homes = {"" if each is None or each.otherwise is None else each.path.rpartition(".")[0] for each in uses}
        is_one = len(homes) == 1 and len(used) == len(uses) and len(region.names.get(name, ())) == 1
        return homes.pop() or None if is_one else None

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

    def after(self, node: ast.expr, region: Region) -> frozenset[str]:
        """Return the paths that an expression stands for once imports and aliases are replaced."""
        return self.afterwards.of(node, region)


def _members(row: Name) -> list[Name]:
    return [each for each in namespaces().get(row.path, ()) if not each.is_namespace]
