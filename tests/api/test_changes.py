"""The table of what mpls changes in modules and classes of others is complete, and stands in CONTRIBUTING.md."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from mpls.patches import CHANGES, table

from .source_tree import ROOT, called, modules, parsed

# What puts something of mpls in the place of an attribute, or a class of it in that of a module's.
CONSTRUCTORS = {"Layer", "WhileNeeded", "Overlay"}
MUTATORS = {"insert", "append", "extend", "pop", "remove", "update", "register", "clear", "setdefault", "dup2"}
SETTERS = {
    "disable_v2_behavior",
    "set_experimental_options",
    "set_enabled",
    "set_class",
    "linecache.cache.update",
}
# Modules in which an object is changed that a program hands over, or that mpls has made: nothing of a module or class.
OF_OBJECTS = {
    "mpls.core.persistence.savers.graph_state": "what belongs to a graph is kept by the graph, under a name of mpls",
    "mpls.core.weights": "the same",
    "mpls.v1.applying": "the collection of train ops of a graph",
    "mpls.upstream.optimizers": "settings of optimizers that a program sets, and the mark of one that is wrapped",
    "mpls.upstream.name_savers": "a saver while it is built",
    "mpls.transfer.settings": "settings of the target of convert_state",
    "mpls.keras.members": "settings of the wrapped optimizer",
    "mpls.keras.policy": "the class of a policy of mpls",
    "mpls.keras.wrapping": "the class of a wrapper of mpls",
    "mpls.cli.choosing": "mpls' own options",
    "mpls.importing.keras2": "what a program sets on a module of Keras 2",
}


def imported_modules(tree: ast.Module) -> set[str]:
    """Return the names by which a module knows modules of others."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(each.asname or each.name).partition(".")[0] for each in node.names}
    return found - {"mpls"}


def root_of(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def changes_in(tree: ast.Module) -> Iterator[str]:
    """Yield the lines in which a module may change what is not of mpls."""
    others = imported_modules(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = called(node)
            last = name.rpartition(".")[2]
            if last in CONSTRUCTORS or last in SETTERS or name in SETTERS:
                yield ast.unparse(node)
            elif last in MUTATORS and isinstance(node.func, ast.Attribute):
                is_event = "events" in name
                is_file = root_of(node.func) == "os" and not name.startswith(("os.environ", "os.dup2"))
                if is_event or (root_of(node.func) in others and not is_file):
                    yield ast.unparse(node)
            elif name in ("setattr", "delattr") and ast.unparse(node.args[0]) not in ("self", "cls"):
                yield ast.unparse(node)
        elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            is_loader = isinstance(node, ast.Attribute) and node.attr in ("loader", "__loader__")
            is_named = isinstance(node, ast.Subscript) and ".load(" in ast.unparse(node)
            if root_of(node) in others or is_loader or is_named:
                yield ast.unparse(node)


def by() -> set[str]:
    return {f"mpls.{name}" for change in CHANGES for name in change.by}


def changing() -> dict[str, list[str]]:
    found = {}
    for name, tree in modules().items():
        lines = list(changes_in(tree))
        if lines and name != "mpls.patches":
            found[name] = lines
    return found


def row_of(module: str) -> str:
    """Return what the table calls a module: itself, or the package that is named as a whole."""
    return "mpls.children.site" if module.startswith("mpls.children.site.") else module


def test_every_module_that_changes_others_is_in_the_table() -> None:
    unknown = {name: lines for name, lines in changing().items() if row_of(name) not in by() and name not in OF_OBJECTS}
    assert unknown == {}


def test_every_module_in_the_table_changes_others() -> None:
    assert by() - {row_of(name) for name in changing()} == set()
    assert set(OF_OBJECTS) - set(changing()) == set(), "an exception that nobody needs"


def test_the_table_is_in_contributing() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    _, _, rest = text.partition("<!-- patches -->\n")
    assert rest.partition("<!-- /patches -->")[0] == table()


@pytest.mark.parametrize(
    "line",
    [
        "import sys\nsys.excepthook = print",
        "import sys\nsys.meta_path.insert(0, finder)",
        "import sys\nsys.modules['name'] = module",
        "import os\nos.environ['NAME'] = '1'",
        "import os\nos.environ.pop('NAME')",
        "import tensorflow as tf\ntf.Variable.assign = ours",
        "import keras\ndel keras.Model.compile",
        "setattr(owner, 'name', ours)",
        "Layer(owner, 'name', make)",
        "spec.loader = ours",
        "set_class(module, ours)",
        "shell.events.register('name', ours)",
    ],
)
def test_a_change_is_seen(line: str) -> None:
    assert len(list(changes_in(parsed(line)))) == 1
