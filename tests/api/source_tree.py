"""The modules of mpls as syntax trees, for tests of what their source may say."""

from __future__ import annotations

import ast
import functools
import pathlib

ROOT = pathlib.Path(__file__).parents[2]


@functools.cache
def modules() -> dict[str, ast.Module]:
    """Return the syntax trees of all modules of mpls, by dotted name."""
    found = {}
    for path in sorted((ROOT / "mpls").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found[name] = ast.parse(path.read_text())
    return found
