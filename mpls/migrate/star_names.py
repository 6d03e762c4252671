"""The names that an import of all names of a removed module gave."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from mpls.migrate.replacements import home_of, is_gone
from mpls.names import named, namespaces

if TYPE_CHECKING:
    from mpls.migrate.analysis import Analysis

__all__ = ["STAR_RULE", "names_of_star"]

STAR_RULE = "star-imports"


def names_of_star(node: ast.ImportFrom, analysis: Analysis) -> tuple[str, list[str]]:
    """Return the module of mpls that has all public names of a removed module, and the names; ("", []) if none has.

    Args:
        node: a statement that imports all names of a module.
        analysis: the file that it is in.
    """
    paths = analysis.meanings.module_of(node)
    row = named(next(iter(paths))) if len(paths) == 1 else None
    home = None if row is None or not is_gone(row.path) else home_of(row.path)
    is_active = any(rule.name == STAR_RULE for rule in analysis.rules)
    if row is None or home is None or row.is_private or not is_active or not analysis.applies_within(row.path):
        return "", []
    members = [each.attribute for each in namespaces().get(row.path, ()) if not each.is_namespace]
    return home, sorted(name for name in members if not name.startswith("_"))
