"""Tells which uses do not get what `--as-of` asks for: what a skipped step counts for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from mpls.migrate.ruling import Decision, Use
from mpls.migrate.wrapper_calls import EXPERIMENTAL, PUBLIC, arguments_of_release, is_fixed
from mpls.program.meaning import are_optimizers_of_tf_1
from mpls.program.scopes import Role

if TYPE_CHECKING:
    from mpls.migrate.analysis import Analysis

__all__ = ["missing_release"]

_INSTALL = ("mpls", "install")
_REWRITE = "mpls.v1.enable_mixed_precision_graph_rewrite"
_SET_POLICY = "mpls.experimental.set_policy"


def missing_release(use: Use, decision: Decision, analysis: Analysis) -> str:
    """Return what to do where a use makes wrappers that are not told the release of `--as-of`; "" if none are.

    Args:
        use: the use.
        decision: what becomes of it.
        analysis: the file.
    """
    settings = arguments_of_release(analysis)
    if not settings or analysis.kept is not None or any(each.names == _INSTALL for each in analysis.survey.chains):
        return ""
    what = _maker(use, decision, analysis)
    if not what:
        return ""
    advice = f"give it {settings[0]}" if decision.path in (EXPERIMENTAL, PUBLIC) else f"it would be {settings[0]}"
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
        return "" if _is_of_graphs(use, use.call, analysis) else "the wrapper that this makes of an optimizer of Keras"
    return "the wrapper that compile makes under this policy" if decision.path == _SET_POLICY else ""


def _is_of_graphs(use: Use, call: ast.Call, analysis: Analysis) -> bool:
    """Return whether the graph rewrite gets an optimizer of TF 1, over which a skipped step never counts."""
    value = call.args[0] if call.args else None
    bindings = use.chain.region.find(value.id) if isinstance(value, ast.Name) else []
    if bindings:
        value = bindings[0].value if isinstance(bindings[0].value, ast.expr) else None
    if not isinstance(value, ast.Call):
        return False
    return are_optimizers_of_tf_1(analysis.meanings.of(value.func, use.chain.region).paths)
