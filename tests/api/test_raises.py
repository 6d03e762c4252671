"""What mpls raises where programs call it is of `mpls.errors`, so that `except MplsError` catches all of it."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from tests.processes import ROOT

PACKAGES = ("contrib", "core", "experimental", "keras", "monitor", "transfer", "upstream", "v1", "install", "inspect")
# Where Python asks for an attribute that is not there.
OF_PYTHON = {"__getattr__", "__get__", "__getattribute__"}


def raised(tree: ast.AST) -> Iterator[str]:
    """Yield the exceptions of Python that a module raises with a text; without one, a method is abstract."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef) and node.name in OF_PYTHON:
            continue
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            name = ast.unparse(node.exc.func)
            found = getattr(builtins, name, None)
            if isinstance(found, type) and issubclass(found, Exception):
                yield f"{node.lineno}: {name}"
        yield from raised(node)


def test_what_is_raised_is_an_error_of_mpls() -> None:
    paths = [path for name in PACKAGES for path in (*ROOT.glob(f"mpls/{name}.py"), *ROOT.glob(f"mpls/{name}/**/*.py"))]
    assert len(paths) > len(PACKAGES)
    assert {str(path): found for path in paths if (found := list(raised(ast.parse(path.read_text()))))} == {}
