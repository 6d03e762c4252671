"""Only `mpls.upstream` touches what frameworks keep private."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator

import pytest

from mpls.upstream.table import ROWS

from .source_tree import called, functions_around, is_docstring, modules, parsed

# Private attributes of Python's own objects.
OF_PYTHON = {"_replace", "_asdict", "_actions"}
# Objects of mpls that are in a variable.
OF_MPLS = {
    ("mpls.core.loss_scale", "loss_scale._loss_scale_value"): "made by the line before",
    ("mpls.keras.state_in_files", "loss_scale._current_loss_scale"): "a DynamicLossScale of mpls, as is checked there",
    ("mpls.keras.state_in_files", "loss_scale._num_good_steps"): "the same",
}
READERS = ("getattr", "setattr", "hasattr", "delattr")
PRIVATE_MODULE = re.compile(
    r"(tensorflow\.(python|compiler|core)|(tf_)?keras\.src|keras\._tf_keras|tf_keras\.api)\b[\w.]*"
)
# Modules that know the historical names of modules, which are data there: nothing is imported by them, but what a
# program of the user imports.
NAMES_OF_OLD = {
    "mpls.hints.gone": "where names of private modules have gone",
    "mpls.hints.keras": "the names that Keras 3 has for its own modules",
    "mpls.importing.keras2": "the package `keras` of Keras 2 had its sources and its API in one",
    "mpls.importing.namespaces": "the modules that `tf.keras` is",
    "mpls.names": "the historical paths",
}
# Of the wrappers of mpls too, whose other modules read it.
OF_BOTH = {"_loss_scale"}
OF_FRAMEWORKS = {row.name for row in ROWS.values() if row.name.startswith("_")} - OF_BOTH
# Modules that have private names of frameworks in strings, as data: no attribute is read by them.
NAMES_AS_DATA = {
    "mpls.formats.algorithms": "names in files",
    "mpls.formats.object_graph": "names in files",
    "mpls.hints.missing_members": "what an error says is missing",
    "mpls.keras.strategies": "a method of users' subclasses, whose name is in an error",
    "mpls.optimizer_members": "what programs use",
}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def defined_in(tree: ast.Module) -> Iterator[str]:
    """Yield the private names that a module defines: functions, classes, variables, attributes of its own objects."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node.value):
            yield node.attr
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and is_vars_of_self(node.value):
            yield str(getattr(node.slice, "value", ""))
        elif called(node) == "vars(self).update":
            assert isinstance(node, ast.Call)
            yield from (each.arg for each in node.keywords if each.arg)


def is_own(receiver: ast.AST) -> bool:
    return ast.unparse(receiver) in ("self", "cls", "type(self)", *classes())


def is_vars_of_self(node: ast.AST) -> bool:
    return ast.unparse(node) == "vars(self)"


@functools.cache
def classes() -> set[str]:
    return {node.name for tree in modules().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def reads(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.AST, str]]:
    """Yield where a private attribute is read or set: the node, the object and the name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node, node.value, node.attr
        elif isinstance(node, ast.Call) and called(node) in READERS and isinstance(node.args[1], ast.Constant):
            yield node, node.args[0], str(node.args[1].value)
        elif isinstance(node, ast.Subscript | ast.Call):
            # vars(x)["_name"], vars(x).get("_name")
            holder = node.value if isinstance(node, ast.Subscript) else getattr(node.func, "value", None)
            key = node.slice if isinstance(node, ast.Subscript) else (node.args or [None])[0]
            if called(holder) == "vars" and isinstance(key, ast.Constant) and isinstance(key.value, str):
                assert isinstance(holder, ast.Call)
                yield node, holder.args[0] if holder.args else holder, key.value


def wrong_uses(tree: ast.Module, own: set[str]) -> list[str]:
    """Return where a module touches private attributes of objects that are not of mpls."""
    found = []
    for node, receiver, name in reads(tree):
        if not is_private(name) or name in OF_PYTHON:
            continue
        if isinstance(receiver, ast.Name) and receiver.id in sys.stdlib_module_names:
            continue
        if name in own and (is_own(receiver) or name not in OF_FRAMEWORKS):
            continue
        # A method that overrides one of a framework's class, which calls it, passes on to it. Where no framework has
        # it any more, none calls it.
        is_passed_on = called(receiver) == "super" or ast.unparse(receiver) == "Trackable"
        if is_passed_on and name in functions_around(node)[:1]:
            continue
        found.append(f"{node.lineno}: {ast.unparse(node)}")  # type: ignore[attr-defined]
    return found


def private_modules(tree: ast.Module) -> list[str]:
    """Return the names of frameworks' private modules in a module, in imports and in strings."""
    found = []
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{each.name}" for each in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not is_docstring(node):
            names = node.value.split()
        found += [f"{node.lineno}: {name}" for name in names if PRIVATE_MODULE.match(name)]  # type: ignore[attr-defined]
    return found


def names_in_strings(tree: ast.Module) -> set[str]:
    """Return the private names of frameworks that a module has in strings."""
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and not is_docstring(node)]
    return {node.value for node in constants if isinstance(node.value, str)} & OF_FRAMEWORKS


def outside() -> dict[str, ast.Module]:
    """Return the modules that touch nothing private: all but `upstream`, and the recorder, which imports nothing."""
    packages = ("mpls.upstream.", "mpls.tracing.")
    return {name: tree for name, tree in modules().items() if not f"{name}.".startswith(packages)}


def test_private_attributes_of_frameworks_are_touched_by_upstream_only() -> None:
    own = {name for tree in modules().values() for name in defined_in(tree) if is_private(name)}
    found = {(name, use.partition(": ")[2]) for name, tree in outside().items() for use in wrong_uses(tree, own)}
    assert found == set(OF_MPLS)


def test_private_modules_of_frameworks_are_named_by_upstream_only() -> None:
    named = {name: uses for name, tree in outside().items() if (uses := private_modules(tree))}
    assert {name: uses for name, uses in named.items() if name not in NAMES_OF_OLD} == {}
    assert set(named) == set(NAMES_OF_OLD), "an exception that nobody needs"


def test_private_names_in_strings_are_data() -> None:
    """A name in a table could reach an attribute that no syntax shows: `vars(optimizer)[name]`."""
    found = {name: names for name, tree in outside().items() if (names := names_in_strings(tree))}
    assert {name: names for name, names in found.items() if name not in NAMES_AS_DATA} == {}
    assert set(found) == set(NAMES_AS_DATA), "an exception that nobody needs"


def test_a_private_name_in_a_string_is_seen() -> None:
    assert names_in_strings(parsed("_NAMES = {'_u_product': 'product'}")) == {"_u_product"}


@pytest.mark.parametrize(
    "line",
    [
        "optimizer._hyper",
        "self._optimizer._slots",
        "self._track_trackable(1)",
        "getattr(optimizer, '_name', None)",
        "vars(optimizer).get('_u_product')",
        "vars(optimizer)['_momentum'] = 1",
        "super()._lookup_dependency('name')",
        "graph._graph_key",
        "model._a_new_one",
    ],
)
def test_a_use_elsewhere_is_seen(line: str) -> None:
    own = {"_optimizer", "_name", "_slots"}
    assert len(wrong_uses(parsed(f"def function(self):\n    {line}\n"), own)) == 1


@pytest.mark.parametrize(
    "line",
    ["import tensorflow.python.eager", "from keras.src import ops", "import_module('tf_keras.src.backend')"],
)
def test_a_private_module_elsewhere_is_seen(line: str) -> None:
    assert len(private_modules(parsed(line))) == 1
