"""What the names in a file stand for once it is rewritten."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Protocol

from mpls.program.meaning import Meaning, Meanings, Others
from mpls.program.scopes import Binding, Region, Survey

if TYPE_CHECKING:
    from mpls.migrate.analysis import Analysis

__all__ = ["Afterwards", "Files"]

_DEPTH = 20


class Files(Others, Protocol):
    """The other files of the user's, with what becomes of them."""

    def analysis(self, file: str) -> Analysis | None:
        """Return what becomes of a file; None if it cannot be read."""


class Afterwards:
    """What expressions stand for once imports and aliases are replaced.

    Args:
        survey: what was collected in the file.
        meanings: what its names stand for now.
        aliases: imported names that are replaced, each with the path of its replacement.
        others: the other files.

    Attributes:
        becomes: expressions that are replaced, each with the path that it becomes.
        star: the module of mpls whose names are imported in place of all names of a removed module; "" if none is.
    """

    def __init__(self, survey: Survey, meanings: Meanings, aliases: dict[ast.alias, str], others: Files) -> None:
        self.becomes: dict[ast.expr, str] = {}
        self.star = ""
        self._survey = survey
        self._meanings = meanings
        self._aliases = aliases
        self._others = others
        self._asked: set[tuple[int, str]] = set()
        self._known: dict[tuple[int, str], frozenset[str]] = {}

    def forget(self) -> None:
        """Forget what was found out, since decisions have changed."""
        self._known.clear()

    def of(self, node: ast.expr, region: Region, depth: int = 0) -> frozenset[str]:
        """Return the paths that an expression stands for, before it is replaced itself."""
        if node in self.becomes and depth:
            return frozenset((self.becomes[node],))
        if depth > _DEPTH:
            return frozenset()
        if isinstance(node, ast.Attribute):
            return frozenset(
                path for base in self.of(node.value, region, depth + 1) for path in self._member(base, node.attr, depth)
            )
        if isinstance(node, ast.Name):
            return self.of_name(node.id, region, depth)
        if isinstance(node, ast.IfExp | ast.BoolOp):
            values = node.values if isinstance(node, ast.BoolOp) else [node.body, node.orelse]
            return frozenset().union(*[self.of(each, region, depth + 1) for each in values])
        if isinstance(node, ast.NamedExpr):
            return self.of(node.value, region, depth + 1)
        return self._meanings.of(node, region).paths

    def of_name(self, name: str, region: Region, depth: int) -> frozenset[str]:
        """Return the paths that a name in a scope stands for."""
        # Names may be bound to each other in a circle, through several files.
        key = (id(region.holder(name)), name)
        if key in self._known:
            return self._known[key]
        if self.star and region.holder(name) is None:
            return frozenset((f"{self.star}.{name}",))
        if depth > _DEPTH or key in self._asked:
            return frozenset()
        self._asked.add(key)
        found = frozenset().union(*[self._bound(each, depth) for each in region.find(name)])
        self._asked.discard(key)
        if not self._asked and depth < _DEPTH // 2:
            # No part of it was left out.
            self._known[key] = found
        return found

    def _member(self, base: str, attribute: str, depth: int) -> frozenset[str]:
        if not base.startswith("@"):
            return frozenset((f"{base}.{attribute}",))
        other = self._others.analysis(base[1:])
        if other is not None and attribute in other.survey.module.names:
            return other.afterwards.of_name(attribute, other.survey.module, depth + 1)
        return self._meanings.member(Meaning(frozenset((base,)), True), attribute).paths

    def _bound(self, binding: Binding, depth: int) -> frozenset[str]:
        value = binding.value
        if isinstance(value, ast.alias):
            if value in self._aliases:
                return frozenset((self._aliases[value],))
            base = self._meanings.base_of(value)
            if base is None:
                return self._meanings.alias(value).paths
            return frozenset(path for each in base.paths for path in self._member(each, value.name, depth + 1))
        return self.of(value, binding.region, depth + 1) if isinstance(value, ast.expr) else frozenset()
