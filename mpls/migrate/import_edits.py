"""Rewrites import statements, name by name."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from mpls.migrate.analysis import Analysis
from mpls.migrate.replacements import Replacement, alternatives
from mpls.migrate.ruling import Finding, Kind
from mpls.migrate.source_text import Edit
from mpls.migrate.spelling import Spelling, standing_alone
from mpls.names import module_of, named
from mpls.program.scopes import Statement

__all__ = ["edits_of_imports"]

_FROM = re.compile(rb"from\s+([.\w]+)\s+import\b")


def edits_of_imports(analysis: Analysis, spelling: Spelling) -> Iterator[Edit | Finding | Statement]:
    """Yield the edits of a file's imports and what they do; and statements that are replaced as a whole.

    Args:
        analysis: the file.
        spelling: what other edits of the file need to import.
    """
    for statement, _ in analysis.survey.imports:
        node = statement.node
        assert isinstance(node, ast.Import | ast.ImportFrom)
        replaced = [alias for alias in node.names if alias in analysis.aliases]
        if not replaced:
            continue
        yield from _findings(analysis, replaced)
        if isinstance(node, ast.Import):
            for alias in replaced:
                start, end = analysis.text.span(alias)
                yield Edit(start, end, _module(alias, analysis.aliases[alias]))
        else:
            yield from _ImportFrom(analysis, spelling, statement, node).edits()


def _findings(analysis: Analysis, replaced: list[ast.alias]) -> Iterator[Finding]:
    for alias in replaced:
        path, new = analysis.meanings.path_of(alias), analysis.aliases[alias]
        row = named(path)
        assert row is not None
        rule = analysis.rule_of(row) if not row.is_namespace else analysis.rule_within(row)
        if rule is not None:
            text = f"imports {new} in place of {row.path}" if new else f"no longer imports {row.path}"
            yield Finding(analysis.text.span(alias)[0], rule.name, text, Kind.CHANGED)


def _module(alias: ast.alias, home: str) -> str:
    if alias.asname is not None:
        return f"{module_of(home) or 'mpls'} as {alias.asname}"
    # The name of the package is what the statement binds; what is used of the module is spelled out.
    return alias.name.partition(".")[0]


class _ImportFrom:
    """Rewrites a `from … import …`."""

    def __init__(self, analysis: Analysis, spelling: Spelling, statement: Statement, node: ast.ImportFrom) -> None:
        self._text = analysis.text
        self._aliases = analysis.aliases
        self._spelling = spelling
        self._statement = statement
        self._node = node
        self._start, self._end = self._text.span(node)

    def edits(self) -> Iterator[Edit | Statement]:
        """Yield its edits; the statement too if all of it is replaced."""
        stays = [alias for alias in self._node.names if alias not in self._aliases]
        by_home = self._by_home()
        match = _FROM.match(self._text.utf8, self._start, self._end)
        if not stays and len(by_home) == 1 and "" not in by_home and match is not None:
            (home, members) = by_home.popitem()
            yield Edit(*match.span(1), module_of(home))
            for alias, member in members:
                if member != alias.name:
                    yield Edit(*self._text.span(alias), _as(alias, member))
            return
        above, of_names = self._comments() if standing_alone(self._text, self._node) is not None else ([], {})
        names = [(alias, self._text.between(*self._text.span(alias))) for alias in stays]
        lines = self._lines(self._module(), names, of_names) if names else []
        for home, members in by_home.items():
            if home:
                lines += self._lines(
                    module_of(home) or home, [(alias, _as(alias, member)) for alias, member in members], of_names
                )
            else:
                above += [of_names[alias] for alias, _ in members if alias in of_names]
        lines = [*above, *lines]
        if lines:
            yield Edit(self._start, self._end, self._spelling.joined(self._node, lines))
        else:
            yield self._statement
            yield Edit(self._start, self._end, self._spelling.in_place_of(self._statement))

    def _by_home(self) -> dict[str, list[tuple[ast.alias, str]]]:
        """Return the names to import from each module; from one module, if it has all."""
        options: dict[ast.alias, list[Replacement]] = {}
        for alias in self._node.names:
            path = self._aliases.get(alias)
            if path is not None:
                home, _, name = path.rpartition(".")
                options[alias] = alternatives(Replacement(home, name))
        homes = {each.home for found in options.values() for each in found}
        one = [
            home
            for home in sorted(homes)
            if all(any(each.home == home for each in found) for found in options.values())
        ]
        found: dict[str, list[tuple[ast.alias, str]]] = {}
        for alias, replacements in options.items():
            if self._aliases[alias] == "":
                found.setdefault("", []).append((alias, ""))
                continue
            preferred = [each for each in replacements if each.home in one] or replacements
            found.setdefault(preferred[0].home, []).append((alias, preferred[0].name))
        return found

    def _module(self) -> str:
        """Return the module as it is written."""
        match = _FROM.match(self._text.utf8, self._start, self._end)
        return match[1].decode() if match else "." * self._node.level + (self._node.module or "")

    def _comments(self) -> tuple[list[str], dict[ast.alias, str]]:
        """Return the comments on lines of their own inside the statement, and those behind names."""
        source = self._text.between(self._start, self._end)
        above: list[str] = []
        of_names: dict[ast.alias, str] = {}
        for token in tokenize.generate_tokens(io.StringIO(source, newline=None).readline):
            if token.type == tokenize.COMMENT:
                line = self._node.lineno + token.start[0] - 1
                before = [alias for alias in self._node.names if alias.end_lineno == line]
                if before:
                    of_names[before[-1]] = token.string
                else:
                    above.append(token.string)
        return above, of_names

    def _lines(self, module: str, names: list[tuple[ast.alias, str]], comments: dict[ast.alias, str]) -> list[str]:
        """Return the lines of an import of names; each has a line of its own if one of several has a comment."""
        if not any(alias in comments for alias, _ in names):
            return [f"from {module} import {', '.join(name for _, name in names)}"]
        if len(names) == 1:
            ((alias, name),) = names
            return [f"from {module} import {name}  {comments[alias]}"]
        inner = [f"{self._indent}{name},  {comments.get(alias, '')}".rstrip() for alias, name in names]
        return [f"from {module} import (", *inner, ")"]

    @property
    def _indent(self) -> str:
        """The indentation of names on lines of their own."""
        start, _ = self._text.line_span(self._node.lineno)
        outer = self._text.between(start, self._start)
        for alias in self._node.names:
            offset, _ = self._text.span(alias)
            start, _ = self._text.line_span(alias.lineno)
            indent = self._text.between(start, offset)
            if not indent.strip() and indent.startswith(outer) and indent != outer:
                return indent.removeprefix(outer)
        return "    "


def _as(alias: ast.alias, member: str) -> str:
    name = alias.asname or alias.name
    return member if member == name else f"{member} as {name}"
