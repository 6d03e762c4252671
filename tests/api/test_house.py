"""The modules of mpls: what they are called, what they import, and that no imports go in a circle."""

from __future__ import annotations

import ast
import graphlib
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from .source_tree import ROOT, functions_around, modules, parsed

# Names that several modules have, and what they mean in each.
SHARED_NAMES = {
    "graph_rewrite": "the mixed-precision graph rewrite",
    "optimizer": "the optimizer that a package is for",
    "policy": "dtype policies",
    "releases": "in what releases of TensorFlow differ, and how programs ask for them",
}


def imports_of(name: str, tree: ast.Module, known: set[str]) -> Iterator[str]:
    """Yield the modules of mpls that a module imports when it is loaded; not those for type checkers only."""
    for node in ast.walk(tree):
        if functions_around(node) or is_for_type_checkers(node):
            continue
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in known - {name})
        elif isinstance(node, ast.ImportFrom):
            paths = [f"{node.module}.{each.name}" for each in node.names]
            yield from {path if path in known else str(node.module) for path in paths} & known - {name}


def is_for_type_checkers(node: ast.AST) -> bool:
    parent = getattr(node, "parent", None)
    is_guarded = isinstance(parent, ast.If) and "TYPE_CHECKING" in ast.unparse(parent.test)
    return is_guarded and node in parent.body  # type: ignore[union-attr]


def layers() -> list[set[str]]:
    """Return the layers of the contract on imports, the highest first."""
    listed = re.search(r"\nlayers = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(), re.DOTALL)
    assert listed
    return [set(re.findall(r"mpls\.(\w+)", line)) for line in re.findall(r'"(.*)"', listed[1])]


def test_contributing_shows_each_part_in_its_layer() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    picture = re.findall(r"```\n(.*?)```", text, re.DOTALL)[0]
    lines = [set(line[15:].split()) for line in picture.splitlines() if line]
    assert lines == layers()
    rows = "".join(re.findall(r"^\| ((?:`[\w.]+/?` ?)+) \|", text, re.M))
    assert set(re.findall(r"`(\w+)(?:/|\.py)`", rows)) == set().union(*layers())


def test_a_name_of_a_module_has_one_meaning() -> None:
    files = [path for path in (ROOT / "mpls").rglob("*.py") if path.name != "__init__.py"]
    counted = Counter(path.stem for path in files)
    assert {name for name, count in counted.items() if count > 1} == set(SHARED_NAMES)


def test_no_imports_go_in_a_circle() -> None:
    known = set(modules())
    graph = {name: set(imports_of(name, tree, known)) for name, tree in modules().items()}
    assert sum(map(len, graph.values())) > len(known)
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) == len(known)


@pytest.mark.parametrize("line", ["import mpls.keras", "from mpls import keras", "from mpls.keras import x"])
def test_an_import_is_seen(line: str) -> None:
    assert list(imports_of("mpls.v1", parsed(line), {"mpls", "mpls.keras"})) == ["mpls.keras"]
