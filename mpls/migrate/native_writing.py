"""How TensorFlow's current names are written in a file, and names of mpls where they cannot be."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from mpls.migrate.replacements import home_of
from mpls.program.scopes import Chain

if TYPE_CHECKING:
    from mpls.migrate.analysis import Analysis

__all__ = ["leave_what_cannot_be_written", "written"]


def written(analysis: Analysis, chain: Chain, node: ast.expr, path: str) -> str | None:
    """Return how a path of TensorFlow's own is written in place of a part of a chain; None if it cannot be.

    Args:
        analysis: the file.
        chain: the chain.
        node: the part.
        path: the path.
    """
    for part in chain.parts[chain.parts.index(node) :: -1]:
        now = analysis.after(part, chain.region)
        if len(now) == 1:
            (start,) = now
            if path == start or path.startswith(f"{start}."):
                return f"{analysis.text.source(part)}{path.removeprefix(start)}"
    return None


def leave_what_cannot_be_written(analysis: Analysis) -> None:
    """Go back to names of mpls where a chain has no part from which TensorFlow's own path can be written.

    Args:
        analysis: the file, with all other decisions made.
    """
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
