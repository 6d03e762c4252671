"""Rewrites one text: collects what the rules decide and find, and applies it."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from bisect import bisect
from collections.abc import Iterator

from mpls.migrate.analysis import (
    Analysis,
    Decision,
    Finding,
    Outcome,
    Use,
    alternatives,
    is_gone,
    left_text,
    names_scaling,
    tries,
)
from mpls.migrate.plan import decide, written
from mpls.migrate.source_text import Edit, SourceText
from mpls.migrate.wrapper_calls import (
    EXPERIMENTAL,
    PUBLIC,
    arguments_of_release,
    is_fixed,
    is_given_optimizer_of_tf_1,
    is_made_dynamic,
    is_through_unsure,
)
from mpls.names import module_of, named
from mpls.program.files import BROKEN
from mpls.program.releases import catches_missing
from mpls.program.scopes import Chain, Region, Role, Statement

_SPACE = re.compile(r"[\s\\]+|#[^\n]*")
_FROM = re.compile(rb"from\s+([.\w]+)\s+import\b")
_INSTALL = ("mpls", "install")
_REWRITE = "mpls.v1.enable_mixed_precision_graph_rewrite"
_SET_POLICY = "mpls.experimental.set_policy"


def rewritten(analysis: Analysis) -> tuple[tuple[Edit, ...], tuple[Finding, ...]]:
    """Return the edits that the rules make in a file, and what was done and what is left, in the order of the text."""
    decide(analysis)
    edits: list[Edit] = []
    findings: dict[tuple[int, int, str, str], Finding] = {}
    for found in _Rewriting(analysis).found():
        if isinstance(found, Edit):
            edits.append(found)
        else:
            findings[found.node.lineno, found.node.col_offset, found.rule, found.text] = found
    kept = tuple(sorted(set(edits), key=lambda each: (each.start, -each.end, each.new)))
    in_order = tuple(findings[key] for key in sorted(findings))
    if edits:
        try:
            analysis.text.check(kept)
        except BROKEN as error:
            # What is written back is valid Python, whatever else goes wrong.
            what = f"the file is left as it is, since the result would be no Python: {error}"
            left = Finding(analysis.text.tree.body[0], what, rule="none")
            return (), (left, *(each for each in in_order if each.kind is not Outcome.CHANGED))
    return kept, in_order


class _Rewriting:
    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._text = analysis.text
        self._spelling = _Spelling(analysis)

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
            if self._has_comments(node):
                what = f"{'.'.join(chain.names)} with comments in it is left: write {home}"
                yield Finding(node, what, rule="experimental-policies")
            elif self._analysis.after(node, chain.region) != {home}:
                native = None if home.startswith("mpls.") else written(self._analysis, chain, node, home)
                yield from self._replaced(chain, node, home, "", ".".join(chain.names), "", native)
        kept = self._analysis.kept
        if kept is not None and kept.place is not None:
            self._spelling.call("install", f'as_of="{self._analysis.settings.as_of}"', kept.place)
        yield from _edits_of_imports(self._analysis)
        yield from self._looked()
        yield from self._spelling.insertions()

    def _looked(self) -> Iterator[Edit | Finding]:
        """Yield what rules find beside the uses of names."""
        for rule in self._analysis.rules:
            for found in () if rule.look is None else rule.look(self._analysis):
                yield found if isinstance(found, Edit) else found._replace(rule=rule.name)

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
        analysis = self._analysis
        rule = analysis.rule_of(use.rows[0])
        assert rule is not None
        home, _, name = decision.path.rpartition(".")
        is_named = analysis.after(use.node, use.chain.region) == {decision.path}
        if decision.note:
            yield Finding(use.node, decision.note, decision.kind, rule.name)
        missing = _missing_release(use, decision, analysis)
        if missing:
            yield Finding(use.node, missing, rule=rule.name)
        if is_named and not decision.edits:
            return
        is_in_string = use.chain.string is not None and (decision.edits or not self._is_as_read(use.chain, use.node))
        if is_in_string or (not is_named and self._has_comments(use.node)):
            what = f"{use.rows[0].path} {'in an f-string' if is_in_string else 'with comments in it'} is left"
            yield Finding(use.node, f"{what}: write {decision.path}", rule=rule.name)
            return
        yield from decision.edits
        if is_named:
            yield Finding(use.node, f"the arguments become those of {decision.path}", Outcome.CHANGED, rule.name)
        else:
            native = written(analysis, use.chain, use.node, decision.path) if decision.otherwise is not None else None
            yield from self._replaced(use.chain, use.node, home, name, use.rows[0].path, rule.name, native)

    def _replaced(
        self, chain: Chain, node: ast.expr, home: str, name: str, path: str, rule: str, native: str | None = None
    ) -> Iterator[Edit | Finding]:
        start, end = self._text.span(node)
        spelled = native or self._spelling.spell(home, name, chain.region, chain.names[0])
        yield Edit(start, end, spelled)
        yield Finding(node, f"{path} becomes {spelled}", Outcome.CHANGED, rule or "experimental-policies")
        if node is not chain.parts[0] and all(map(is_gone, self._analysis.meanings.of(node, chain.region).paths)):
            yield from _works_now(chain.statement, rule or "experimental-policies")

    def _left(self, use: Use) -> Iterator[Finding]:
        """Yield why a use of a removed name is left, where nothing else surely makes it work."""
        analysis = self._analysis
        gone = [row for row in use.rows if is_gone(row.path) and analysis.rule_of(row) is not None]
        now = analysis.after(use.node, use.chain.region)
        if gone and (is_through_unsure(use, analysis) or not any(path.startswith("mpls.") for path in now)):
            rule = analysis.rule_of(gone[0])
            assert rule is not None
            what = left_text(gone[0].path, use.chain.names[0], gone[0].replacement)
            yield Finding(use.node, what, rule=rule.name)

    def _has_comments(self, node: ast.expr) -> bool:
        """Return whether comments are in a name, which would be lost with it."""
        return bool(self._text.comments(*self._text.span(node)))

    def _is_as_read(self, chain: Chain, node: ast.expr) -> bool:
        """Return whether the text has a name where the syntax tree says: it is wrong in f-strings up to Python 3.11."""
        names = chain.names[: chain.parts.index(node) + 1]
        return _SPACE.sub("", self._text.source(node)) == ".".join(names)


# What names are written, and the imports that they need.


class _Spelling:
    """Writes paths of mpls, and collects the imports that they need."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._text = analysis.text
        self._survey = analysis.survey
        self._is_taken = analysis.is_mpls_taken
        self._present = set() if self._is_taken else set(_imported(analysis))
        # The modules of mpls that code in each scope uses, with the imports that their imports are to follow.
        self._spelled: list[tuple[str, Region, list[Statement]]] = []
        self._needed: dict[Statement | None, set[str]] = {}
        self._calls: dict[Statement | None, str] = {}
        self._known: set[tuple[str, str, int]] = set()

    def spell(self, home: str, name: str, region: Region, root: str) -> str:
        """Return the expression for a member of a module of mpls, or for the module.

        Args:
            home: the module.
            name: the member; "" for the module itself.
            region: the scope in which it is written.
            root: the name that the expression in its place begins with: its import is the place for the import.
        """
        key = (home, root, id(region))
        if key not in self._known:
            self._known.add(key)
            self._spelled.append((home, region, [] if home in self._present else self._places(root, region)))
        module = home.replace(".", "_") if self._is_taken else home
        return f"{module}.{name}" if name else module

    def call(self, name: str, arguments: str, place: Statement) -> None:
        """Have a function of the package called behind a statement at the top of the file."""
        self._needed.setdefault(place, set())
        if not self._present:
            self._needed[place].add("mpls")
        self._calls[place] = f"mpls.{name}({arguments})"

    def insertions(self) -> Iterator[Edit]:
        """Yield the edits that insert the imports."""
        within = self._functions()
        for home, _, places in self._spelled:
            found = [self._at_module(each) if self._scope(each) not in within else each for each in places]
            for place in [] if home in self._present else found or [None]:
                self._needed.setdefault(place, set()).add(home)
        for place, homes in self._places_needed().items():
            lines = self._lines(place, homes)
            if lines:
                yield self._inserted(place, lines)

    def _functions(self) -> set[Region]:
        """Return the scopes in which imports of mpls may be: all that they use of mpls follows imports in them.

        An import makes `mpls` a name of its scope, which is unbound where the import has not run.
        """
        module = self._survey.module
        used = [(region, [self._scope(each) for each in places]) for _, region, places in self._spelled]
        chains = [each for each in self._survey.chains if each.names[0] == "mpls"]
        used += [(each.region, [each.region.holder("mpls") or module]) for each in chains]
        found = {scope for _, scopes in used for scope in scopes} - {module}
        while True:
            wrong = set()
            for region, scopes in used:
                seen = next((each for each in region.around() if each in found), module)
                if {each if each in found else module for each in scopes or [module]} != {seen}:
                    wrong.add(seen)
            if wrong.isdisjoint(found):
                return found
            found -= wrong

    def _scope(self, place: Statement) -> Region:
        return next(each.region for each in self._survey.imports if each.statement is place)

    def _at_module(self, place: Statement) -> Statement | None:
        """Return the import at the top level to follow in place of one in a function; None if none is above it."""
        if self._scope(place) is self._survey.module:
            return place
        above = [each for each in self._survey.imports if each.node.lineno < place.node.lineno]
        top = (each for each in above if _is_top(each.statement))
        found = (each.statement for each in top if any(path[0] != "@" for path in self._analysis.imported[each.node]))
        return next(found, None)

    def _places_needed(self) -> dict[Statement | None, set[str]]:
        """Return the modules to import at each place: of several places at the top level, the first is enough."""
        top = sorted((place for place in self._needed if _is_top(place)), key=_position)
        at_top: set[str] = set()
        found: dict[Statement | None, set[str]] = {}
        for place in top:
            found[place] = self._needed[place] - at_top
            at_top |= self._needed[place]
            if len(at_top) > 1:
                # Each of its modules binds the name of the package too.
                found[place].discard("mpls")
        return found | {place: homes - at_top for place, homes in self._needed.items() if place not in found}

    def _statement(self, home: str) -> str:
        return f"import {home} as {home.replace('.', '_')}" if self._is_taken else f"import {home}"

    def _places(self, root: str, region: Region) -> list[Statement]:
        """Return the import statements that a name comes from, as far as code in a scope follows them."""
        if region.holder(root) is None:
            # It comes from an import of all names.
            stars = self._survey.stars
            return [statement for node, statement, _ in self._survey.imports if node in stars]
        places, seen = [], set()
        waiting = [(root, region)]
        while waiting:
            name, within = waiting.pop()
            for binding in within.find(name):
                value = binding.value
                if isinstance(value, ast.alias):
                    # An import in a function may bind a global; the one behind it would bind a local name.
                    if region.is_in(binding.region):
                        places.append(binding.statement)
                elif isinstance(value, ast.expr) and id(value) not in seen:
                    seen.add(id(value))
                    waiting += [(each.id, binding.region) for each in ast.walk(value) if isinstance(each, ast.Name)]
        return places

    def _lines(self, place: Statement | None, homes: set[str]) -> list[str]:
        calls = [self._calls[place]] if place in self._calls else []
        return [*(self._statement(home) for home in sorted(homes)), *calls]

    def _inserted(self, place: Statement | None, lines: list[str]) -> Edit:
        newline = self._text.newline
        if place is None:
            return self._at_top(lines)
        _, end = self._text.span(place.node)
        indent = _standing_alone(self._text, place.node)
        if indent is None:
            return Edit(end, end, "".join(f"; {line}" for line in lines))
        _, end = self._text.line_span(self._text.line_of(end))
        return Edit(end, end, "".join(f"{newline}{indent}{line}" for line in lines))

    def _at_top(self, lines: list[str]) -> Edit:
        newline = self._text.newline
        body = self._text.tree.body
        before: list[ast.stmt] = [
            node for node in body[:1] if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        ]
        before += [node for node in body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
        if before:
            _, end = self._text.line_span(before[-1].end_lineno or 1)
            return Edit(end, end, "".join(f"{newline}{line}" for line in lines))
        first = min([body[0].lineno, *(each.lineno for each in getattr(body[0], "decorator_list", ()))])
        start, _ = self._text.line_span(first)
        return Edit(start, start, "".join(f"{line}{newline}" for line in lines))


def _standing_alone(text: SourceText, node: ast.stmt) -> str | None:
    """Return the indentation of a statement that has its lines for itself, but for a comment; None for others."""
    start, end = text.span(node)
    line_start, _ = text.line_span(node.lineno)
    _, line_end = text.line_span(text.line_of(end))
    indent, rest = text.between(line_start, start), text.between(end, line_end).strip()
    return indent if not indent.strip() and (not rest or rest.startswith("#")) else None


def _is_top(place: Statement | None) -> bool:
    return place is None or place.parent is None


def _position(place: Statement | None) -> int:
    return 0 if place is None else place.node.lineno


def _imported(analysis: Analysis) -> Iterator[str]:
    """Yield the modules of mpls that the file imports at its top level."""
    for node, statement, region in analysis.survey.imports:
        if isinstance(node, ast.Import) and statement.parent is None and region is analysis.survey.module:
            yield from (alias.name for alias in node.names if alias.asname is None)


# Import statements, name by name.


def _edits_of_imports(analysis: Analysis) -> Iterator[Edit | Finding]:
    """Yield the edits of a file's imports, and what they do."""
    for node, statement, _ in analysis.survey.imports:
        replaced = [alias for alias in node.names if alias in analysis.aliases]
        if not replaced:
            continue
        yield from _imports_said(analysis, statement, replaced)
        if isinstance(node, ast.Import):
            for alias in replaced:
                start, end = analysis.text.span(alias)
                yield Edit(start, end, _module(alias, analysis.aliases[alias]))
        else:
            yield from _ImportFrom(analysis, node).edits()


def _imports_said(analysis: Analysis, statement: Statement, replaced: list[ast.alias]) -> Iterator[Finding]:
    for alias in replaced:
        path, new = analysis.meanings.path_of(alias), analysis.aliases[alias]
        row = named(path)
        assert row is not None
        rule = analysis.rule_of(row) if not row.is_namespace else analysis.rule_within(row)
        assert rule is not None
        yield Finding(alias, f"imports {new} in place of {row.path}", Outcome.CHANGED, rule.name)
        if is_gone(path):
            yield from _works_now(statement, rule.name)


def _works_now(statement: Statement, rule: str) -> Iterator[Finding]:
    """Yield that a changed statement fails today, where the program goes on in another way then."""
    for node in tries(statement):
        if any(map(catches_missing, node.handlers)):
            what = "this fails today, and works after the edit: the program no longer takes the way of the except"
            kind = Outcome.NOTED if names_scaling(node.handlers) else Outcome.LEFT
            yield Finding(statement.node, what, kind, rule)
            return


def _module(alias: ast.alias, home: str) -> str:
    if alias.asname is not None:
        return f"{module_of(home)} as {alias.asname}"
    # The name of the package is what the statement binds; what is used of the module is spelled out.
    return alias.name.partition(".")[0]


class _ImportFrom:
    """Rewrites a `from … import …`."""

    def __init__(self, analysis: Analysis, node: ast.ImportFrom) -> None:
        self._text = analysis.text
        self._aliases = analysis.aliases
        self._node = node
        self._start, self._end = self._text.span(node)

    def edits(self) -> Iterator[Edit]:
        """Yield its edits."""
        stays = [alias for alias in self._node.names if alias not in self._aliases]
        by_home = self._by_home()
        match = _FROM.match(self._text.utf8, self._start, self._end)
        if not stays and len(by_home) == 1 and match is not None:
            (home, members) = by_home.popitem()
            yield Edit(*match.span(1), module_of(home))
            for alias, member in members:
                if member != alias.name:
                    yield Edit(*self._text.span(alias), _as(alias, member))
            return
        indent = _standing_alone(self._text, self._node)
        lines = [] if indent is None else self._comments()
        if stays:
            kept = ", ".join(self._text.between(*self._text.span(alias)) for alias in stays)
            lines.append(f"from {self._module()} import {kept}")
        for home, members in by_home.items():
            names = ", ".join(_as(alias, member) for alias, member in members)
            lines.append(f"from {module_of(home)} import {names}")
        # On lines of their own if the statement has its own, else after semicolons.
        joined = "; ".join(lines) if indent is None else f"{self._text.newline}{indent}".join(lines)
        yield Edit(self._start, self._end, joined)

    def _by_home(self) -> dict[str, list[tuple[ast.alias, str]]]:
        """Return the names to import from each module; from one module, if it has all."""
        options = {each: alternatives(self._aliases[each]) for each in self._node.names if each in self._aliases}
        common = set.intersection(*({_home(each) for each in paths} for paths in options.values()))
        found: dict[str, list[tuple[ast.alias, str]]] = {}
        for alias, paths in options.items():
            path = next((each for each in paths if _home(each) in common), paths[0])
            found.setdefault(_home(path), []).append((alias, path.rpartition(".")[2]))
        return found

    def _module(self) -> str:
        """Return the module as it is written."""
        match = _FROM.match(self._text.utf8, self._start, self._end)
        return match[1].decode() if match else "." * self._node.level + (self._node.module or "")

    def _comments(self) -> list[str]:
        """Return the comments inside the statement."""
        source = self._text.between(self._start, self._end)
        tokens = tokenize.generate_tokens(io.StringIO(source, newline=None).readline)
        return [token.string for token in tokens if token.type == tokenize.COMMENT]


def _home(path: str) -> str:
    return path.rpartition(".")[0]


def _as(alias: ast.alias, member: str) -> str:
    name = alias.asname or alias.name
    return member if member == name else f"{member} as {name}"


# What `--as-of` asks for: what a skipped step counts for.


def _missing_release(use: Use, decision: Decision, analysis: Analysis) -> str:
    """Return what to do where a use makes wrappers that are not told the release of `--as-of`; "" if none are."""
    settings = arguments_of_release(analysis)
    installs = (each.names == _INSTALL for each in analysis.survey.called.get("install", ()))
    if not settings or analysis.kept is not None or any(installs):
        return ""
    what = _maker(use, decision, analysis)
    if not what:
        return ""
    advice = f"give it {settings[0]}" if decision.path in (EXPERIMENTAL, PUBLIC) else f"it would be {settings[0]}"
    if decision.path == PUBLIC and use.call is not None and is_made_dynamic(use.call) is None:
        advice += " if its scale is dynamic"
    install = f"call mpls.install(as_of={analysis.settings.as_of!r}) before it is made"
    return f"{what} is not told what a skipped step counts for as of {analysis.settings.as_of}: {advice}, or {install}"


def _maker(use: Use, decision: Decision, analysis: Analysis) -> str:
    """Return what makes wrappers that are not told the release; "" if nothing does."""
    if decision.path in (EXPERIMENTAL, PUBLIC):
        if use.role is Role.BASE:
            return "a wrapper of this class"
        if use.role is Role.VALUE:
            # What is called by another name is a use of its own.
            is_assigned = isinstance(use.chain.statement.node, ast.Assign | ast.AnnAssign)
            return "" if is_assigned or use.node in analysis.survey.compared else "a wrapper of this class"
        names = () if use.call is None else [each.arg for each in use.call.keywords]
        is_told = "skip_counts_step" in names or any("skip_counts_step" in each.new for each in decision.edits)
        return "" if use.call is None or is_told or is_fixed(use.call, decision.edits) else "this wrapper"
    if decision.path == _REWRITE and use.call is not None:
        is_of_graphs = is_given_optimizer_of_tf_1(use, analysis)
        return "" if is_of_graphs else "the wrapper that this makes of an optimizer of Keras"
    is_compiled = decision.path == _SET_POLICY and analysis.facts.compiles
    return "the wrapper that compile makes under this policy" if is_compiled else ""
