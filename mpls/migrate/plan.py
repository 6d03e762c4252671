"""Decides what each historical name in a file becomes: a name of mpls, or one of today's own that means the same."""

from __future__ import annotations

import ast
import functools
import re

from mpls.migrate.analysis import Analysis, Decision, Use, alternatives, home_of, replacement_of
from mpls.migrate.kept_objects import kept_in
from mpls.migrate.wrapper_calls import EXPERIMENTAL, PUBLIC, arguments_of_release, is_given_optimizer_of_tf_1
from mpls.names import GRAPH_REWRITES, GRAPH_WRAPPER, SCALE_CLASSES, Name, named
from mpls.program.meaning import Meaning
from mpls.program.scopes import Binding, Chain, Region, Role
from mpls.program.tables import is_experimental

_KERAS = "tf.keras.mixed_precision"
_GRAPH = "tf.compat.v1.mixed_precision"
_POLICIES = {"Policy": "Policy", "global_policy": "global_policy", "set_policy": "set_global_policy"}
_POLICIES["set_global_policy"] = "set_global_policy"
_OF_GRAPH = (GRAPH_WRAPPER, *SCALE_CLASSES, *GRAPH_REWRITES)
# Arguments that only the wrapper of mpls has.
_OF_MPLS = re.compile("skip_counts_step|growth_factor")
# Functions that tell the names of the variables in a checkpoint.
_LISTS = ("list_variables", "load_checkpoint", "NewCheckpointReader")


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
        self._analysis.afterwards.stars = {
            each: self._analysis.names_of_star(each) for each in self._analysis.survey.stars
        }
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
        native = _Native(self._analysis)
        for place, (use, decision) in enumerate(self._analysis.uses):
            if decision is not None:
                found = native.decision(use, decision)
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
        options = [alternatives(replacement_of(row.path)) for row in use.rows]
        # Several paths may be spellings of one object.
        common = [each for each in options[-1] if all(each in others for others in options)]
        return Decision(common[0]) if common and common[0] else None

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
                name = alias.asname or alias.name
                uses = through.get((id(region.outer.get(name, region)), name), [])
                if row.is_namespace:
                    self._decide_namespace(alias, row, region, uses)
                elif isinstance(statement, ast.ImportFrom):
                    wanted = [decision for is_itself, decision in uses if is_itself]
                    self._decide_name(alias, row, region, wanted)

    def _decide_namespace(
        self, alias: ast.alias, row: Name, region: Region, uses: list[tuple[bool, Decision | None]]
    ) -> None:
        home = home_of(row.path)
        if home is not None and self._analysis.applies_within(row.path):
            name = alias.asname or alias.name
            self._analysis.aliases[alias] = self._native_space(name, region, [each for _, each in uses]) or home

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
        # Of names that stay, no rule is the owner.
        if self._analysis.rule_of(row) is None:
            return
        name = alias.asname or alias.name
        wanted = {None if each is None else each.path for each in uses}
        only = wanted.pop() if len(wanted) == 1 else None
        is_shared = name in self._analysis.survey.exported or name in self._analysis.unseen_words
        if only is None or is_shared or not all(map(self._is_replaced, region.find(name))):
            only = replacement_of(row.path)
        self._analysis.aliases[alias] = only

    def _is_replaced(self, binding: Binding) -> bool:
        """Return whether a binding is an import of a historical name that a rule replaces, or None."""
        value = binding.value
        if not isinstance(value, ast.alias):
            return isinstance(value, ast.Constant) and value.value is None
        row = named(self._analysis.meanings.path_of(value))
        return row is not None and self._analysis.rule_of(row) is not None


# Today's own names, which `--to native` writes.


def checkpoint_names(analysis: Analysis) -> ast.expr | None:
    """Return where a file with a wrapper of graph mode asks which variables are in a checkpoint; None if it does not.

    Savers write some variables under two names if the wrapper is that of mpls, and under one if it is TensorFlow's own.
    """
    has_wrapper = any(row.target == f"mpls.v1:{GRAPH_WRAPPER}" for use, _ in analysis.uses for row in use.rows)
    asks = (chain.parts[-1] for name in _LISTS for chain in analysis.survey.called.get(name, ()))
    return next(asks, None) if has_wrapper else None


class _Native:
    """Finds today's own names for the uses in a file."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._uses = [use for use, _ in analysis.uses]

    def decision(self, use: Use, decision: Decision) -> Decision:
        """Return what becomes of a use: today's own name if it means the same, else what was decided."""
        of_graph = decision.path.rpartition(".")[2] in _OF_GRAPH
        path = self._path(use, decision) if of_graph or self._analysis.settings.is_native else None
        if path is None:
            return decision
        return Decision(path, decision.edits, decision.note, decision.kind, otherwise=decision)

    def _path(self, use: Use, decision: Decision) -> str | None:
        home, _, name = decision.path.rpartition(".")
        if decision.path == PUBLIC:
            is_same = not any(_OF_MPLS.search(edit.new) for edit in decision.edits)
            is_plain = use.role in (Role.CALL, Role.TYPE_TEST, Role.ANNOTATION)
            has_it = self._analysis.settings.keras == 2 and not self._has_second_arguments
            is_enough = has_it and not self._analysis.is_unsupported_by_tf_keras
            return f"{_KERAS}.LossScaleOptimizer" if is_enough and is_same and is_plain else None
        if name in _POLICIES and home in ("mpls.experimental", "mpls.keras") and decision.path != EXPERIMENTAL:
            return f"{_KERAS}.{_POLICIES[name]}" if self._is_plain_policy(use, name) else None
        if name in _OF_GRAPH:
            return self._of_graph(use, name)
        return None

    @functools.cached_property
    def _has_second_arguments(self) -> bool:
        """Whether the file gives `apply_gradients` a second argument by place, which the one of mpls passes on."""
        calls = [each.call for each in self._analysis.survey.called.get("apply_gradients", ())]
        second = [each.args[1] for each in calls if each is not None and len(each.args) > 1]
        return not all(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in second)

    @functools.cached_property
    def _needs_own_compiled(self) -> bool:
        """Whether the wrapper that `compile` makes under a policy of today's own is not what the program needs."""
        if self._analysis.settings.keras == 3 and self._analysis.facts.reads_compiled:
            return True
        return bool(arguments_of_release(self._analysis))

    @functools.cached_property
    def _has_scales_of_policies(self) -> bool:
        """Whether the file reads the loss scale of what may be a policy."""
        reads = [each for each in self._analysis.survey.reads if each.name == "loss_scale"]
        return not all(map(self._analysis.objects.reads_wrapper, reads))

    def _is_plain_policy(self, use: Use, name: str) -> bool:
        """Return whether a use of a policy has nothing to do with its loss scale."""
        if self._has_scales_of_policies or use.role is Role.BASE or self._needs_own_compiled:
            return False
        call = use.call
        if name != "Policy" or call is None:
            return name != "Policy" or use.role is not Role.VALUE
        first = call.args[0] if len(call.args) == 1 and not call.keywords else None
        # The names that were removed are no names of policies today; a name that is not known may be one.
        return isinstance(first, ast.Constant) and not str(first.value).endswith(("infer", "_vars"))

    def _of_graph(self, use: Use, name: str) -> str | None:
        """Return the name in `tf.compat.v1`, which has the same classes for optimizers of TF 1."""
        is_there = all(row.path.startswith("tf.compat.v1.") and row.last is None for row in use.rows)
        if name in GRAPH_REWRITES and not self._are_rewrites_plain:
            return None
        if name in SCALE_CLASSES and any(
            is_experimental(row) or row.attribute in _POLICIES for each in self._uses for row in each.rows
        ):
            # Wrappers of mpls get objects of mpls.
            return None
        return use.rows[0].path if is_there and len(use.rows) == 1 else f"{_GRAPH}.{name}"

    @functools.cached_property
    def _are_rewrites_plain(self) -> bool:
        """Whether the graph rewrite gets optimizers of TF 1 only: TensorFlow's own refuses others."""
        return all(
            is_given_optimizer_of_tf_1(each, self._analysis)
            for each in self._uses
            if each.rows[0].attribute == GRAPH_REWRITES[0]
        )


def written(analysis: Analysis, chain: Chain, node: ast.expr, path: str) -> str | None:
    """Return how a path of TensorFlow's own is written in place of a part of a chain; None if it cannot be."""
    for part in chain.parts[chain.parts.index(node) :: -1]:
        now = analysis.after(part, chain.region)
        if len(now) == 1:
            (start,) = now
            if path == start or path.startswith(f"{start}."):
                return f"{analysis.text.source(part)}{path.removeprefix(start)}"
    return None


def leave_what_cannot_be_written(analysis: Analysis) -> None:
    """Go back to names of mpls where a chain has no part from which TensorFlow's own path can be written."""
    for place, (chain, node, home) in enumerate(analysis.spaces):
        if not home.startswith("mpls.") and written(analysis, chain, node, home) is None:
            (own,) = {home_of(path) for path in analysis.meanings.of(node, chain.region).paths}
            assert own is not None
            analysis.spaces[place] = chain, node, own
            analysis.afterwards.becomes[node] = own
    # Names come from these namespaces.
    analysis.afterwards.forget()
    for place, (use, decision) in enumerate(analysis.uses):
        otherwise = None if decision is None else decision.otherwise
        if decision is None or otherwise is None:
            continue
        if written(analysis, use.chain, use.node, decision.path) is None:
            analysis.uses[place] = use, otherwise
            analysis.afterwards.becomes[use.node] = otherwise.path
    analysis.afterwards.forget()
