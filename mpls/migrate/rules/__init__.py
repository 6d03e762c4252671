"""The rules of the rewriter, one in each file; its docstring says what changes, and why."""

from __future__ import annotations

from mpls.migrate.rules import (
    contrib,
    experimental_policies,
    experimental_wrapper,
    graph_mode,
    loss_scale_calls,
    loss_scale_classes,
    loss_scale_objects,
    names_in_strings,
    public_wrapper,
    removed_policies,
    star_imports,
    unknown_modules,
    version_strings,
)
from mpls.migrate.ruling import Rule

__all__ = ["RULES"]

# Those that change something come first.
RULES: tuple[Rule, ...] = (
    experimental_wrapper.RULE,
    experimental_policies.RULE,
    loss_scale_classes.RULE,
    loss_scale_calls.RULE,
    loss_scale_objects.RULE,
    graph_mode.RULE,
    public_wrapper.RULE,
    contrib.RULE,
    star_imports.RULE,
    names_in_strings.RULE,
    removed_policies.RULE,
    version_strings.RULE,
    unknown_modules.RULE,
)
