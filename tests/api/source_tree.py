"""The modules of mpls as syntax trees, for tests of what their source may say."""

from __future__ import annotations

import ast
import functools
import pathlib
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[2]


@functools.cache
def modules() -> dict[str, ast.Module]:
    """Return the syntax trees of all modules of mpls, by dotted name; each node knows what it is in."""
    found = {}
    for path in sorted((ROOT / "mpls").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found[name] = parsed(path.read_text())
    return found


def parsed(source: str) -> ast.Module:
    """Return a syntax tree whose nodes have their parents as `parent`."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            child.parent = node  # type: ignore[attr-defined]
    return tree


def around(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what a node is in, from the inside."""
    while hasattr(node, "parent"):
        node = node.parent
        yield node


def functions_around(node: ast.AST) -> list[str]:
    """Return the names of the functions that a node is in, from the inside."""
    return [each.name for each in around(node) if isinstance(each, ast.FunctionDef)]


def is_docstring(node: ast.Constant) -> bool:
    """Return whether a string stands alone, as docstrings do."""
    return isinstance(getattr(node, "parent", None), ast.Expr)


def called(node: ast.AST) -> str:
    """Return the dotted name of what a call calls; an empty string for other nodes."""
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def origins(tree: ast.Module) -> dict[str, str]:
    """Return what the names stand for that a module imports, as dotted names."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.asname or each.name.partition(".")[0]: each.name for each in node.names if each.asname}
            found |= {
                each.name.partition(".")[0]: each.name.partition(".")[0] for each in node.names if not each.asname
            }
        elif isinstance(node, ast.ImportFrom):
            found |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return found
