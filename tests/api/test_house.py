"""The modules of mpls: no imports go in a circle, and only some know private modules of the frameworks."""

from __future__ import annotations

import ast
import graphlib
import re
from collections.abc import Iterator

from .source_tree import modules

# What others than `upstream` may not import: it knows which release has which part of it.
PRIVATE = re.compile(r"tensorflow\.(python|compiler|core)\b|(tf_)?keras\.src\b|keras\._tf_keras\b")


def imports_of(name: str, tree: ast.Module, known: set[str]) -> Iterator[str]:
    """Yield the modules of mpls that a module imports, in functions and for type checkers too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from {each.name for each in node.names} & known - {name}
        elif isinstance(node, ast.ImportFrom):
            paths = [f"{node.module}.{each.name}" for each in node.names]
            yield from {path if path in known else str(node.module) for path in paths} & known - {name}


def private_imports(tree: ast.Module) -> Iterator[str]:
    """Yield the private modules of frameworks that a module imports, by statements or by `import_module`."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{each.name}" for each in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names = [ast.unparse(each).strip("f'") for each in node.args]
        yield from (name for name in names if PRIVATE.match(name))


def test_no_imports_go_in_a_circle() -> None:
    known = set(modules())
    graph = {name: set(imports_of(name, tree, known)) for name, tree in modules().items()}
    assert sum(map(len, graph.values())) > len(known)
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) == len(known)


def test_private_modules_of_frameworks_are_imported_by_upstream_only() -> None:
    found = {name: names for name, tree in modules().items() if (names := list(private_imports(tree)))}
    assert {name: names for name, names in found.items() if not name.startswith("mpls.upstream.")} == {}
    seen = "from tensorflow.python.ops import math_ops\nimport_module('keras.src.backend')"
    assert len(list(private_imports(ast.parse(seen)))) == 2
