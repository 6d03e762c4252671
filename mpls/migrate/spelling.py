"""How names of mpls are written in a file, and the imports that they need."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mpls.migrate.analysis import Analysis
from mpls.migrate.source_text import Edit, SourceText
from mpls.program.scopes import Region, Statement

__all__ = ["Spelling", "standing_alone"]


class Spelling:
    """Writes paths of mpls, and collects the imports that they need.

    Args:
        analysis: the file.
    """

    def __init__(self, analysis: Analysis) -> None:
        self._text = analysis.text
        self._survey = analysis.survey
        self._present = set(_imported(analysis))
        # Another thing of the file's may have this name.
        own = [alias for alias in _aliases(analysis) if (alias.asname or alias.name).partition(".")[0] == "mpls"]
        is_ours = all(alias.name.partition(".")[0] == "mpls" and alias.asname is None for alias in own)
        self._is_taken = "mpls" in analysis.survey.bound and not (own and is_ours)
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
        if home not in self._present and key not in self._known:
            self._known.add(key)
            places: list[Statement | None] = [*self._places(root, region)]
            for place in places or [None]:
                self._needed.setdefault(place, set()).add(home)
        module = home.replace(".", "_") if self._is_taken else home
        return f"{module}.{name}" if name else module

    def call(self, name: str, arguments: str, place: Statement) -> None:
        """Have a function of the package called behind a statement at the top of the file."""
        self._needed.setdefault(place, set())
        if not self._present:
            self._needed[place].add("mpls")
        self._calls[place] = f"mpls.{name}({arguments})"

    def insertions(self, replaced: set[Statement]) -> Iterator[Edit]:
        """Yield the edits that insert the imports.

        Args:
            replaced: import statements that nothing is left of; the imports take their places.
        """
        for place, homes in self._places_needed().items():
            lines = self._lines(place, homes)
            if lines and place not in replaced:
                yield self._inserted(place, lines)

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

    def in_place_of(self, place: Statement) -> str:
        """Return the imports that take the place of a statement that nothing is left of; "pass" if there are none."""
        lines = self._lines(place, self._places_needed().get(place, set()))
        return self.joined(place.node, lines) if lines else "pass"

    def joined(self, node: ast.stmt, statements: list[str]) -> str:
        """Return statements in the place of one: on lines of their own if it has its own, else after semicolons."""
        indent = standing_alone(self._text, node)
        return "; ".join(statements) if indent is None else f"{self._text.newline}{indent}".join(statements)

    def _statement(self, home: str) -> str:
        return f"import {home} as {home.replace('.', '_')}" if self._is_taken else f"import {home}"

    def _places(self, root: str, region: Region) -> list[Statement]:
        """Return the import statements that a name comes from, as far as code in a scope follows them."""
        if region.holder(root) is None:
            # It comes from an import of all names.
            stars = self._survey.stars
            return [statement for statement, _ in self._survey.imports if statement.node in stars]
        places, seen = [], set()
        waiting = [(root, region)]
        while waiting:
            name, within = waiting.pop()
            for binding in within.find(name):
                value = binding.value
                if isinstance(value, ast.alias):
                    holder = within.holder(name)
                    if holder is not None and region.is_in(holder):
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
        indent = standing_alone(self._text, place.node)
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


def standing_alone(text: SourceText, node: ast.stmt) -> str | None:
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


def _aliases(analysis: Analysis) -> Iterator[ast.alias]:
    for statement, _ in analysis.survey.imports:
        assert isinstance(statement.node, ast.Import | ast.ImportFrom)
        yield from statement.node.names


def _imported(analysis: Analysis) -> Iterator[str]:
    """Yield the modules of mpls that the file imports at its top level."""
    for statement, region in analysis.survey.imports:
        if isinstance(statement.node, ast.Import) and statement.parent is None and region is analysis.survey.module:
            yield from (alias.name for alias in statement.node.names if alias.asname is None)
