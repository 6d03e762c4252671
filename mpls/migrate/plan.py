"""Decides what each historical name in a file becomes."""

from __future__ import annotations

import ast

from mpls.migrate.analysis import Analysis, Decision, Use
from mpls.migrate.kept_objects import kept_in
from mpls.migrate.native import Native, checkpoint_names, leave_what_cannot_be_written
from mpls.migrate.replacements import alternatives, home_of, replacement_of
from mpls.names import Name, named
from mpls.program.meaning import Meaning
from mpls.program.scopes import Binding, Chain, Region, Role

__all__ = ["decide"]


def decide(analysis: Analysis) -> Analysis:
    """Decide what becomes of every use in a file, if it is not decided yet, and return the file."""
    if not analysis.is_decided:
        analysis.is_decided = True
        _Plan(analysis).make()
    return analysis


class _Plan:
    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        # Names that are assigned a namespace, for today's own names.
        self._native_names: dict[tuple[int, str], ast.expr] = {}
        # The uses, and whether they can stand for nothing else.
        self._found: list[tuple[Use, bool]] = []
        self._looked_up: dict[tuple[Meaning, tuple[str, ...]], tuple[int, Meaning, list[Name]]] = {}

    def make(self) -> None:
        for chain, start in self._analysis.chains:
            self._look_at(chain, start)
        self._analysis.kept = kept_in(self._analysis)
        if len(self._analysis.survey.stars) == 1:
            self._analysis.afterwards.star, _ = self._analysis.names_of_star(self._analysis.survey.stars[0])
        for place, (use, is_whole) in enumerate(self._found):
            decision = self._decision(use) if is_whole else None
            self._analysis.uses[place] = use, decision
            if decision is not None:
                self._analysis.afterwards.becomes[use.node] = decision.path
        is_native = self._analysis.settings.is_native or checkpoint_names(self._analysis) is not None
        if is_native:
            self._prefer_native()
        self._decide_aliases()
        if is_native:
            leave_what_cannot_be_written(self._analysis)

    def _prefer_native(self) -> None:
        native, uses = Native(self._analysis), [use for use, _ in self._analysis.uses]
        for place, (use, decision) in enumerate(self._analysis.uses):
            if decision is not None:
                found = native.decision(use, decision, uses)
                self._analysis.uses[place] = use, found
                self._analysis.afterwards.becomes[use.node] = found.path
        for chain, node, _ in self._analysis.spaces:
            # A name that is assigned the namespace.
            statement = chain.statement.node
            target = statement.targets[0] if isinstance(statement, ast.Assign) and statement.value is node else None
            if isinstance(target, ast.Name):
                self._native_names[id(chain.region.holder(target.id)), target.id] = node

    def _look_at(self, chain: Chain, start: Meaning) -> None:
        key = start, chain.names
        found = self._looked_up.get(key)
        if found is None:
            found = self._looked_up[key] = self._analysis.meanings.historical(start, chain.names)
        position, meaning, rows = found
        if rows:
            role = chain.role if position == len(chain.parts) - 1 else Role.VALUE
            use = Use(chain, chain.parts[position], rows, role)
            self._found.append((use, meaning.is_whole))
            self._analysis.uses.append((use, None))
        elif meaning.paths:
            self._analysis.rest.append((chain, meaning))
            self._add_space(chain, meaning)

    def _decision(self, use: Use) -> Decision | None:
        rules = {None if rule is None else rule.name: rule for rule in map(self._analysis.rule_of, use.rows)}
        if None in rules:
            return None
        for rule in rules.values():
            if rule is not None and rule.replace is not None:
                return rule.replace(use, self._analysis)
        found = [replacement_of(row.path) for row in use.rows]
        options = [alternatives(each) if each is not None else [] for each in found]
        # Several paths may be spellings of one object.
        common = [each for each in options[-1] if all(each in others for others in options)]
        return Decision(common[0].path) if common else None

    def _add_space(self, chain: Chain, meaning: Meaning) -> None:
        homes = {home_of(path) for path in meaning.paths}
        home = homes.pop() if len(homes) == 1 and meaning.is_whole else None
        if home is None or not all(self._analysis.applies_within(path) for path in meaning.paths):
            return
        node = chain.parts[-1]
        self._analysis.spaces.append((chain, node, home))
        self._analysis.afterwards.becomes[node] = home

    def _decide_aliases(self) -> None:
        through: dict[tuple[int, str], list[tuple[bool, Decision | None]]] = {}
        for use, decision in self._analysis.uses:
            name = use.chain.names[0]
            key = id(use.chain.region.holder(name)), name
            through.setdefault(key, []).append((use.node is use.chain.parts[0], decision))
        for place, (chain, node, home) in enumerate(self._analysis.spaces):
            for key, value in self._native_names.items():
                holder = chain.region.holder(key[1])
                if value is node and holder is not None:
                    found = self._native_space(key[1], holder, [each for _, each in through.get(key, [])]) or home
                    self._analysis.spaces[place] = chain, node, found
                    self._analysis.afterwards.becomes[node] = found
        for statement, _, region in self._analysis.survey.imports:
            for alias in statement.names:
                path = "" if alias.name == "*" else self._analysis.meanings.path_of(alias)
                row = named(path) if path else None
                if row is None:
                    continue
                name = alias.asname or alias.name.partition(".")[0]
                uses = through.get((id(region.outer.get(name, region)), name), [])
                if row.is_namespace:
                    self._decide_namespace(alias, row, region, uses)
                elif isinstance(statement, ast.ImportFrom):
                    wanted = [decision for is_itself, decision in uses if is_itself]
                    self._decide_name(alias, row, region, wanted)

    def _decide_namespace(
        self, alias: ast.alias, row: Name, region: Region, uses: list[tuple[bool, Decision | None]]
    ) -> None:
        if row.last is None:
            return
        home = home_of(row.path)
        if home is not None:
            if self._analysis.applies_within(row.path):
                name = alias.asname or alias.name
                self._analysis.aliases[alias] = self._native_space(name, region, [each for _, each in uses]) or home
            return
        # Nothing has all that was in it: what is used of it is spelled out.
        name = alias.asname or alias.name.partition(".")[0]
        used = self._chains_from(name, region)
        if len(used) == len(uses) and all(decision is not None for _, decision in uses):
            self._analysis.aliases[alias] = ""

    def _native_space(self, name: str, region: Region, uses: list[Decision | None]) -> str | None:
        """Return the namespace of today's own that has all that is used of one; None if there is none."""
        used = self._chains_from(name, region)
        homes = {"" if each is None or each.otherwise is None else each.path.rpartition(".")[0] for each in uses}
        is_one = len(homes) == 1 and len(used) == len(uses) and len(region.names.get(name, ())) == 1
        return homes.pop() or None if is_one else None

    def _chains_from(self, name: str, region: Region) -> list[Chain]:
        chains = self._analysis.survey.chains
        return [each for each in chains if each.names[0] == name and each.region.holder(name) is region]

    def _decide_name(self, alias: ast.alias, row: Name, region: Region, uses: list[Decision | None]) -> None:
        replacement = replacement_of(row.path)
        if replacement is None or self._analysis.rule_of(row) is None:
            return
        name = alias.asname or alias.name
        wanted = {None if each is None else each.path for each in uses}
        only = wanted.pop() if len(wanted) == 1 else None
        is_shared = name in self._analysis.survey.exported
        if only is None or is_shared or not all(map(self._is_replaced, region.find(name))):
            only = replacement.path
        self._analysis.aliases[alias] = only

    def _is_replaced(self, binding: Binding) -> bool:
        """Return whether a binding is an import of a historical name that a rule replaces, or None."""
        value = binding.value
        if not isinstance(value, ast.alias):
            return isinstance(value, ast.Constant) and value.value is None
        row = named(self._analysis.meanings.path_of(value))
        return row is not None and replacement_of(row.path) is not None and self._analysis.rule_of(row) is not None
